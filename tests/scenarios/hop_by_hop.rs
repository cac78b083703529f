//! Fields of one connection stay on it, in both directions (RFC 9110 7.6.1).

use crate::setup::behind;
use scenarios::{Tidegate, Upstream};

#[test]
fn what_concerns_the_clients_connection_does_not_reach_the_upstream() {
    let upstream = Upstream::start(|peer| {
        let head = peer.read_head();
        let small = head.to_ascii_lowercase();
        for gone in [
            "\r\nconnection:",
            "\r\nkeep-alive:",
            "\r\nproxy-connection:",
            "\r\nte: gzip",
            "\r\nupgrade:",
            "\r\nx-private:",
            "\r\nx-other:",
            "\r\ntransfer-encoding:",
        ] {
            assert!(!small.contains(gone), "{gone} in {head}");
        }
        assert!(small.contains("\r\nx-public: 1\r\n"), "{head}");
        // Named in Connection, but the host and the length of a message are not options.
        assert!(small.contains("\r\nhost: a\r\n"), "{head}");
        assert!(small.contains("\r\ncontent-length: 2\r\n"), "{head}");
        assert!(small.contains("\r\nx-forwarded-for: 127.0.0.1\r\n"), "{head}");
        peer.expect("hi");
        peer.send("HTTP/1.1 204 No Content\r\n\r\n");
        peer.at_end();
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let response = server.exchange(
        "web",
        "POST / HTTP/1.1\r\nhost: a\r\nconnection: keep-alive, X-Private, host\r\n\
         connection: content-length, x-other, x-forwarded-for\r\nkeep-alive: timeout=5\r\n\
         proxy-connection: keep-alive\r\nx-private: secret\r\nx-other: secret\r\n\
         x-public: 1\r\nupgrade: h2c\r\nte: gzip\r\ncontent-length: 2\r\n\r\nhi",
    );
    assert_eq!(response.status, 204);
}

#[test]
fn a_client_cannot_strip_what_a_filter_sets() {
    let upstream = Upstream::start(|peer| {
        let head = peer.read_head();
        assert!(head.contains("x-consumer: gate\r\n") && !head.contains("client"), "{head}");
        peer.send("HTTP/1.1 204 No Content\r\n\r\n");
        peer.at_end();
    });
    let more = "defaults: { filters: [{ request_headers: { add: { x-consumer: gate } } }] }";
    let server = Tidegate::start(&behind(&upstream, more));
    let response = server.exchange(
        "web",
        "GET / HTTP/1.1\r\nhost: a\r\nconnection: x-consumer\r\nx-consumer: client\r\n\r\n",
    );
    assert_eq!(response.status, 204);
}

#[test]
fn what_concerns_the_upstreams_connection_does_not_reach_the_client() {
    let upstream = Upstream::start(|peer| {
        peer.read_head();
        peer.send(
            "HTTP/1.1 200 OK\r\nconnection: close, x-private\r\nkeep-alive: timeout=5\r\n\
             proxy-connection: x\r\nx-private: secret\r\nupgrade: h2c\r\nx-public: 1\r\n\
             trailer: t\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        );
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = server.connect("web");
    for _ in 0..2 {
        client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
        let response = client.read_response();
        assert_eq!((response.status, response.text().as_str()), (200, "hi"));
        for gone in ["connection", "keep-alive", "proxy-connection", "x-private", "upgrade"] {
            assert!(response.all(gone).is_empty(), "{gone} in {response:?}");
        }
        assert_eq!(response.header("x-public"), Some("1"));
    }
    // The upstream closed each time; the client's connection is another matter.
    assert_eq!(upstream.accepted(), 2);
}

#[test]
fn max_forwards_is_counted_down_and_ends_with_us() {
    let upstream = Upstream::start(|peer| {
        let head = peer.read_head().to_ascii_lowercase();
        assert!(head.contains("\r\nmax-forwards: 4\r\n"), "{head}");
        peer.send("HTTP/1.1 204 No Content\r\nx-from: upstream\r\n\r\n");
        peer.at_end();
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let ask = |forwards: u32| {
        let request = format!("OPTIONS / HTTP/1.1\r\nhost: a\r\nmax-forwards: {forwards}\r\n\r\n");
        let response = server.exchange("web", request);
        (response.status, response.header("x-from").is_some(), response.header("allow").is_some())
    };
    assert_eq!(ask(5), (204, true, false));
    assert_eq!(ask(0), (204, false, true));
    assert_eq!(upstream.accepted(), 1);
}
