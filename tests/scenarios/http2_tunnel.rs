//! WebSockets over HTTP/2 on the client's side (RFC 8441): time-outs, reloads and drains.

use crate::setup::behind;
use scenarios::{Connection, Http2Peer, Tidegate, Upstream, eventually, eventually_some};
use std::time::{Duration, Instant};
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

/// The next event of a stream or of the whole connection; `None` at the end of the connection.
fn event_of(client: &mut Http2Peer<'_>, stream: StreamKey) -> Option<Event> {
    loop {
        let event = client.event()?;
        let is_of_another = match &event {
            Event::Response { stream: of, .. }
            | Event::Data { stream: of, .. }
            | Event::Reset { stream: of, .. } => *of != stream,
            _ => false,
        };
        if !is_of_another {
            return Some(event);
        }
    }
}

/// Opens a tunnel and waits until it is accepted.
fn open(client: &mut Http2Peer<'_>) -> StreamKey {
    let stream = client.open_unchecked(CONNECT, false);
    match event_of(client, stream) {
        Some(Event::Response { status: 200, ends: false, .. }) => stream,
        other => panic!("no tunnel: {other:?}"),
    }
}

/// Sends bytes through a tunnel and reads them back; true if the server has announced its end,
/// `None` if the tunnel has ended before.
fn echo_of(client: &mut Http2Peer<'_>, stream: StreamKey, text: &'static str) -> Option<bool> {
    client.send(stream, text, false);
    let (mut received, mut is_ending) = (Vec::new(), false);
    while received.len() < text.len() {
        match event_of(client, stream) {
            Some(Event::Data { data, ends: false, .. }) => {
                client.protocol.release(stream, data.len());
                received.extend_from_slice(&data);
            }
            Some(Event::GoAway { code }) => is_ending = code == ErrorCode::NO_ERROR,
            _ => return None,
        }
    }
    assert_eq!(received, text.as_bytes());
    Some(is_ending)
}

fn echoes(client: &mut Http2Peer<'_>, stream: StreamKey, text: &'static str) -> bool {
    echo_of(client, stream, text).expect("an echo")
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
    // On a busy machine it may be idle before the echo is there.
    let stream = eventually_some("an echo", || {
        let stream = open(&mut client);
        echo_of(&mut client, stream, "hello").map(|_| stream)
    });
    loop {
        match event_of(&mut client, stream) {
            Some(Event::Reset { .. } | Event::Data { ends: true, .. }) => break,
            Some(_) => {}
            None => panic!("the connection ended with its tunnel"),
        }
    }
    server.wait_for_metric("tidegate_requests_total", &[], 1.0);
    let get = client.open_unchecked(GET, true);
    let response = event_of(&mut client, get);
    assert!(matches!(response, Some(Event::Response { status: 404, .. })), "{response:?}");
    eventually("no tunnel is open", || server.metrics().sum("tidegate_tunnels_active", &[]) == 0.0);
}

/// A 2xx would open the tunnel (RFC 9110 9.3.6).
#[test]
fn a_websocket_that_was_not_opened_is_not_reported_as_open() {
    for (response, expected) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", 502),
        ("HTTP/1.1 204 No Content\r\n\r\n", 502),
        ("HTTP/1.1 302 Found\r\nlocation: /login\r\ncontent-length: 0\r\n\r\n", 302),
        ("HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno", 403),
    ] {
        let upstream = Upstream::responding(response);
        assert_eq!(refused(&behind(&upstream, "")), expected, "{response}");
    }
    let page = r#"
workers: 1
listeners: { web: { bind: "127.0.0.1:0" } }
routes: [{ match: { path: "/chat" }, handler: { respond: { body: hello } } }]
"#;
    assert_eq!(refused(page), 501);
}

/// The status of a WebSocket that is not opened.
fn refused(config: &str) -> u16 {
    let server = Tidegate::start(config);
    let mut connection = connect(&server);
    let mut client = Http2Peer::client(&mut connection);
    let stream = client.open_unchecked(CONNECT, false);
    match event_of(&mut client, stream) {
        Some(Event::Response { status, .. }) => status,
        other => panic!("no response: {other:?}"),
    }
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
    const DRAIN: Duration = Duration::from_secs(2);
    let upstream = echo();
    let server = Tidegate::start(&behind(&upstream, "timeouts: { drain: 2s }"));
    let mut connection = connect(&server);
    let mut client = Http2Peer::client(&mut connection);
    let stream = open(&mut client);
    echoes(&mut client, stream, "before");
    let begin = Instant::now();
    server.signal("TERM");
    server.wait_for_log("draining");
    let goaway = client.event();
    assert!(
        matches!(goaway, Some(Event::GoAway { code: ErrorCode::NO_ERROR })),
        "the drain is announced: {goaway:?}"
    );
    let is_open = echo_of(&mut client, stream, "still here").is_some();
    assert!(is_open || begin.elapsed() >= DRAIN, "the tunnel ends before its time is over");
    client.until_end();
    assert!(begin.elapsed() >= DRAIN, "{:?}", begin.elapsed());
    let exit = server.wait();
    assert_eq!(exit.code, Some(0));
    assert!(exit.stderr.contains("cut off connections=1"), "{}", exit.stderr);
}
