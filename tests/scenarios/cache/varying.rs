//! Vary: variants of one URL, and what spellings have in common.

use super::{Origin, cache, cache_status, get, is_hit, origin_response, purge};

/// Answers in the language it was asked for.
fn speaking() -> Origin {
    Origin::start(|head, _| {
        let head = head.to_ascii_lowercase();
        let fetches = head.lines().find_map(|line| line.strip_prefix("accept-language: "));
        let fields = "cache-control: max-age=60\r\nvary: Accept-Language\r\n";
        origin_response(200, fields, fetches.unwrap_or("none").as_bytes())
    })
}

#[test]
fn each_variant_is_stored() {
    let origin = speaking();
    let server = cache(&origin, "");
    for (language, wanted) in [("de", "de"), ("fr", "fr")] {
        let first = get(&server, "/", &format!("accept-language: {language}\r\n"));
        assert!(!is_hit(&first) && first.text() == wanted, "{first:?}");
    }
    for language in ["de", "fr"] {
        let again = get(&server, "/", &format!("accept-language: {language}\r\n"));
        assert!(is_hit(&again) && again.text() == language, "{again:?}");
    }
    let other = get(&server, "/", "");
    assert!(cache_status(&other).starts_with("fwd=vary-miss"), "{other:?}");
    assert_eq!(other.text(), "none");
    assert_eq!(purge(&server, r#"{"url": "http://shop.example/"}"#), 3);
}

#[test]
fn spellings_come_down_to_the_languages_there_are() {
    let origin = speaking();
    let server = cache(&origin, "languages: [en, de]");
    get(&server, "/", "accept-language: de-AT, de;q=0.9, en;q=0.5\r\n");
    assert!(is_hit(&get(&server, "/", "accept-language: de\r\n")));
    assert!(!is_hit(&get(&server, "/", "accept-language: en-GB\r\n")));
    assert!(is_hit(&get(&server, "/", "accept-language: fr, en;q=0.1\r\n")));
}

#[test]
fn variants_are_bounded() {
    let origin = speaking();
    let server = cache(&origin, "variants: 2");
    for language in ["a", "b", "c", "d"] {
        get(&server, "/", &format!("accept-language: {language}\r\n"));
    }
    assert!(purge(&server, r#"{"url": "http://shop.example/"}"#) <= 2);
}
