//! WebSockets over HTTP/2 on the client's side (RFC 8441): time-outs, reloads and drains.

use crate::setup::behind;
use scenarios::{Connection, Http2Peer, Tidegate, Upstream};
use wire::h2::{ErrorCode, Event, StreamKey};

const CONNECT: &[(&str, &str)] = &[
    (":method", "CONNECT"),
    (":protocol", "websocket"),
    (":scheme", "http"),
    (":authority", "a"),
    (":path", "/chat"),
    ("sec-websocket-version", "13"),
];
const GET: &[(&str, &str)] =
    &[(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/none")];

/// Echoes what comes through a tunnel.
fn echo() -> Upstream {
    Upstream::start(|peer| {
        let head = peer.read_head().to_lowercase();
        assert!(head.contains("\r\nupgrade: websocket\r\n"), "{head}");
        peer.send(
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n\
             upgrade: websocket\r\nsec-websocket-accept: x\r\n\r\n",
        );
        while !peer.at_end() {
            let some = peer.read_exactly(peer.waiting());
            if !peer.try_send(some) {
                return;
            }
        }
    })
}

/// Opens a tunnel and waits until it is accepted.
fn open(client: &mut Http2Peer<'_>) -> StreamKey {
    let stream = client.open_unchecked(CONNECT, false);
    match client.event() {
        Some(Event::Response { status: 200, ends: false, .. }) => stream,
        other => panic!("no tunnel: {other:?}"),
    }
}

/// Sends bytes through a tunnel and reads them back; true if the server has announced its end.
fn echoes(client: &mut Http2Peer<'_>, stream: StreamKey, text: &'static str) -> bool {
    client.send(stream, text, false);
    let (mut received, mut is_ending) = (Vec::new(), false);
    while received.len() < text.len() {
        match client.event() {
            Some(Event::Data { data, .. }) => {
                client.protocol.release(stream, data.len());
                received.extend_from_slice(&data);
            }
            Some(Event::GoAway { code }) => is_ending = code == ErrorCode::NO_ERROR,
            other => panic!("no echo: {other:?}"),
        }
    }
    assert_eq!(received, text.as_bytes());
    is_ending
}

fn connect(server: &Tidegate) -> Connection {
    server.connect("web")
}

#[test]
fn an_idle_tunnel_ends_and_its_connection_serves_on() {
    let upstream = echo();
    let config = behind(&upstream, "").replace("\"] }", "\"], timeouts: { idle: 300ms } }");
    let config = config.replace("path: \"/{*rest}\"", "path: /chat");
    let server = Tidegate::start(&config);
    let mut connection = connect(&server);
    let mut client = Http2Peer::client(&mut connection);
    let stream = open(&mut client);
    echoes(&mut client, stream, "hello");
    loop {
        match client.event() {
            Some(Event::Reset { stream: ended, .. }) if ended == stream => break,
            Some(Event::Data { stream: ended, ends: true, .. }) if ended == stream => break,
            Some(_) => {}
            None => panic!("the connection ended with its tunnel"),
        }
    }
    server.wait_for_metric("tidegate_requests_total", &[], 1.0);
    client.open_unchecked(GET, true);
    let response = client.event();
    assert!(matches!(response, Some(Event::Response { status: 404, .. })), "{response:?}");
    assert_eq!(server.metrics().sum("tidegate_tunnels_active", &[]), 0.0);
}

#[test]
fn a_tunnel_survives_the_reload_that_removes_its_route() {
    let upstream = echo();
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut connection = connect(&server);
    let mut client = Http2Peer::client(&mut connection);
    let stream = open(&mut client);
    echoes(&mut client, stream, "before");
    let other = Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    server.rewrite_config(&behind(&other, "").replace("/{*rest}", "/other"));
    server.signal("HUP");
    server.wait_for_metric("tidegate_config_reloads_total", &[], 1.0);
    assert!(!echoes(&mut client, stream, "after"), "a reload announces no end");
    assert_eq!(server.metrics().sum("tidegate_tunnels_active", &[]), 1.0);
    client.open_unchecked(CONNECT, false);
    let response = client.event();
    assert!(matches!(response, Some(Event::Response { status: 404, .. })), "{response:?}");
}

#[test]
fn a_drain_is_announced_and_a_tunnel_lives_until_its_time_is_over() {
    let upstream = echo();
    let server = Tidegate::start(&behind(&upstream, "timeouts: { drain: 2s }"));
    let mut connection = connect(&server);
    let mut client = Http2Peer::client(&mut connection);
    let stream = open(&mut client);
    echoes(&mut client, stream, "before");
    server.signal("TERM");
    server.wait_for_log("draining");
    let goaway = client.event();
    assert!(
        matches!(goaway, Some(Event::GoAway { code: ErrorCode::NO_ERROR })),
        "the drain is announced: {goaway:?}"
    );
    echoes(&mut client, stream, "still here");
    client.until_end();
    let exit = server.wait();
    assert_eq!(exit.code, Some(0));
    assert!(exit.stderr.contains("cut off connections=1"), "{}", exit.stderr);
}
