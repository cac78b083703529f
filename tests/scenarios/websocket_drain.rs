//! A drain closes the WebSockets to upstreams with 1001 on both sides (RFC 6455 7.4.1), between two
//! frames and never inside one.

use crate::setup::behind;
use scenarios::{Connection, Exit, Http2Peer, Tidegate, Upstream, gate};
use wire::h2::{Config, Event, StreamKey};

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nhost: a\r\nconnection: Upgrade\r\n\
                       upgrade: websocket\r\nsec-websocket-version: 13\r\n\
                       sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
const SWITCHING: &str = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n\
                         upgrade: websocket\r\nsec-websocket-accept: x\r\n\r\n";
const CONNECT: &[(&str, &str)] = &[
    (":method", "CONNECT"),
    (":protocol", "websocket"),
    (":scheme", "http"),
    (":authority", "a"),
    (":path", "/chat"),
    ("sec-websocket-version", "13"),
];
/// The Close frame with 1001, as a server sends it.
const GOING_AWAY: &[u8] = b"\x88\x02\x03\xe9";
const PING: &[u8] = b"\x89\x80\0\0\0\0";
/// What a client responds.
const MASKED_CLOSE: &[u8] = b"\x88\x82\0\0\0\0\x03\xe9";

fn accept_upgrade(peer: &mut Connection) {
    peer.read_head();
    peer.send(SWITCHING);
}

/// Reads the Close frame that the server's side gets, which has a mask as any frame of a client.
fn read_masked_close(peer: &mut Connection) {
    let frame = peer.read_exactly(8);
    let (mask, payload) = (&frame[2..6], &frame[6..]);
    assert_eq!(
        (&frame[..2], [payload[0] ^ mask[0], payload[1] ^ mask[1]]),
        (&b"\x88\x82"[..], [0x03, 0xe9])
    );
}

fn open(server: &Tidegate) -> Connection {
    let mut client = server.connect("web");
    client.send(UPGRADE);
    assert_eq!(client.read_response().status, 101);
    client
}

/// A client that has opened a WebSocket and received a message on it.
fn receive_message(server: &Tidegate) -> Connection {
    let mut client = open(server);
    client.expect(b"\x81\x02hi");
    client
}

fn drain(server: &Tidegate) {
    server.signal("TERM");
    server.wait_for_log("draining");
}

fn ends_drained(server: Tidegate) -> Exit {
    let exit = server.wait();
    assert_eq!(exit.code, Some(0));
    assert!(exit.stderr.contains("drained took_ms"), "{}", exit.stderr);
    exit
}

/// Sends a message, waits for the Close frame, responds to it and expects the end.
fn converse(peer: &mut Connection) {
    accept_upgrade(peer);
    peer.send(b"\x81\x02hi");
    read_masked_close(peer);
    // A message that crosses the Close frame is discarded, and the Close frame comes once.
    peer.send(b"\x81\x04late");
    peer.send(GOING_AWAY);
    peer.expect_closed();
}

#[test]
fn both_sides_of_an_idle_websocket_get_a_close_frame() {
    let upstream = Upstream::start(converse);
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = receive_message(&server);
    drain(&server);
    client.expect(GOING_AWAY);
    client.send(b"\x81\x84\0\0\0\0late");
    client.send(MASKED_CLOSE);
    client.expect_closed();
    ends_drained(server);
}

#[test]
fn sides_that_do_not_respond_to_the_close_frame_are_not_waited_for() {
    let upstream = Upstream::start(|peer| {
        accept_upgrade(peer);
        peer.send(b"\x81\x02hi");
        read_masked_close(peer);
        peer.expect_closed();
    });
    let server = Tidegate::start(&behind(&upstream, "timeouts: { drain: 60s }"));
    let mut client = receive_message(&server);
    drain(&server);
    client.expect(GOING_AWAY);
    client.expect_closed();
    ends_drained(server);
}

#[test]
fn a_frame_that_has_begun_is_completed_before_the_close_frame() {
    let upstream = Upstream::start(|peer| {
        accept_upgrade(peer);
        peer.send(b"\x82\x06par");
        read_masked_close(peer);
        // The end of the frame, a message, and half a head: only the first is forwarded.
        peer.send(b"ted\x81\x02hi\x82");
        peer.send(b"\x01x");
        peer.send(GOING_AWAY);
        peer.expect_closed();
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = open(&server);
    client.expect(b"\x82\x06par");
    drain(&server);
    client.expect(b"ted");
    client.expect(GOING_AWAY);
    client.send(MASKED_CLOSE);
    client.expect_closed();
    ends_drained(server);
}

#[test]
fn a_websocket_that_is_closing_gets_no_second_close_frame() {
    let (opener, gate) = gate();
    let upstream = Upstream::start(move |peer| {
        accept_upgrade(peer);
        peer.expect(b"\x88\x82\0\0\0\0\x03\xe8");
        gate.wait();
        peer.send(b"\x81\x03bye\x88\x02\x03\xe8");
        peer.expect_closed();
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = open(&server);
    client.send(b"\x88\x82\0\0\0\0\x03\xe8");
    let labels = [("direction", "received"), ("type", "close")];
    server.wait_for_metric("tidegate_websocket_messages_total", &labels, 1.0);
    drain(&server);
    opener.open();
    client.expect(b"\x81\x03bye\x88\x02\x03\xe8");
    client.finish_sending();
    client.expect_closed();
    ends_drained(server);
}

#[test]
fn a_reload_that_removes_the_listener_closes_its_websockets() {
    let upstream = Upstream::start(|peer| {
        accept_upgrade(peer);
        peer.send(b"\x81\x02hi");
        peer.expect(PING);
        peer.send(b"\x8a\0");
        read_masked_close(peer);
        peer.send(GOING_AWAY);
        peer.expect_closed();
    });
    let config = behind(&upstream, "");
    let server = Tidegate::start(&config);
    let mut client = receive_message(&server);
    // A reload that keeps the listener keeps the WebSocket.
    server.rewrite_config(&config.replace("name: app", "name: other"));
    server.signal("HUP");
    server.wait_for_metric("tidegate_config_reloads_total", &[], 1.0);
    client.send(PING);
    client.expect(b"\x8a\0");
    server.rewrite_config(&config.replace("web: {", "moved: {"));
    server.signal("HUP");
    client.expect(GOING_AWAY);
    client.send(MASKED_CLOSE);
    client.expect_closed();
    server.wait_for_metric(
        "tidegate_connections_closed_total",
        &[("reason", "upgrade_finished")],
        1.0,
    );
}

/// The content of a stream up to this many bytes, and whether it has ended.
fn read_data(peer: &mut Http2Peer<'_>, stream: StreamKey, length: usize) -> (Vec<u8>, bool) {
    let (mut content, mut has_ended) = (Vec::new(), false);
    while content.len() < length && !has_ended {
        match peer.event().expect("the stream is open") {
            Event::Data { stream: of, data, ends } if of == stream => {
                peer.protocol.release(stream, data.len());
                content.extend_from_slice(&data);
                has_ended = ends;
            }
            Event::GoAway { .. } => {}
            other => panic!("no content: {other:?}"),
        }
    }
    (content, has_ended)
}

#[test]
fn streams_of_http_2_get_close_frames_on_both_sides() {
    let config = Config { extended_connect: true, ..Config::default() };
    let upstream = Upstream::http2(config, |peer| {
        let stream = peer.request().expect("a request").stream;
        peer.head(stream, 200, &[], false);
        peer.send(stream, &b"\x81\x02hi"[..], false);
        let (frame, _) = read_data(peer, stream, 8);
        assert_eq!(frame[..2], b"\x88\x82"[..]);
        peer.send(stream, GOING_AWAY, true);
        peer.until_end();
    });
    let config = behind(&upstream, "log: { access: { format: json, path: stderr } }")
        .replace("servers: [\"", "servers: [\"h2c://");
    let server = Tidegate::start(&config);
    let mut connection = server.connect("web");
    let mut client = Http2Peer::client(&mut connection);
    let stream = client.open_unchecked(CONNECT, false);
    let response = client.event();
    assert!(matches!(response, Some(Event::Response { status: 200, .. })), "{response:?}");
    assert_eq!(read_data(&mut client, stream, 4).0, b"\x81\x02hi");
    drain(&server);
    assert_eq!(read_data(&mut client, stream, 4).0, GOING_AWAY);
    client.send(stream, MASKED_CLOSE, true);
    assert_eq!(read_data(&mut client, stream, 1), (Vec::new(), true));
    client.until_end();
    let exit = ends_drained(server);
    let line = exit.stderr.lines().find(|line| line.contains("/chat")).expect("a line of the log");
    assert!(line.contains("\"status\":200,\"bytes\":8,"), "{line}");
    let carried = "\"received_bytes\":8,\"sent_bytes\":8,\
                   \"received_messages\":0,\"sent_messages\":1,";
    assert!(line.contains(carried), "{line}");
}
