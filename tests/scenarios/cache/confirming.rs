//! Validators: clients that have it already, and an origin that is asked whether it still holds.

use super::{Origin, cache, cache_status, get, is_hit, origin_response};

#[test]
fn a_client_with_a_current_copy_gets_304() {
    let fields = "cache-control: max-age=60\r\netag: \"a\"\r\n";
    let origin = Origin::counting(fields);
    let server = cache(&origin, "");
    get(&server, "/", "");
    for (condition, status) in
        [("\"a\"", 304), ("W/\"a\"", 304), ("\"x\", \"a\"", 304), ("\"b\"", 200)]
    {
        let told = get(&server, "/", &format!("if-none-match: {condition}\r\n"));
        assert!(told.status == status && is_hit(&told), "{condition}: {told:?}");
        assert_eq!(told.header("etag"), Some("\"a\""));
    }
    assert_eq!(origin.fetches(), 1);
}

#[test]
fn what_is_stale_is_confirmed_by_a_304_whose_fields_count() {
    let origin = Origin::start(|head, _| {
        if head.to_ascii_lowercase().contains("if-none-match: \"a\"") {
            let head = "HTTP/1.1 304 Not Modified\r\ncache-control: max-age=60\r\n";
            return format!("{head}etag: \"a\"\r\nx-new: 1\r\n\r\n").into_bytes();
        }
        origin_response(200, "cache-control: max-age=60\r\nage: 60\r\netag: \"a\"\r\n", b"the body")
    });
    let server = cache(&origin, "");
    get(&server, "/", "");
    let second = get(&server, "/", "");
    assert_eq!((second.status, second.text().as_str()), (200, "the body"), "{second:?}");
    assert!(origin.last().contains("if-none-match: \"a\""), "{}", origin.last());
    assert!(cache_status(&second).starts_with("fwd=stale"), "{second:?}");
    assert_eq!(second.header("x-new"), Some("1"), "RFC 9111 3.2");
    let third = get(&server, "/", "");
    assert!(is_hit(&third) && third.header("x-new") == Some("1"), "{third:?}");
    assert_eq!(origin.fetches(), 2);
    let valid = [("result", "valid")];
    assert_eq!(server.metrics().sum("tidegate_cache_revalidations_total", &valid), 1.0);
}

#[test]
fn a_reload_revalidates_unless_request_directives_are_ignored() {
    let reload = "cache-control: no-cache\r\n";
    for (entry, fetches) in [("", 2), ("honour_request: false", 1)] {
        let origin = Origin::counting("cache-control: max-age=60\r\n");
        let server = cache(&origin, entry);
        get(&server, "/", "");
        get(&server, "/", reload);
        assert_eq!(origin.fetches(), fetches, "{entry}");
    }
}

#[test]
fn only_if_cached_fetches_nothing() {
    let origin = Origin::counting("cache-control: max-age=60\r\n");
    let server = cache(&origin, "");
    let only = "cache-control: only-if-cached\r\n";
    assert_eq!(get(&server, "/", only).status, 504);
    assert_eq!(origin.fetches(), 0);
    get(&server, "/", "");
    assert!(is_hit(&get(&server, "/", only)));
}
