//! 1xx, 204 and 304 have no body, whatever anybody says (RFC 9110 15, RFC 9112 6.3).

use crate::setup::behind;
use scenarios::{Tidegate, Upstream};

#[test]
fn respond_sends_no_body_with_them() {
    let config = r#"
workers: 2
listeners: { web: { bind: "127.0.0.1:0" } }
routes:
  - { match: { path: "/204" }, handler: { respond: { status: 204, body: "never" } } }
  - { match: { path: "/304" }, handler: { respond: { status: 304, body: "never" } } }
  - { match: { path: "/200" }, handler: { respond: { body: "ever" } } }
"#;
    let server = Tidegate::start(config);
    let mut client = server.connect("web");
    for status in [204, 304, 204] {
        client.send(format!("GET /{status} HTTP/1.1\r\nhost: a\r\n\r\n"));
        let response = client.read_response();
        assert_eq!(response.status, status);
        assert_eq!(response.header("transfer-encoding"), None);
        if status == 204 {
            // RFC 9110 8.6: MUST NOT.
            assert_eq!(response.header("content-length"), None);
        }
        // Had a body followed, it would be read as part of this one.
        client.send("GET /200 HTTP/1.1\r\nhost: a\r\n\r\n");
        assert_eq!(client.read_response().text(), "ever");
    }
}

#[test]
fn the_framing_an_upstream_gives_them_is_not_a_body() {
    let upstream = Upstream::start(|peer| {
        for response in [
            "HTTP/1.1 204 No Content\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 304 Not Modified\r\ncontent-length: 77\r\netag: \"e\"\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        ] {
            peer.read_head();
            peer.send(response);
        }
        peer.at_end();
    });
    let server = Tidegate::start(&behind(&upstream, "").replace("workers: 2", "workers: 1"));
    let mut client = server.connect("web");
    let mut get = || {
        client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
        client.read_response()
    };
    let empty = get();
    assert_eq!((empty.status, empty.header("content-length")), (204, None));
    let unchanged = get();
    assert_eq!((unchanged.status, unchanged.header("etag")), (304, Some("\"e\"")));
    // RFC 9110 15.4.5: the length a 200 would have had may be told.
    assert_eq!(unchanged.header("content-length"), Some("77"));
    assert_eq!(get().text(), "ok");
    assert_eq!(upstream.accepted(), 1);
}

#[test]
fn early_hints_come_before_the_response_and_other_interim_responses_stay_behind() {
    let upstream = Upstream::start(|peer| {
        while !peer.at_end() {
            peer.read_head();
            peer.send("HTTP/1.1 100 Continue\r\n\r\n");
            peer.send("HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n");
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
        }
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = server.connect("web");
    for _ in 0..2 {
        client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
        let hints = client.read_response();
        assert_eq!((hints.status, hints.header("link")), (103, Some("</a.css>; rel=preload")));
        let response = client.read_response();
        assert_eq!((response.status, response.text().as_str()), (200, "ok"));
    }
}
