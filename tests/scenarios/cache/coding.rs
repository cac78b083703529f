//! Codings: the origin is asked for what we want, clients get what they want.

use super::{Origin, answer, cache, get, is_hit};

/// `"hello "` twenty times, as gzip.
const GZIPPED: &[u8] =
    b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xcb\x48\xcd\xc9\xc9\x57\xc8\xa0\x3b\x09\x00\
    \x2f\xfa\xf8\x48\x78\x00\x00\x00";
const KEPT: &str = "cache-control: max-age=60\r\ncontent-type: text/plain\r\netag: \"a\"\r\n";

fn gzipping() -> Origin {
    Origin::start(|head, _| {
        assert!(head.to_ascii_lowercase().contains("accept-encoding: gzip\r\n"), "{head}");
        answer(200, &format!("{KEPT}content-encoding: gzip\r\n"), GZIPPED)
    })
}

#[test]
fn who_takes_gzip_gets_it_and_who_does_not_gets_it_plain() {
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
        assert_eq!(origin.asked(), 1);
    }
}

#[test]
fn both_forms_have_tags_of_their_own() {
    let origin = gzipping();
    let server = cache(&origin, "codings: { offer: [gzip] }");
    let tag = |fields: &str| {
        let answer = get(&server, "/", fields);
        answer.header("etag").expect("a tag").to_owned()
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
