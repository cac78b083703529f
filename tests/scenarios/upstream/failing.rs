//! Servers that refuse, hang up or break off. Before the head of a response the client gets a 502
//! that says why; after it, a response that cannot be taken for a whole one.

use super::{
    GET, Refusing, ask, assert_fault, closed, config, gateway, sent_to, servers,
    settle_without_connections, wait_until_released,
};
use scenarios::{Launch, Upstream, gate};

#[test]
fn a_server_that_refuses_is_502() {
    let down = Refusing::start();
    let server = gateway(&format!(r#"servers: ["{}"]"#, down.address()));
    let mut client = server.connect("web");
    for _ in 0..3 {
        client.send(GET);
        let response = client.read_response();
        assert_fault(&response, 502, "connection_refused");
        // The client has done nothing wrong: its connection persists.
        assert_eq!(response.header("connection"), None);
    }
    drop(client);
    let refused = [("upstream", "u"), ("result", "refused")];
    assert_eq!(server.metrics().sum("tidegate_upstream_connects_total", &refused), 3.0);
    settle_without_connections(&server);
    assert_eq!(server.metrics().sum("tidegate_requests_total", &[("class", "5xx")]), 3.0);
}

#[test]
fn a_page_of_ones_own_still_says_what_happened() {
    let down = Refusing::start();
    let config = config(&format!(r#"servers: ["{}"]"#, down.address()), 1);
    let server = Launch::new(&format!("{config}errors: {{ 502: {{ file: sorry.html }} }}\n"))
        .file("sorry.html", "<p>Sorry.")
        .start();
    let response = ask(&server);
    assert_fault(&response, 502, "connection_refused");
    assert_eq!(response.text(), "<p>Sorry.");
    assert!(response.header("content-type").is_some_and(|kind| kind.starts_with("text/html")));
}

/// What a server says before it ends the connection, and the error that makes.
const HEADS: &[(&str, &str)] = &[
    ("", "connection_terminated"),
    ("HTT", "http_response_incomplete"),
    ("HTTP/1.1 200 OK\r\n", "http_response_incomplete"),
    ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-ty", "http_response_incomplete"),
    ("HTTP/1.1 100 Continue\r\n\r\n", "http_response_incomplete"),
];

#[test]
fn a_server_that_hangs_up_within_the_head_is_502() {
    for resets in [false, true] {
        for (head, error) in HEADS {
            let upstream = Upstream::start_owned(move |mut peer| {
                peer.read_head();
                peer.send(head);
                if resets {
                    peer.reset();
                }
            });
            let server = gateway(&servers(&[&upstream]));
            let response = server.exchange("web", GET);
            // A reset may overtake what was sent before it.
            let error = if resets && response.text().is_empty() { "connection_" } else { error };
            let told = response.header("proxy-status").unwrap_or_default();
            if resets && told.contains("connection_terminated") {
                assert_eq!(response.status, 502);
            } else {
                assert_fault(&response, 502, error);
            }
            assert_eq!(sent_to(&server, &upstream, "error"), 1.0, "{head:?}");
            settle_without_connections(&server);
        }
    }
}

/// Answers that are not HTTP, or that two readers could read differently.
const MALFORMED: &[&str] = &[
    "SSH-2.0-OpenSSH_9.6\r\n",
    "HTTP/2 200 OK\r\n\r\n",
    "HTTP/1.1 2000 OK\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nab",
    "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n\
     2\r\nab\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length : 2\r\n\r\nab",
    "HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
    "HTTP/1.1 200 OK\r\nx: a\r\n folded\r\n\r\n",
    "\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab",
];

#[test]
fn a_response_that_is_not_http_is_502_and_never_tried_again() {
    for malformed in MALFORMED {
        let upstream = Upstream::responding(malformed);
        let other = Upstream::responding(malformed);
        let server = gateway(&servers(&[&upstream, &other]));
        let response = ask(&server);
        assert_fault(&response, 502, "http_protocol_error");
        assert_eq!(upstream.accepted() + other.accepted(), 1, "{malformed:?}");
        settle_without_connections(&server);
    }
}

#[test]
fn an_unknown_transfer_coding_is_502() {
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\ntransfer-encoding: zip\r\n\r\n");
    let server = gateway(&servers(&[&upstream]));
    assert_fault(&ask(&server), 502, "http_response_transfer_coding");
    settle_without_connections(&server);
}

/// Answers that break off.
const CUT: &[&str] = &[
    "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf",
    "HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n8\r\nhalf",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n0\r\nx-sum: 1\r\n",
];

/// Answers whose chunks are none, which is known before they end.
const BROKEN: &[&str] = &[
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\n",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalfway\r\n0\r\n\r\n",
];

#[test]
fn a_response_that_breaks_off_is_never_taken_for_a_whole_one() {
    for (responses, resets) in [(CUT, false), (CUT, true), (BROKEN, false)] {
        for cut in responses {
            let (opener, gate) = gate();
            let upstream = Upstream::start_owned(move |mut peer| {
                peer.read_head();
                peer.send(cut);
                if resets {
                    // Only once the client has the head: a reset may overtake what it follows.
                    gate.wait();
                    peer.reset();
                }
            });
            let server = gateway(&servers(&[&upstream]));
            let mut client = server.connect("web");
            client.send(GET);
            let head = client.read_head();
            opener.open();
            assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
            let body = String::from_utf8(client.read_until_gone()).expect("text");
            if head.to_ascii_lowercase().contains("content-length: 10\r\n") {
                assert!(body.len() < 10, "{cut:?}: {body:?}");
            } else {
                assert!(head.to_ascii_lowercase().contains("transfer-encoding: chunked\r\n"));
                assert!(!body.contains("0\r\n"), "{cut:?}: {body:?}");
            }
            drop(client);
            closed(&server, "upstream_aborted");
            settle_without_connections(&server);
        }
    }
}

#[test]
fn a_body_that_ends_with_the_connection_is_whole_if_it_was_closed_and_not_if_it_was_reset() {
    let (second, second_gate) = gate();
    let (third, third_gate) = gate();
    let upstream = Upstream::start_owned(move |mut peer| {
        peer.read_head();
        peer.send("HTTP/1.1 200 OK\r\n\r\nall of it");
        match peer.number() {
            0 => return,
            1 => second_gate.wait(),
            _ => third_gate.wait(),
        }
        peer.reset();
    });
    let server = gateway(&servers(&[&upstream]));
    let mut client = server.connect("web");
    client.send(GET);
    let response = client.read_response();
    assert_eq!((response.status, response.text().as_str()), (200, "all of it"));
    assert_eq!(response.header("transfer-encoding"), Some("chunked"));

    // The same client: nothing of the first response is left in its connection.
    client.send(GET);
    client.read_head();
    second.open();
    let body = client.read_until_gone();
    assert!(!body.ends_with(b"0\r\n\r\n"), "{body:?}");

    // HTTP/1.0 knows no chunks: only a reset tells that client.
    let mut old = server.connect("web");
    old.send("GET / HTTP/1.0\r\n\r\n");
    old.read_head();
    third.open();
    old.expect_reset();
    drop((client, old));
    wait_until_released(&server);
}
