//! A connection carries request after request until one side closes it, and what a request
//! leaves unread of its body never becomes the next request.

use crate::setup::responding;
use scenarios::Tidegate;

#[test]
fn a_connection_persists_after_every_kind_of_response() {
    let server = Tidegate::start(&responding(""));
    let mut client = server.connect("web");
    let requests = [
        ("GET /ping HTTP/1.1\r\nhost: a\r\n\r\n", 200),
        ("GET /none HTTP/1.1\r\nhost: a\r\n\r\n", 404),
        ("POST /ping HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello", 200),
        ("GET /slow HTTP/1.1\r\nhost: a\r\nconnection: keep-alive\r\n\r\n", 200),
        ("DELETE /none HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi", 404),
        ("GET /ping HTTP/1.1\r\nhost: a\r\n\r\n", 200),
    ];
    for (request, status) in requests {
        client.send(request);
        let response = client.read_response();
        assert_eq!(response.status, status, "{request:?}");
        // Persistence is HTTP/1.1's default: nothing is said about it.
        assert_eq!(response.header("connection"), None, "{request:?}");
    }
    server.wait_for_metric("tidegate_responses_total", &[], requests.len() as f64);
    assert_eq!(server.metrics().sum("tidegate_connections_accepted_total", &[]), 1.0);
}

#[test]
fn close_is_obeyed_wherever_it_stands() {
    let server = Tidegate::start(&responding(""));
    for connection in ["close", "x, CLOSE", "keep-alive\r\nconnection: close"] {
        let mut client = server.connect("web");
        client.send(format!("GET /ping HTTP/1.1\r\nhost: a\r\nconnection: {connection}\r\n\r\n"));
        let response = client.read_response();
        assert_eq!((response.status, response.header("connection")), (200, Some("close")));
        client.expect_closed();
    }
    let reason = [("reason", "close_requested"), ("fault", "normal")];
    server.wait_for_metric("tidegate_connections_closed_total", &reason, 3.0);
}

#[test]
fn a_short_rest_of_a_body_is_read_away() {
    let server = Tidegate::start(&responding(""));
    let mut client = server.connect("web");
    // The body looks like a request: it must not be taken for one.
    let inner = "GET /none HTTP/1.1\r\nhost: a\r\n\r\n";
    client.send(format!("POST /ping?n=1 HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n", 1000));
    let first = client.read_response();
    assert_eq!((first.status, first.header("x-n")), (200, Some("1")));
    client.send(format!("{inner}{}", " ".repeat(1000 - inner.len())));
    client.send("GET /ping?n=2 HTTP/1.1\r\nhost: a\r\n\r\n");
    let second = client.read_response();
    assert_eq!((second.status, second.header("x-n")), (200, Some("2")));
}

#[test]
fn the_response_does_not_wait_for_the_rest_of_the_body() {
    let server = Tidegate::start(&responding(""));
    let mut client = server.connect("web");
    for (path, status) in [("/ping", 200), ("/none", 404), ("/slow", 200)] {
        // A part of the body has come with the head.
        client.send(format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\npart"));
        assert_eq!(client.read_response().status, status);
        client.send("whole");
    }
}

#[test]
fn a_long_rest_of_a_body_ends_the_connection() {
    let server = Tidegate::start(&responding(""));
    let mut client = server.connect("web");
    client.send("POST /ping HTTP/1.1\r\nhost: a\r\ncontent-length: 10000000\r\n\r\nsome");
    let response = client.read_response();
    assert_eq!((response.status, response.header("connection")), (200, Some("close")));
    // The client may still be sending: it can read what was said before anything is cut.
    client.try_send("more");
    client.expect_closed();
    drop(client);
    let reason = [("reason", "body_unread")];
    server.wait_for_metric("tidegate_connections_closed_total", &reason, 1.0);
}

#[test]
fn a_client_that_closes_between_requests_is_not_a_fault() {
    let server = Tidegate::start(&responding(""));
    let mut client = server.connect("web");
    client.send("GET /ping HTTP/1.1\r\nhost: a\r\n\r\n");
    client.read_response();
    drop(client);
    let reason = [("reason", "client_closed"), ("fault", "normal")];
    server.wait_for_metric("tidegate_connections_closed_total", &reason, 1.0);
}
