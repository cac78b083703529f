//! RFC 9111 4.4: stored responses that unsafe requests invalidate.

use super::fields;
use crate::rules::invalidate;

const ORIGIN: &[u8] = b"https://example.com";

fn targets(target: &str, status: u16, headers: &str) -> Vec<String> {
    let found = invalidate::targets(ORIGIN, target.as_bytes(), status, &fields(headers));
    found.targets.into_iter().map(|target| String::from_utf8(target).unwrap()).collect()
}

#[test]
fn s4_4_the_target_is_invalidated_by_a_response_that_is_not_an_error() {
    for status in [200, 201, 204, 301, 303, 399] {
        assert_eq!(targets("/a?b", status, ""), ["/a?b"], "{status}");
    }
    for status in [400, 404, 409, 500, 503] {
        assert!(targets("/a", status, "Location: /b").is_empty(), "{status}");
    }
}

#[test]
fn s4_4_location_and_content_location_are_invalidated_too() {
    for (reference, target) in [
        ("/x?y", "/x?y"),
        ("/x#y", "/x"),
        ("x", "/a/x"),
        ("./x", "/a/x"),
        ("../x", "/x"),
        ("../../../x", "/x"),
        ("/m/./n/../o", "/m/o"),
        ("..", "/"),
        ("x/", "/a/x/"),
        ("?z", "/a/b?z"),
        ("https://example.com/x", "/x"),
        ("HTTPS://EXAMPLE.COM/x", "/x"),
        ("https://example.com:443/x", "/x"),
        ("https://example.com", "/"),
        ("https://example.com?q", "/?q"),
        ("//example.com/x", "/x"),
        ("x:y/z", ""),
    ] {
        for name in ["Location", "Content-Location"] {
            let found = targets("/a/b?c", 201, &format!("{name}: {reference}"));
            let expected: Vec<&str> =
                ["/a/b?c", target].into_iter().filter(|target| !target.is_empty()).collect();
            assert_eq!(found, expected, "{reference}");
        }
    }
    let both = targets("/a", 201, "Location: /a\nContent-Location: /b\nLocation: /b");
    assert_eq!(both, ["/a", "/b"], "each once");
}

#[test]
fn s4_4_another_origin_is_never_invalidated() {
    for reference in [
        "http://example.com/x",
        "https://example.org/x",
        "https://example.com:8443/x",
        "https://example.com.evil/x",
        "https://user@example.com/x",
        "//example.org/x",
        "mailto:a@example.com",
        "https:/x",
        "javascript:x",
    ] {
        assert_eq!(targets("/a", 201, &format!("Location: {reference}")), ["/a"], "{reference}");
    }
}
