//! Client time-outs: each has its status, its counter and its close reason.
//!
//! Only what fires is tested here. What must not fire is tested with a manual clock, in
//! crates/http-server/tests/contracts/timeouts.rs.

use crate::setup::{behind, responding};
use scenarios::{Connection, Tidegate, Upstream};
use std::time::Duration;

fn hit(server: &Tidegate, limit: &str, reason: &str) {
    server.wait_for_metric("tidegate_limits_hit_total", &[("limit", limit)], 1.0);
    server.wait_for_metric("tidegate_connections_closed_total", &[("reason", reason)], 1.0);
    assert_eq!(server.metrics().sum("tidegate_limits_hit_total", &[]), 1.0, "only {limit}");
}

fn is_408(client: &mut Connection) {
    let response = client.read_response();
    assert_eq!((response.status, response.header("connection")), (408, Some("close")));
    client.expect_closed();
}

#[test]
fn a_connection_without_a_byte() {
    let server = Tidegate::start(&responding("timeouts: { handshake: 1s }"));
    let mut client = server.connect("web");
    // No request, no response.
    client.expect_closed();
    hit(&server, "slow_handshake", "handshake_timeout");
}

#[test]
fn a_head_that_stops() {
    let server = Tidegate::start(&responding("timeouts: { head: 1s }"));
    let mut client = server.connect("web");
    client.send("GET /ping HTTP/1.1\r\nhost: a\r\n");
    is_408(&mut client);
    drop(client);
    hit(&server, "slow_head", "head_timeout");
}

#[test]
fn a_head_that_never_stops() {
    let server = Tidegate::start(&responding("timeouts: { head: 1s }"));
    let mut client = server.connect("web");
    client.send("GET /ping HTTP/1.1\r\nx: ");
    // A byte every few milliseconds: the time-out bounds the whole head, not its pauses.
    let mut reader = client.clone_for_reading();
    let sender = std::thread::spawn(move || {
        while client.try_send("y") {
            std::thread::sleep(Duration::from_millis(10));
        }
    });
    assert_eq!(reader.read_response().status, 408);
    reader.finish_sending(); // which stops the other thread
    sender.join().expect("no panic");
    hit(&server, "slow_head", "head_timeout");
}

#[test]
fn a_body_that_stops() {
    let upstream = Upstream::start(|peer| {
        let request = String::from_utf8(peer.read_until_gone()).expect("text");
        let (_, body) = request.split_once("\r\n\r\n").unwrap_or_default();
        // Half a body must not pass for a whole one: the connection breaks instead. A busy machine
        // may break it before anything was passed on.
        assert!("half".starts_with(body), "{request}");
    });
    let server = Tidegate::start(&behind(&upstream, "timeouts: { body: 1s }"));
    let mut client = server.connect("web");
    client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 8\r\n\r\nhalf");
    is_408(&mut client);
    drop(client);
    hit(&server, "slow_body", "body_timeout");
}

#[test]
fn a_client_that_does_not_read() {
    let server = Tidegate::start(&responding("timeouts: { write: 1s }"));
    let mut client = server.connect("web");
    client.shrink_receive_buffer();
    client.send("GET /big HTTP/1.1\r\nhost: a\r\n\r\n");
    hit(&server, "slow_reader", "write_timeout");
    let got = client.read_until_gone();
    assert!(got.len() < 8 << 20, "all {} bytes came", got.len());
}

#[test]
fn a_connection_without_another_request() {
    let server = Tidegate::start(&responding("timeouts: { idle: 1s }"));
    let mut client = server.connect("web");
    client.send("GET /ping HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(client.read_response().status, 200);
    client.expect_closed();
    hit(&server, "idle", "idle_timeout");
}

#[test]
fn a_listener_and_a_route_have_their_own_time_outs() {
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
    let mut client = server.connect("patient");
    server.connect("web").expect_closed();
    // The older connection is still open.
    client.send("GET /quick HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(client.read_response().status, 200);
    // The handler does not read this body; the server drains the rest after the response.
    client.send("POST /quick HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nhalf");
    let response = client.read_response();
    assert_eq!((response.status, response.header("connection")), (200, None));
    client.expect_closed();
}
