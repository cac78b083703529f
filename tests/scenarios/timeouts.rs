//! How long a client is waited for: each time-out has its status, its counter and its reason to
//! close. Nothing here sleeps: the end of the connection is the event.

use crate::setup::{answering, behind};
use scenarios::{Connection, Tidegate, Upstream};
use std::time::{Duration, Instant};

fn hit(server: &Tidegate, limit: &str, reason: &str) {
    server.wait_for_metric("tidegate_limits_hit_total", &[("limit", limit)], 1.0);
    server.wait_for_metric("tidegate_connections_closed_total", &[("reason", reason)], 1.0);
    assert_eq!(server.metrics().sum("tidegate_limits_hit_total", &[]), 1.0, "only {limit}");
}

fn is_408(client: &mut Connection) {
    let answer = client.answer();
    assert_eq!((answer.status, answer.header("connection")), (408, Some("close")));
    client.expect_closed();
}

#[test]
fn a_connection_without_a_byte() {
    let server = Tidegate::start(&answering("timeouts: { handshake: 100ms }"));
    let mut client = server.connect("web");
    let begin = Instant::now();
    // No request, no answer: there would be nobody to read it.
    client.expect_closed();
    assert!(begin.elapsed() >= Duration::from_millis(90), "{:?}", begin.elapsed());
    hit(&server, "slow_handshake", "handshake_timeout");
}

#[test]
fn a_head_that_stops() {
    let server = Tidegate::start(&answering("timeouts: { head: 100ms }"));
    let mut client = server.connect("web");
    client.send("GET /ping HTTP/1.1\r\nhost: a\r\n");
    is_408(&mut client);
    drop(client);
    hit(&server, "slow_head", "head_timeout");
}

#[test]
fn a_head_that_never_stops() {
    let server = Tidegate::start(&answering("timeouts: { head: 200ms }"));
    let mut client = server.connect("web");
    client.send("GET /ping HTTP/1.1\r\n");
    // A line every few milliseconds: the time-out bounds the whole head, not its pauses.
    let mut reader = client.clone_for_reading();
    let sender = std::thread::spawn(move || {
        while client.try_send("x: y\r\n") {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    assert_eq!(reader.answer().status, 408);
    reader.finish_sending(); // which stops the other thread
    sender.join().expect("no panic");
    hit(&server, "slow_head", "head_timeout");
}

#[test]
fn a_body_that_stops() {
    let upstream = Upstream::start(|peer| {
        let head = peer.read_head();
        peer.expect("half");
        // Half a body must not pass for a whole one: the connection breaks instead.
        assert_eq!(peer.read_until_gone(), b"", "{head}");
    });
    let server = Tidegate::start(&behind(&upstream, "timeouts: { body: 100ms }"));
    let mut client = server.connect("web");
    client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 8\r\n\r\nhalf");
    is_408(&mut client);
    drop(client);
    hit(&server, "slow_body", "body_timeout");
}

#[test]
fn a_body_that_pauses_and_goes_on() {
    let upstream = Upstream::start(|peer| {
        peer.read_head();
        peer.expect("slowly");
        peer.send("HTTP/1.1 204 No Content\r\n\r\n");
        peer.at_end();
    });
    let timeouts = "timeouts: { body: 250ms, body_rate: 0B }";
    let server = Tidegate::start(&behind(&upstream, timeouts));
    let mut client = server.connect("web");
    client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\n\r\n");
    for byte in ["s", "l", "o", "w", "l", "y"] {
        client.expect_silence(Duration::from_millis(80));
        client.send(byte);
    }
    assert_eq!(client.answer().status, 204);
}

#[test]
fn a_client_that_does_not_read() {
    let server = Tidegate::start(&answering("timeouts: { write: 150ms }"));
    let mut client = server.connect("web");
    client.shrink_receive_buffer();
    client.send("GET /big HTTP/1.1\r\nhost: a\r\n\r\n");
    hit(&server, "slow_reader", "write_timeout");
    let got = client.read_until_gone();
    assert!(got.len() < 8 << 20, "all {} bytes came", got.len());
}

#[test]
fn a_client_that_reads_slowly() {
    let server = Tidegate::start(&answering("timeouts: { write: 400ms }"));
    let mut client = server.connect("web");
    client.set_receive_buffer(128 << 10);
    client.send("GET /big HTTP/1.1\r\nhost: a\r\n\r\n");
    client.read_head();
    let begin = Instant::now();
    for _ in 0..25 {
        client.read_exactly(64 << 10);
        // The pause is what makes it slow; it is shorter than the longest allowed.
        std::thread::sleep(Duration::from_millis(50));
    }
    // Long past one pause, and not so far that the kernel would have asked the server for more.
    assert!(begin.elapsed() > Duration::from_millis(1200));
    client.read_exactly((8 << 20) - 25 * (64 << 10));
    client.send("GET /ping HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(client.answer().status, 200);
    assert_eq!(server.metrics().sum("tidegate_limits_hit_total", &[]), 0.0);
}

#[test]
fn a_connection_without_another_request() {
    let server = Tidegate::start(&answering("timeouts: { idle: 150ms }"));
    let mut client = server.connect("web");
    for _ in 0..4 {
        client.send("GET /ping HTTP/1.1\r\nhost: a\r\n\r\n");
        assert_eq!(client.answer().status, 200);
        client.expect_silence(Duration::from_millis(50));
    }
    client.expect_closed();
    hit(&server, "idle", "idle_timeout");
}

#[test]
fn a_listener_and_a_route_may_wait_otherwise() {
    let config = r#"
workers: 2
timeouts: { handshake: 1h, body: 1h }
listeners:
  web: { bind: "127.0.0.1:0", timeouts: { handshake: 50ms } }
  patient: { bind: "127.0.0.1:0" }
admin: { bind: "127.0.0.1:0" }
routes:
  - match: { path: "/quick" }
    timeouts: { body: 50ms }
    handler: { respond: { body: x } }
"#;
    let server = Tidegate::start(config);
    server.connect("web").expect_closed();
    let mut client = server.connect("patient");
    client.expect_silence(Duration::from_millis(100));
    client.send("GET /quick HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(client.answer().status, 200);
    // Nobody reads this body; what is left of it is read away after the answer.
    client.send("POST /quick HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nhalf");
    let answer = client.answer();
    assert_eq!((answer.status, answer.header("connection")), (200, None));
    client.expect_closed();
}
