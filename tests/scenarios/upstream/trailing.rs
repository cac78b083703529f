//! Trailers (RFC 9110 6.5): passed on both ways, without what may not stand there.

use super::{gateway, servers, settle};
use scenarios::Upstream;

#[test]
fn those_of_a_response_reach_the_client() {
    let upstream = Upstream::responding(
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum, x-time\r\n\r\n\
         4\r\nbody\r\n0\r\nx-sum: 1\r\nX-Time: 2\r\ncontent-length: 9\r\n\r\n",
    );
    let server = gateway(&servers(&[&upstream]));
    let mut client = server.connect("web");
    for _ in 0..2 {
        client.send("GET / HTTP/1.1\r\nhost: a\r\nte: trailers\r\nconnection: te\r\n\r\n");
        let response = client.read_response();
        assert_eq!(response.text(), "body");
        let find = |name: &str| {
            let mut found = response.trailers.iter().filter(|(n, _)| n.eq_ignore_ascii_case(name));
            found.next().map(|(_, value)| value.as_str())
        };
        assert_eq!((find("x-sum"), find("x-time")), (Some("1"), Some("2")), "{response:?}");
        // RFC 9110 6.5.1: what frames a message is no trailer.
        assert_eq!(find("content-length"), None);
    }
    assert_eq!(upstream.accepted(), 1);

    // A client that cannot see trailers gets the body all the same.
    let old = server.exchange("web", "GET / HTTP/1.0\r\n\r\n");
    assert_eq!((old.text().as_str(), old.trailers.len()), ("body", 0));
    drop(client);
    settle(&server);
}

#[test]
fn those_of_a_request_reach_the_server() {
    let upstream = Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head().to_ascii_lowercase();
            assert!(head.contains("transfer-encoding: chunked\r\n"), "{head}");
            let body = String::from_utf8(peer.read_until("0\r\n")).expect("text");
            assert!(body.contains("body"), "{body}");
            let mut trailers = String::new();
            while !trailers.ends_with("\r\n\r\n") && trailers != "\r\n" {
                trailers.push_str(&String::from_utf8(peer.read_until("\r\n")).expect("text"));
            }
            let trailers = trailers.to_ascii_lowercase();
            assert!(trailers.contains("x-sum: 1\r\n"), "{trailers}");
            assert!(!trailers.contains("host"), "{trailers}");
            peer.send(super::OK);
        }
    });
    let server = gateway(&servers(&[&upstream]));
    let mut client = server.connect("web");
    for _ in 0..2 {
        client.send(
            "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n\
             4\r\nbody\r\n0\r\nX-Sum: 1\r\nhost: evil\r\n\r\n",
        );
        assert_eq!(client.read_response().text(), "ok");
    }
    drop(client);
    settle(&server);
}
