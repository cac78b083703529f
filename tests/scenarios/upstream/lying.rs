//! Servers that announce one length and send another, or unrequested responses. What is behind
//! a response never becomes the next one: such a connection is not used again.

use super::{GET, OK, ask, gateway, servers, wait_until_released};
use scenarios::{PATIENCE, Upstream};
use std::sync::Mutex;
use std::sync::mpsc::channel;

/// First answers that end wrong, with the body the client may see of them.
const TOO_MUCH: &[(&str, &str)] = &[
    // A length that is too short.
    ("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine and more", "fine"),
    // A second response to one request.
    (
        "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine\
         HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil",
        "fine",
    ),
    (
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nfine\r\n0\r\n\r\n\
         HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil",
        "fine",
    ),
    // Bodies where none can be.
    ("HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil", ""),
    (
        "HTTP/1.1 304 Not Modified\r\ncontent-length: 4\r\n\r\n\
         HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil",
        "",
    ),
    ("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nevil", ""),
];

#[test]
fn bytes_behind_a_response_are_nobodys() {
    for (wrong, body) in TOO_MUCH {
        let upstream = Upstream::start(move |peer| {
            peer.read_head();
            if peer.number() == 0 {
                peer.send(wrong);
                // Left open, so that it could be used again.
                assert!(peer.read_until_gone().is_empty());
            } else {
                peer.send(OK);
            }
        });
        let server = gateway(&servers(&[&upstream]));
        let mut client = server.connect("web");
        client.send(GET);
        assert_eq!(client.read_response().text(), *body, "{wrong:?}");
        client.send(GET);
        assert_eq!(client.read_response().text(), "ok", "{wrong:?}");
        assert_eq!(upstream.accepted(), 2, "{wrong:?}");
        drop(client);
        wait_until_released(&server);
    }
}

#[test]
fn a_body_with_the_response_to_head_is_nobodys() {
    let upstream = Upstream::start(|peer| {
        peer.read_head();
        peer.send(OK);
        if peer.number() == 0 {
            assert!(peer.read_until_gone().is_empty());
        }
    });
    let server = gateway(&servers(&[&upstream]));
    let mut client = server.connect("web");
    client.send(GET.replace("GET", "HEAD"));
    assert_eq!(client.read_response_to_head().header("content-length"), Some("2"));
    client.send(GET);
    assert_eq!(client.read_response().text(), "ok");
    assert_eq!(upstream.accepted(), 2);
}

#[test]
fn a_second_response_that_comes_late_is_nobodys() {
    let (sent, sending) = channel();
    let sent = Mutex::new(sent);
    let upstream = Upstream::start(move |peer| {
        peer.read_head();
        peer.send(OK);
        if peer.number() == 0 {
            // On a connection that is back in the pool; it cannot be distinguished from the
            // response to a request that has gone out before.
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil");
            sent.lock().expect("no script panics with it").send(()).expect("the test waits");
            assert!(peer.read_until_gone().is_empty());
        }
    });
    let server = gateway(&servers(&[&upstream]));
    let mut client = server.connect("web");
    client.send(GET);
    assert_eq!(client.read_response().text(), "ok");
    sending.recv_timeout(PATIENCE).expect("it was sent");
    client.send(GET);
    assert_eq!(client.read_response().text(), "ok");
    assert_eq!(upstream.accepted(), 2);
    drop(client);
    wait_until_released(&server);
}

#[test]
fn a_length_that_is_too_long_leaves_the_response_unfinished() {
    let upstream = Upstream::start(|peer| {
        peer.read_head();
        if peer.number() == 0 {
            peer.send("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort");
        } else {
            peer.send(OK);
        }
    });
    let server = gateway(&servers(&[&upstream]));
    let mut client = server.connect("web");
    client.send(GET);
    client.read_head();
    assert_eq!(client.read_until_gone(), b"short");
    assert_eq!(ask(&server).text(), "ok");
    drop(client);
    wait_until_released(&server);
}

#[test]
fn responses_that_wait_in_one_segment_go_to_their_own_clients() {
    // Two clients in turn on one kept connection: each gets the response to its own question.
    let upstream = Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head();
            let path = head.split(' ').nth(1).unwrap_or_default();
            peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{path}", path.len()));
        }
    });
    let server = gateway(&servers(&[&upstream]));
    let (mut one, mut two) = (server.connect("web"), server.connect("web"));
    for turn in 0..20 {
        let (first, second) = (format!("/one/{turn}"), format!("/two/{turn}"));
        one.send(format!("GET {first} HTTP/1.1\r\nhost: a\r\n\r\n"));
        two.send(format!("GET {second} HTTP/1.1\r\nhost: a\r\n\r\n"));
        assert_eq!(two.read_response().text(), second);
        assert_eq!(one.read_response().text(), first);
    }
    assert!(upstream.accepted() <= 2);
    drop((one, two));
    wait_until_released(&server);
}
