//! What a fetch of the cache carries to the origin and back to the client that caused it, and what
//! a response that cannot be stored costs.

use std::sync::Arc;

use scenarios::{Tidegate, Upstream};

use super::{Origin, cache, cache_status, config, get, is_hit, origin_response, send_line};

const KEPT: &str = "cache-control: max-age=60\r\n";
const PASSED: &str = "cache-control: no-store\r\netag: \"a\"\r\n";

#[test]
fn a_fetch_has_the_forwarding_fields_of_its_client() {
    let origin = Origin::counting(KEPT);
    let server = cache(&origin, "");
    get(&server, "/", "");
    let head = origin.last();
    for line in
        ["x-forwarded-for: 127.0.0.1", "x-forwarded-proto: http", "x-forwarded-host: shop.example"]
    {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{line}: {head}");
    }
    assert!(is_hit(&get(&server, "/", "")));
}

/// What the client wrote itself does not count in the key, so it is not sent.
#[test]
fn a_fetch_says_nothing_that_the_client_made_up() {
    let origin = Origin::counting(KEPT);
    let believing = format!("{}trusted_proxies: [127.0.0.0/8]\n", config(&origin, "", "64MiB"));
    let server = Tidegate::start(&believing);
    get(&server, "/", "x-forwarded-for: evil, 198.51.100.1, 127.0.0.9\r\n");
    let chain = "x-forwarded-for: 198.51.100.1, 127.0.0.9, 127.0.0.1\r\n";
    assert!(origin.last().contains(chain), "{}", origin.last());
    get(&server, "/b", "x-forwarded-for: evil\r\n");
    assert!(!origin.last().contains("evil"), "{}", origin.last());
}

#[test]
fn what_varies_by_the_clients_address_is_not_stored() {
    for field in ["X-Forwarded-For", "forwarded"] {
        let fields = format!("{KEPT}vary: {field}\r\n");
        let origin = Origin::start(move |_, _| origin_response(200, &fields, b"yours"));
        let server = cache(&origin, "");
        get(&server, "/", "");
        assert!(!is_hit(&get(&server, "/", "")), "{field}");
    }
}

#[test]
fn interim_responses_reach_the_client_that_caused_the_fetch() {
    let upstream = Upstream::start(|peer| {
        while !peer.at_end() {
            peer.read_head();
            peer.send("HTTP/1.1 102 Processing\r\n\r\n");
            peer.send("HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n");
            peer.send(origin_response(200, KEPT, b"content"));
        }
    });
    let origin = Origin { upstream, heads: Arc::default() };
    let server = cache(&origin, "");
    let mut client = server.connect("web");
    for round in 0..2 {
        client.send("GET / HTTP/1.1\r\nhost: shop.example\r\n\r\n");
        if round == 0 {
            assert_eq!(client.read_response().status, 102);
            let hints = client.read_response();
            assert_eq!((hints.status, hints.header("link")), (103, Some("</a.css>; rel=preload")));
        }
        let end = client.read_response();
        assert_eq!((end.status, end.text().as_str()), (200, "content"));
        assert_eq!(is_hit(&end), round == 1, "{end:?}");
    }
}

#[test]
fn head_stays_head_where_nothing_can_be_stored() {
    let origin = Origin::start(|head, _| match head.starts_with("HEAD ") {
        true => format!("HTTP/1.1 200 OK\r\n{PASSED}content-length: 7\r\n\r\n").into_bytes(),
        false => origin_response(200, PASSED, b"content"),
    });
    let server = cache(&origin, "");
    get(&server, "/", "");
    let head = send_line(&server, "HEAD /", "");
    assert_eq!((head.status, head.header("content-length")), (200, Some("7")));
    assert!(origin.last().starts_with("head / "), "{}", origin.last());
}

#[test]
fn a_first_request_for_a_part_of_what_is_not_stored_causes_one_fetch() {
    let origin = Origin::start(|_, _| origin_response(200, PASSED, b"0123456789"));
    let server = cache(&origin, "");
    let part = get(&server, "/a", "range: bytes=2-4\r\n");
    assert_eq!((part.status, part.text().as_str()), (206, "234"), "{part:?}");
    assert_eq!(part.header("content-range"), Some("bytes 2-4/10"));
    assert!(cache_status(&part).ends_with("detail=no_store"), "{part:?}");
    let unchanged = get(&server, "/b", "if-none-match: \"a\"\r\n");
    assert_eq!((unchanged.status, unchanged.header("etag")), (304, Some("\"a\"")));
    let other = get(&server, "/c", "range: bytes=2-4\r\nif-range: \"b\"\r\n");
    assert_eq!((other.status, other.text().as_str()), (200, "0123456789"));
    let past = get(&server, "/d", "range: bytes=10-\r\n");
    assert_eq!((past.status, past.header("content-range")), (416, Some("bytes */10")));
    assert_eq!(origin.fetches(), 4);
}

/// RFC 9110 14.4: it means nothing in a 200.
#[test]
fn a_whole_response_with_content_range_is_stored_without_it() {
    let fields = "cache-control: max-age=60\r\ncontent-range: bytes 0-6/7\r\n";
    let origin = Origin::counting(fields);
    let server = cache(&origin, "");
    get(&server, "/", "");
    let hit = get(&server, "/", "");
    assert!(is_hit(&hit) && hit.header("content-range").is_none(), "{hit:?}");
}
