//! Bodies in chunks: decoded, bounded, framed again when they are forwarded, trailers included.

use crate::setup::{behind, responding};
use scenarios::{Connection, Tidegate, Upstream};

const HEAD: &str = "POST /in HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\
                    trailer: x-sum\r\n\r\n";
const CHUNKS: &str = "5;name=value\r\nhello\r\n01\r\n \r\n5;q=\"a;b\"\r\nworld\r\n0\r\n\
                      x-sum: 42\r\nx-more: yes\r\n\r\n";

/// Reads a request with a chunked body as a server would: body and trailer section.
fn read_chunked(peer: &mut Connection) -> (String, String) {
    let head = peer.read_head().to_ascii_lowercase();
    assert!(head.contains("\r\ntransfer-encoding: chunked\r\n"), "{head}");
    assert!(!head.contains("content-length"), "{head}");
    let mut body = Vec::new();
    loop {
        let line = String::from_utf8(peer.read_until("\r\n")).expect("ASCII");
        // What leaves is framed by us: no extension, no leading zero.
        let size = usize::from_str_radix(line.trim_end(), 16).expect("a bare chunk size");
        if size == 0 {
            break;
        }
        body.extend(peer.read_exactly(size));
        peer.expect("\r\n");
    }
    let mut trailers = String::new();
    while !trailers.ends_with("\r\n\r\n") && trailers != "\r\n" {
        trailers.push_str(&String::from_utf8_lossy(&peer.read_until("\r\n")));
    }
    (String::from_utf8(body).expect("text"), trailers.to_ascii_lowercase())
}

fn echoing() -> Upstream {
    Upstream::start(|peer| {
        while !peer.at_end() {
            let (body, trailers) = read_chunked(peer);
            assert_eq!(trailers, "x-sum: 42\r\nx-more: yes\r\n\r\n");
            let length = body.len();
            peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}"));
        }
    })
}

#[test]
fn body_and_trailers_reach_the_upstream_however_they_are_cut() {
    let upstream = echoing();
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = server.connect("web");
    client.send(format!("{HEAD}{CHUNKS}"));
    assert_eq!(client.read_response().text(), "hello world");
    client.send(HEAD);
    client.send_byte_by_byte(CHUNKS);
    assert_eq!(client.read_response().text(), "hello world");
}

#[test]
fn a_request_may_follow_the_trailers_at_once() {
    let upstream = echoing();
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = server.connect("web");
    client.send(format!("{HEAD}{CHUNKS}").repeat(20));
    for _ in 0..20 {
        assert_eq!(client.read_response().text(), "hello world");
    }
}

#[test]
fn an_unwanted_body_is_drained() {
    let server = Tidegate::start(&responding(""));
    let mut client = server.connect("web");
    let head = HEAD.replace("/in", "/ping?n=1");
    client.send(format!("{head}{CHUNKS}GET /ping?n=2 HTTP/1.1\r\nhost: a\r\n\r\n"));
    for n in ["1", "2"] {
        let response = client.read_response();
        assert_eq!((response.status, response.header("x-n")), (200, Some(n)));
    }
}

#[test]
fn malformed_chunks_end_the_exchange() {
    let chunks = [
        "5\r\nhelloX\r\n0\r\n\r\n",
        "5\nhello\r\n0\r\n\r\n",
        "-5\r\nhello\r\n0\r\n\r\n",
        "0x5\r\nhello\r\n0\r\n\r\n",
        "10000000000000000\r\nhello",
        "5 \r\nhello\r\n0\r\n\r\n",
        " 5\r\nhello\r\n0\r\n\r\n",
        "5\r\nhello\r\n0\r\nbad trailer: x\r\n\r\n",
        "5;\x01\r\nhello\r\n0\r\n\r\n",
    ];
    let upstream = Upstream::start(|peer| {
        peer.read_until_gone();
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    for (count, chunk) in chunks.iter().enumerate() {
        let mut client = server.connect("web");
        client.send(format!("{HEAD}{chunk}"));
        let response = client.read_response();
        assert_eq!(
            (response.status, response.header("connection")),
            (400, Some("close")),
            "{chunk:?}"
        );
        client.expect_closed();
        drop(client);
        let reason = [("reason", "malformed_request")];
        server.wait_for_metric("tidegate_connections_closed_total", &reason, count as f64 + 1.0);
    }
}
