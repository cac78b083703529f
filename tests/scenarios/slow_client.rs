//! A request cut in two at every byte is the same request: nothing depends on how bytes arrive.

use crate::setup::behind;
use scenarios::{Connection, Tidegate, Upstream};

/// Answers with the body it got; lengths and chunks alike.
fn echo() -> Upstream {
    Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head().to_ascii_lowercase();
            let body = if head.contains("transfer-encoding: chunked") {
                let mut body = Vec::new();
                loop {
                    let line = peer.read_until("\r\n");
                    let digits = String::from_utf8_lossy(&line).trim_end().to_owned();
                    match usize::from_str_radix(&digits, 16).expect("a chunk size") {
                        0 => break,
                        size => body.extend(peer.read_exactly(size)),
                    }
                    peer.expect("\r\n");
                }
                while peer.read_until("\r\n") != b"\r\n" {}
                body
            } else if let Some((_, rest)) = head.split_once("content-length: ") {
                let digits = rest.split("\r\n").next().unwrap_or_default();
                peer.read_exactly(digits.parse().expect("a length"))
            } else {
                b"none".to_vec()
            };
            let body = String::from_utf8(body).expect("text");
            let length = body.len();
            peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}"));
        }
    })
}

/// With one worker a response here means that everything sent before has been looked at.
fn let_it_look(other: &mut Connection) {
    other.send("OPTIONS * HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(other.read_response().status, 204);
}

fn cut_everywhere(request: &str, expected: &str) {
    let upstream = echo();
    let server = Tidegate::start(&behind(&upstream, "").replace("workers: 2", "workers: 1"));
    let mut client = server.connect("web");
    let mut other = server.connect("web");
    for at in 1..request.len() {
        client.send(&request[..at]);
        let_it_look(&mut other);
        client.send(&request[at..]);
        let response = client.read_response();
        assert_eq!((response.status, &*response.text()), (200, expected), "cut at {at}");
    }
}

#[test]
fn without_a_body() {
    cut_everywhere("GET /a?b=c HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n", "none");
}

#[test]
fn with_a_length() {
    cut_everywhere(
        "PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nhello world",
        "hello world",
    );
}

#[test]
fn in_chunks_with_trailers() {
    cut_everywhere(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
         6;a=b\r\nhello \r\n5\r\nworld\r\n0\r\nX: y\r\n\r\n",
        "hello world",
    );
}

#[test]
fn two_requests_are_cut_apart_in_the_right_place() {
    let first = "PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\none";
    let both = format!("{first}{}", first.replace("one", "two"));
    let upstream = echo();
    let server = Tidegate::start(&behind(&upstream, "").replace("workers: 2", "workers: 1"));
    let mut client = server.connect("web");
    let mut other = server.connect("web");
    for at in 1..both.len() {
        client.send(&both[..at]);
        let_it_look(&mut other);
        client.send(&both[at..]);
        assert_eq!(client.read_response().text(), "one", "cut at {at}");
        assert_eq!(client.read_response().text(), "two", "cut at {at}");
    }
}
