//! HEAD: the head of the response to GET, and not one byte of a body (RFC 9110 9.3.2).

use crate::setup::{behind, responding};
use scenarios::{Tidegate, Upstream};

#[test]
fn the_head_is_that_of_get_and_the_connection_persists() {
    let server = Tidegate::start(&responding(""));
    let mut client = server.connect("web");
    for path in ["/ping", "/slow", "/big", "/none"] {
        client.send(format!("HEAD {path}?n=1 HTTP/1.1\r\nhost: a\r\n\r\n"));
        let head = client.read_response_to_head();
        client.send(format!("GET {path}?n=1 HTTP/1.1\r\nhost: a\r\n\r\n"));
        let whole = client.read_response();
        let fields = |response: &scenarios::HttpResponse| {
            let kept =
                response.headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("date"));
            kept.cloned().collect::<Vec<_>>()
        };
        assert_eq!(head.status, whole.status);
        assert_eq!(fields(&head), fields(&whole), "{path}");
        assert_eq!(head.header("content-length"), Some(&*whole.body.len().to_string()));
    }
}

#[test]
fn an_upstream_gets_head_and_its_length_is_passed_on() {
    let upstream = Upstream::start(|peer| {
        for response in [
            "HTTP/1.1 200 OK\r\ncontent-length: 12345\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\netag: \"x\"\r\n\r\n",
        ] {
            let head = peer.read_head();
            assert!(head.starts_with("HEAD /"), "{head}");
            peer.send(response);
        }
        peer.at_end();
    });
    let server = Tidegate::start(&behind(&upstream, "").replace("workers: 2", "workers: 1"));
    let mut client = server.connect("web");
    let mut head = || {
        client.send("HEAD / HTTP/1.1\r\nhost: a\r\n\r\n");
        client.read_response_to_head()
    };
    let known = head();
    assert_eq!((known.status, known.header("content-length")), (200, Some("12345")));
    for _ in 0..2 {
        // RFC 9110 8.6: a wrong length is worse than none.
        let unknown = head();
        assert_eq!((unknown.status, unknown.header("content-length")), (200, None));
    }
    assert_eq!(upstream.accepted(), 1);
}
