//! `Expect: 100-continue`: the client gets 100 when its body is wanted, and only then
//! (RFC 9110 10.1.1).

use crate::setup::{behind, responding};
use scenarios::{Tidegate, Upstream};

const PUT: &str =
    "PUT /in HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\nexpect: 100-continue\r\n\r\n";

/// Reads the body of five bytes and says what it was.
fn reading() -> Upstream {
    Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head().to_ascii_lowercase();
            // The expectation is ours to meet: the body comes when the server is there for it.
            assert!(!head.contains("expect"), "{head}");
            let body = String::from_utf8(peer.read_exactly(5)).expect("text");
            peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n{body}"));
        }
    })
}

#[test]
fn the_client_gets_100_once_its_body_is_wanted() {
    let upstream = reading();
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = server.connect("web");
    for _ in 0..3 {
        client.send(PUT);
        client.expect("HTTP/1.1 100 Continue\r\n\r\n");
        client.send("hello");
        let response = client.read_response();
        assert_eq!((response.status, response.text().as_str()), (200, "hello"));
        assert_eq!(response.header("connection"), None);
    }
}

#[test]
fn a_client_that_does_not_wait_gets_no_100() {
    let upstream = reading();
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = server.connect("web");
    client.send(format!("{PUT}hello"));
    let response = client.read_response();
    assert_eq!((response.status, response.text().as_str()), (200, "hello"));
}

#[test]
fn it_comes_behind_the_responses_ahead_of_it() {
    let upstream = reading();
    let config = behind(&upstream, "").replace(
        "routes: [",
        "routes: [{ match: { path: /ping }, handler: { respond: { body: pong } } }, ",
    );
    let server = Tidegate::start(&config);
    let mut client = server.connect("web");
    client.send(format!("GET /ping HTTP/1.1\r\nhost: a\r\n\r\n{PUT}"));
    assert_eq!(client.read_response().text(), "pong");
    client.expect("HTTP/1.1 100 Continue\r\n\r\n");
    client.send("hello");
    assert_eq!(client.read_response().text(), "hello");
}

#[test]
fn http10_never_gets_100() {
    let upstream = reading();
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = server.connect("web");
    client.send(PUT.replace("HTTP/1.1", "HTTP/1.0"));
    client.send("hello");
    assert_eq!(client.read_response().status, 200);
}

#[test]
fn a_final_response_instead_of_100_ends_the_connection() {
    let server = Tidegate::start(&responding(""));
    for (path, status) in [("/ping", 200), ("/none", 404)] {
        let mut client = server.connect("web");
        client.send(PUT.replace("/in", path));
        let response = client.read_response();
        // The next bytes could be the body or a request.
        assert_eq!((response.status, response.header("connection")), (status, Some("close")));
        client.expect_closed();
    }
    let reason = [("reason", "body_unread")];
    server.wait_for_metric("tidegate_connections_closed_total", &reason, 2.0);
}

#[test]
fn a_body_that_is_too_large_is_not_requested() {
    let upstream = reading();
    let server = Tidegate::start(&behind(&upstream, "limits: { body: 4B }"));
    let mut client = server.connect("web");
    client.send(PUT);
    let response = client.read_response();
    assert_eq!((response.status, response.header("connection")), (413, Some("close")));
    client.expect_closed();
    assert_eq!(upstream.accepted(), 0);
}

#[test]
fn what_else_is_expected_cannot_be_met() {
    let server = Tidegate::start(&responding(""));
    let mut client = server.connect("web");
    client.send("PUT /ping HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\nexpect: a-pony\r\n\r\n");
    let response = client.read_response();
    assert_eq!((response.status, response.header("connection")), (417, Some("close")));
    client.expect_closed();
}
