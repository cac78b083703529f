//! A client that goes away takes its request to the server with it.

use super::{
    GET, closed, gateway, servers, settle_without_connections, wait_until, wait_until_released,
};
use scenarios::Upstream;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Says `words` to every request, and reports when it has come and when the gateway has hung up.
fn reporting(words: &'static str) -> (Upstream, Receiver<&'static str>) {
    let (sender, receiver) = channel();
    let sender = Mutex::new(sender);
    let upstream = Upstream::start(move |peer| {
        let tell = |word| {
            sender.lock().expect("no script panics with it").send(word).expect("the test waits");
        };
        peer.read_head();
        tell("asked");
        peer.send(words);
        peer.read_until_gone();
        tell("gone");
    });
    (upstream, receiver)
}

fn hears(told: &Receiver<&'static str>, word: &str) {
    assert_eq!(told.recv_timeout(scenarios::PATIENCE), Ok(word));
}

#[test]
fn before_the_response() {
    for resets in [false, true] {
        let (upstream, told) = reporting("");
        let server = gateway(&servers(&[&upstream]));
        let mut client = server.connect("web");
        client.send(GET);
        hears(&told, "asked");
        if resets {
            client.reset();
        } else {
            drop(client);
        }
        hears(&told, "gone");
        closed(&server, "client_gone");
        settle_without_connections(&server);
        // Not the server's fault.
        let healthy = server.metrics().sum("tidegate_upstream_server_healthy", &[]);
        assert_eq!(healthy, 1.0);
        assert_eq!(server.metrics().sum("tidegate_upstream_ejections_total", &[]), 0.0);
    }
}

#[test]
fn within_the_response() {
    for words in [
        "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        "HTTP/1.1 200 OK\r\n\r\nhalf",
    ] {
        let (upstream, told) = reporting(words);
        let server = gateway(&servers(&[&upstream]));
        let mut client = server.connect("web");
        client.send(GET);
        hears(&told, "asked");
        client.read_until("half");
        drop(client);
        hears(&told, "gone");
        closed(&server, "client_gone");
        settle_without_connections(&server);
    }
}

#[test]
fn within_the_request() {
    for sent in ["h", "half of the body"] {
        let (upstream, told) = reporting("");
        let server = gateway(&servers(&[&upstream]));
        let mut client = server.connect("web");
        client.send("PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n");
        client.send(sent);
        hears(&told, "asked");
        drop(client);
        hears(&told, "gone");
        settle_without_connections(&server);
        assert_eq!(upstream.accepted(), 1, "no server is retried for a client that is gone");
    }
}

#[test]
fn a_reset_while_the_server_takes_nothing_of_the_request() {
    // Before any answer, and in the middle of one.
    for response in ["", "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"] {
        let (sender, wait) = channel::<()>();
        let wait = Mutex::new(wait);
        let (tell, told) = channel();
        let upstream = Upstream::start(move |peer| {
            peer.read_head();
            tell.send("asked").expect("the test waits");
            peer.send(response);
            // Reads nothing more until the test has seen what it came for.
            let _ = wait.lock().expect("no panic").recv();
            peer.read_until_gone();
        });
        // Dropped before the upstream, which waits for its script, if anything panics here.
        let let_go = sender;
        let server = gateway(&servers(&[&upstream]));
        let mut client = server.connect("web");
        client.send("PUT / HTTP/1.1\r\nhost: a\r\ncontent-length: 60000000\r\n\r\n");
        let sent = client.send_until_stuck(Duration::from_millis(500));
        assert!(sent < 60_000_000, "{sent}");
        hears(&told, "asked");
        if !response.is_empty() {
            client.read_until("half");
        }
        // More of it is unread and stays so: only the reset tells.
        client.reset();
        closed(&server, "client_gone");
        wait_until(&server, "no request in flight", |metrics| {
            metrics.sum("tidegate_upstream_requests_in_flight", &[]) == 0.0
        });
        let_go.send(()).expect("the script waits");
        settle_without_connections(&server);
    }
}

#[test]
fn while_it_waits_behind_another_request() {
    // The second of two pipelined requests never reaches the server.
    let (upstream, told) = reporting("");
    let server = gateway(&servers(&[&upstream]));
    let mut client = server.connect("web");
    client.send(GET.repeat(2));
    hears(&told, "asked");
    drop(client);
    hears(&told, "gone");
    settle_without_connections(&server);
    assert_eq!(upstream.accepted(), 1);
}

#[test]
fn a_client_that_has_read_its_response_cancels_nothing() {
    let upstream = Upstream::responding(super::OK);
    let server = gateway(&servers(&[&upstream]));
    for _ in 0..3 {
        let mut client = server.connect("web");
        client.send(GET);
        assert_eq!(client.read_response().status, 200);
        drop(client);
    }
    wait_until_released(&server);
    assert_eq!(upstream.accepted(), 1, "the connection to the server stayed");
}
