//! HTTP/1.0 clients: one request a connection unless keep-alive is said aloud, no chunks, no 1xx.

use crate::setup::{behind, responding};
use scenarios::{Tidegate, Upstream};

#[test]
fn one_request_a_connection() {
    let server = Tidegate::start(&responding(""));
    let mut client = server.connect("web");
    client.send("GET /ping HTTP/1.0\r\n\r\n");
    let response = client.read_response();
    assert_eq!((response.status, response.header("connection")), (200, Some("close")));
    // RFC 9110 6.2: the version is that of the server, not that of the request.
    assert_eq!((response.version.as_str(), response.text().as_str()), ("HTTP/1.1", "pong"));
    client.expect_closed();
}

#[test]
fn keep_alive_is_confirmed_explicitly() {
    let server = Tidegate::start(&responding(""));
    let mut client = server.connect("web");
    for _ in 0..3 {
        client.send("GET /ping HTTP/1.0\r\nhost: a\r\nconnection: Keep-Alive\r\n\r\n");
        let response = client.read_response();
        assert_eq!((response.status, response.header("connection")), (200, Some("keep-alive")));
        assert_eq!(response.header("content-length"), Some("4"));
    }
    client.send("GET /ping HTTP/1.0\r\nhost: a\r\n\r\n");
    assert_eq!(client.read_response().header("connection"), Some("close"));
    client.expect_closed();
}

#[test]
fn a_body_of_unknown_length_ends_with_the_connection() {
    let upstream = Upstream::responding(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: t\r\n\r\n\
         5\r\nhello\r\n6\r\n world\r\n0\r\nt: u\r\n\r\n",
    );
    let server = Tidegate::start(&behind(&upstream, ""));
    for keep in ["", "connection: keep-alive\r\n"] {
        let mut client = server.connect("web");
        client.send(format!("GET / HTTP/1.0\r\nhost: a\r\n{keep}\r\n"));
        let response = client.read_response();
        assert_eq!(response.header("transfer-encoding"), None);
        assert_eq!(response.header("trailer"), None);
        // If the whole body was there at once its length is known, and the connection may persist.
        let expected = match response.header("content-length") {
            Some(length) => {
                assert_eq!(length, "11");
                if keep.is_empty() { "close" } else { "keep-alive" }
            }
            None => "close",
        };
        assert_eq!(response.header("connection"), Some(expected));
        assert_eq!(response.text(), "hello world");
        if expected == "close" {
            client.expect_closed();
        }
    }
}

#[test]
fn a_body_that_arrives_over_time_ends_with_the_connection() {
    let (go_on, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let upstream = Upstream::start(move |peer| {
        peer.read_head();
        peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n");
        // The rest comes once the client has the beginning.
        let _ = wait.lock().expect("no panic").recv();
        peer.send("6\r\n world\r\n0\r\n\r\n");
        peer.at_end();
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = server.connect("web");
    client.send("GET / HTTP/1.0\r\nhost: a\r\nconnection: keep-alive\r\n\r\n");
    let head = client.read_head().to_ascii_lowercase();
    assert!(head.contains("\r\nconnection: close\r\n"), "{head}");
    assert!(!head.contains("content-length") && !head.contains("chunked"), "{head}");
    client.expect("hello");
    go_on.send(()).expect("the upstream waits");
    assert_eq!(client.read_to_end(), b" world");
}

#[test]
fn nothing_is_sent_before_the_response() {
    let upstream = Upstream::start(|peer| {
        peer.read_head();
        peer.send("HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n");
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi");
        peer.at_end();
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let response = server.exchange("web", "GET / HTTP/1.0\r\nhost: a\r\n\r\n");
    assert_eq!((response.status, response.text().as_str()), (200, "hi"));
}
