//! Codings: the origin is asked for what we want, clients get what they want.

use super::{Origin, cache, get, is_hit, origin_response};

/// `"hello "` twenty times, as gzip.
const GZIPPED: &[u8] =
    b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcb\x48\xcd\xc9\xc9\x57\xc8\xa0\x3b\x09\x00\
    \x2f\xfa\xf8\x48\x78\x00\x00\x00";
const KEPT: &str = "cache-control: max-age=60\r\ncontent-type: text/plain\r\netag: \"a\"\r\n";

fn gzipping() -> Origin {
    Origin::start(|head, _| {
        assert!(head.to_ascii_lowercase().contains("accept-encoding: gzip\r\n"), "{head}");
        origin_response(200, &format!("{KEPT}content-encoding: gzip\r\n"), GZIPPED)
    })
}

#[test]
fn a_client_gets_gzip_if_it_accepts_it_and_plain_otherwise() {
    for first in ["accept-encoding: gzip\r\n", ""] {
        let origin = gzipping();
        let server = cache(&origin, "codings: { offer: [gzip] }");
        get(&server, "/", first);
        let coded = get(&server, "/", "accept-encoding: gzip\r\n");
        assert_eq!(coded.header("content-encoding"), Some("gzip"), "{coded:?}");
        assert!(is_hit(&coded) && coded.body == GZIPPED, "{coded:?}");
        for fields in ["", "accept-encoding: gzip;q=0, identity\r\n"] {
            let plain = get(&server, "/", fields);
            assert_eq!(plain.header("content-encoding"), None, "{plain:?}");
            assert_eq!(plain.text(), "hello ".repeat(20), "{plain:?}");
        }
        for told in [coded, get(&server, "/", "")] {
            let vary = told.header("vary").unwrap_or_default().to_ascii_lowercase();
            assert!(vary.contains("accept-encoding"), "{told:?}");
        }
        assert_eq!(origin.fetches(), 1);
    }
}

#[test]
fn both_forms_have_tags_of_their_own() {
    let origin = gzipping();
    let server = cache(&origin, "codings: { offer: [gzip] }");
    let tag = |fields: &str| {
        let response = get(&server, "/", fields);
        response.header("etag").expect("a tag").to_owned()
    };
    let coded = "accept-encoding: gzip\r\n";
    get(&server, "/", coded);
    let (one, other) = (tag(coded), tag(""));
    assert_ne!(one, other, "RFC 9110 8.8.3");
    for (fields, tag) in [(coded, &one), ("", &other)] {
        let told = get(&server, "/", &format!("{fields}if-none-match: {tag}\r\n"));
        assert_eq!(told.status, 304, "{told:?}");
    }
}

/// The content is long and even: every coding makes it shorter.
#[test]
fn other_codings_are_made_once() {
    let text = "All work and no play makes the cache a dull box.\n".repeat(200);
    let body = text.clone();
    let origin = Origin::start(move |_, _| origin_response(200, KEPT, body.as_bytes()));
    let server = cache(&origin, "codings: { offer: [br, gzip], best_after: 0 }");
    get(&server, "/", "");
    for (accepted, coding) in [("gzip", "gzip"), ("br;q=0.5, gzip;q=0.4", "br")] {
        let fields = format!("accept-encoding: {accepted}\r\n");
        // The first client may get it as received.
        get(&server, "/", &fields);
        let labels = [("cache", "pages"), ("coding", coding)];
        server.wait_for_metric("tidegate_cache_derived_bytes_total", &labels, 1.0);
        let coded = get(&server, "/", &fields);
        assert_eq!(coded.header("content-encoding"), Some(coding), "{coded:?}");
        assert!(is_hit(&coded) && coded.body.len() < text.len() / 4, "{coded:?}");
        let metrics = server.metrics();
        let made = metrics.sum("tidegate_cache_derive_seconds_count", &labels);
        assert_eq!(made, 1.0, "{coding}");
    }
    assert_eq!(get(&server, "/", "").text(), text);
    assert_eq!(origin.fetches(), 1);
}

#[test]
fn what_is_short_or_of_another_kind_stays_as_it_is() {
    let origin = Origin::start(|head, _| {
        let fields = "cache-control: max-age=60\r\ncontent-type: ";
        match head.starts_with("GET /short ") {
            true => origin_response(200, &format!("{fields}text/plain\r\n"), b"short"),
            false => origin_response(200, &format!("{fields}image/png\r\n"), &[b'x'; 5000]),
        }
    });
    let server = cache(&origin, "");
    for path in ["/short", "/image"] {
        for _ in 0..3 {
            let plain = get(&server, path, "accept-encoding: br, gzip, zstd\r\n");
            assert_eq!(plain.header("content-encoding"), None, "{plain:?}");
        }
    }
    assert!(!server.metrics().has("tidegate_cache_derived_bytes_total"));
}

/// A response that is never compressed does not say that it varies.
#[test]
fn only_what_can_have_codings_varies_by_them() {
    for (fields, length, varies) in [
        ("content-type: text/html\r\n", 100, false),
        ("content-type: text/html\r\n", 5000, true),
        ("content-type: text/html\r\ncache-control: no-transform\r\n", 5000, false),
        ("content-type: image/png\r\n", 5000, false),
    ] {
        let fields = format!("cache-control: max-age=60\r\n{fields}");
        let origin = Origin::start(move |_, _| origin_response(200, &fields, &vec![b'x'; length]));
        let server = cache(&origin, "");
        for _ in 0..2 {
            let got = get(&server, "/", "");
            let cache_status = got.header("vary").is_some_and(|vary| vary == "Accept-Encoding");
            assert_eq!(cache_status, varies, "{length}: {got:?}");
        }
    }
}
