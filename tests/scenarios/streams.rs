//! Streams (layer 4): bytes both ways, half-closes, resets, dead servers, limits, TLS by server
//! name, reloads under open connections, and datagrams.
#![allow(clippy::disallowed_types, reason = "the client side of a test opens its own sockets")]

use crate::upstream::Refusing;
use scenarios::{Authority, Connection, Launch, PATIENCE, Process, Tidegate, Upstream, eventually};
use std::net::{SocketAddr, UdpSocket};
use std::process::Command;

mod health;

/// A server with one stream `raw` to the upstream `u`; `more` is added to the stream.
fn config(servers: &str, more: &str) -> String {
    format!(
        r#"
streams: [{{ name: raw, bind: "127.0.0.1:0", upstream: u{more} }}]
upstreams: {{ u: {{ servers: [{servers}], timeouts: {{ connect: 20s }} }} }}
admin: {{ bind: "127.0.0.1:0" }}
log: {{ access: {{ path: access.log }} }}
"#
    )
}

fn quoted(upstream: &Upstream) -> String {
    format!("\"{}\"", upstream.address())
}

fn start(upstream: &Upstream, more: &str) -> Tidegate {
    Tidegate::start(&config(&quoted(upstream), more))
}

/// Returns what it receives, then says goodbye.
fn echo() -> Upstream {
    Upstream::start(|peer| {
        while !peer.at_end() {
            let some = peer.read_exactly(peer.waiting());
            if !peer.try_send(some) {
                return;
            }
        }
        peer.try_send("goodbye");
    })
}

fn closed(server: &Tidegate, reason: &str) {
    let name = "tidegate_stream_connections_closed_total";
    server.wait_for_metric(name, &[("stream", "raw"), ("reason", reason)], 1.0);
}

fn reload(server: &Tidegate, config: &str) {
    let before = server.metrics().sum("tidegate_config_reloads_total", &[]);
    server.rewrite_config(config);
    server.wait_for_metric("tidegate_config_reloads_total", &[], before + 1.0);
}

fn echoes(client: &mut Connection, text: &str) {
    client.send(text);
    client.expect(text);
}

#[test]
fn bytes_and_half_closes_are_passed_on_and_counted() {
    let upstream = echo();
    let server = start(&upstream, "");
    let mut client = server.connect("raw");
    let all: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let mut sender = client.clone_for_reading();
    let sent = all.clone();
    let sending = std::thread::spawn(move || sender.send(sent));
    assert_eq!(client.read_exactly(all.len()), all);
    sending.join().expect("all is sent");
    assert_eq!(server.metrics().sum("tidegate_stream_connections_active", &[]), 1.0);
    client.finish_sending();
    assert_eq!(client.read_to_end(), b"goodbye");
    closed(&server, "stream_finished");
    let metrics = server.metrics();
    assert_eq!(metrics.sum("tidegate_stream_received_bytes_total", &[]), 300_000.0);
    assert_eq!(metrics.sum("tidegate_stream_sent_bytes_total", &[]), 300_007.0);
    assert_eq!(metrics.sum("tidegate_stream_connections_active", &[]), 0.0);
    let line = format!("\"upstream\":\"{}\",\"received_bytes\":300000", upstream.address());
    eventually("the access log has the stream", || {
        let log = std::fs::read_to_string(server.path("access.log")).unwrap_or_default();
        log.contains("\"stream\":\"raw\"") && log.contains(&line)
    });
}

#[test]
fn a_server_that_speaks_first_is_heard() {
    let upstream = Upstream::start(|peer| {
        peer.send("220 ready\r\n");
        peer.expect("QUIT");
    });
    let server = start(&upstream, "");
    let mut client = server.connect("raw");
    client.expect("220 ready\r\n");
    client.send("QUIT");
    client.read_to_end();
}

#[test]
fn a_broken_side_is_a_reset_of_the_other() {
    let upstream = Upstream::start_owned(|mut peer| {
        peer.expect("hello");
        peer.reset();
    });
    let server = start(&upstream, "");
    let mut client = server.connect("raw");
    client.send("hello");
    client.expect_reset();
    closed(&server, "stream_broken");

    let upstream = Upstream::start(|peer| {
        peer.expect("hello");
        peer.send("go");
        peer.expect_reset();
    });
    let server = start(&upstream, "");
    let mut client = server.connect("raw");
    client.send("hello");
    client.expect("go");
    client.reset();
    closed(&server, "client_reset");
}

#[test]
fn a_dead_server_is_passed_over_and_a_dead_upstream_is_a_reset() {
    let refusing = Refusing::start();
    let dead = refusing.address();
    let upstream = echo();
    let both = format!("\"{dead}\", {}", quoted(&upstream));
    let server = Tidegate::start(&config(&both, ""));
    for _ in 0..8 {
        echoes(&mut server.connect("raw"), "ping");
    }
    let server = Tidegate::start(&config(&format!("\"{dead}\""), ""));
    let mut client = server.connect("raw");
    client.expect_reset();
    closed(&server, "stream_unconnected");
    server.wait_for_log("could not be connected to its upstream");
}

#[test]
fn clients_are_limited_and_denied() {
    let upstream = echo();
    let server = start(&upstream, ", limits: { connections_per_client: 2 }");
    let mut first = server.connect("raw");
    let mut second = server.connect("raw");
    echoes(&mut first, "a");
    echoes(&mut second, "b");
    assert_eq!(server.connect("raw").read_until_gone(), b"");
    closed(&server, "client_limit");
    drop(first);
    closed(&server, "stream_finished");
    echoes(&mut server.connect("raw"), "c");

    let server = start(&upstream, ", limits: { connections: 1 }");
    let mut first = server.connect("raw");
    echoes(&mut first, "a");
    assert_eq!(server.connect("raw").read_until_gone(), b"");
    closed(&server, "connection_limit");

    let server = start(&upstream, ", allow: [127.0.0.0/8], deny: [127.0.0.1]");
    assert_eq!(server.connect("raw").read_until_gone(), b"");
    closed(&server, "client_denied");
}

#[test]
fn a_client_that_connects_too_often_is_closed_also_after_a_reload() {
    let upstream = echo();
    let rate = |rate: &str| format!(", limits: {{ connection_rate_per_client: {rate} }}");
    let server = start(&upstream, &rate("1/h"));
    let mut first = server.connect("raw");
    echoes(&mut first, "a");
    assert_eq!(server.connect("raw").read_until_gone(), b"");
    closed(&server, "client_rate");
    let limit = [("limit", "client_rate")];
    assert_eq!(server.metrics().sum("tidegate_limits_hit_total", &limit), 1.0);
    reload(&server, &config(&quoted(&upstream), &rate("2/h")));
    assert_eq!(server.connect("raw").read_until_gone(), b"");
    echoes(&mut first, "b");
    reload(&server, &config(&quoted(&upstream), ""));
    echoes(&mut server.connect("raw"), "c");
}

#[test]
fn a_stream_without_a_byte_is_closed() {
    let upstream = echo();
    let server = start(&upstream, ", timeouts: { idle: 200ms }");
    // A busy machine may take longer than that for an echo.
    eventually("a stream ends after its echo", || {
        let mut client = server.connect("raw");
        client.try_send("a");
        client.read_until_gone() == b"a"
    });
    closed(&server, "tunnel_idle");
}

#[test]
fn open_streams_outlive_a_reload_and_a_drain() {
    let (one, other) = (echo(), Upstream::start(|peer| peer.send("new")));
    let server = start(&one, "");
    let mut old = server.connect("raw");
    echoes(&mut old, "before");
    reload(&server, &config(&quoted(&other), ""));
    let mut new = server.connect("raw");
    new.expect("new");
    echoes(&mut old, "after");
    drop(new);
    server.signal("TERM");
    server.wait_for_log("draining");
    echoes(&mut old, "drained");
    old.finish_sending();
    assert_eq!(old.read_to_end(), b"goodbye");
    assert_eq!(server.wait().code, Some(0));
}

/// An HTTPS server whose certificate names `name`, and which responds with it.
fn secure(authority: &Authority, name: &str) -> Tidegate {
    let issued = authority.issue(&[name]);
    Launch::new(&format!(
        r#"
listeners:
  web: {{ bind: "127.0.0.1:0", tls: {{ certificates: [{{ cert: a.pem, key: a.key }}] }} }}
routes: [{{ handler: {{ respond: {{ body: "I am {name}" }} }} }}]
"#
    ))
    .file("a.pem", issued.chain)
    .file("a.key", issued.key)
    .start()
}

/// Fetches `/` of `name` over TLS from the stream `raw`.
fn curl(server: &Tidegate, name: &str) -> String {
    let port = server.address("raw").port();
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--max-time", "30", "--resolve", &format!("{name}:{port}:127.0.0.1")]);
    curl.arg("--cacert").arg(server.path("ca.pem"));
    Process::run(curl.arg(format!("https://{name}:{port}/"))).stdout
}

#[test]
fn tls_is_passed_through_by_server_name() {
    let authority = Authority::new();
    let a = secure(&authority, "a.test");
    let b = secure(&authority, "x.b.test");
    let config = format!(
        r#"
streams:
  - name: raw
    bind: "127.0.0.1:0"
    timeouts: {{ handshake: 1h }}
    sni: {{ a.test: a, "*.b.test": b }}
upstreams: {{ a: {{ servers: ["{}"] }}, b: {{ servers: ["{}"] }} }}
admin: {{ bind: "127.0.0.1:0" }}
"#,
        a.address("web"),
        b.address("web")
    );
    let server = Launch::new(&config).file("ca.pem", authority.pem()).start();
    assert_eq!(curl(&server, "a.test"), "I am a.test");
    assert_eq!(curl(&server, "x.b.test"), "I am x.b.test");
    assert_eq!(curl(&server, "c.test"), "");
    closed(&server, "unknown_server_name");
    let mut plain = server.connect("raw");
    plain.send("GET / HTTP/1.1\r\n\r\n");
    assert_eq!(plain.read_until_gone(), b"");
    closed(&server, "tls_failed");
    let server = Tidegate::start(&config.replace("handshake: 1h", "handshake: 1s"));
    let mut silent = server.connect("raw");
    silent.send(b"\x16\x03\x01");
    assert_eq!(silent.read_until_gone(), b"");
    closed(&server, "handshake_timeout");
}

/// A ClientHello that offers protocols and names no server.
fn hello(protocols: &[&str]) -> Vec<u8> {
    let sized = |content: &[u8]| {
        let length = u16::try_from(content.len()).expect("a short message").to_be_bytes();
        [&length[..], content].concat()
    };
    let one = |name: &&str| [&[name.len() as u8], name.as_bytes()].concat();
    let names: Vec<u8> = protocols.iter().flat_map(one).collect();
    let extension = [&[0, 16][..], &sized(&sized(&names))].concat();
    let suites = [0, 0, 2, 0x13, 1, 1, 0];
    let content = [&[3, 3][..], &[7; 32], &suites, &sized(&extension)].concat();
    [&[22, 3, 1][..], &sized(&[&[1, 0][..], &sized(&content)].concat())].concat()
}

#[test]
fn an_upstream_is_selected_by_protocol() {
    let greeting = |text: &'static str| {
        Upstream::start(move |peer| {
            peer.send(text);
            peer.read_until_gone();
        })
    };
    let (named, h2, imap) = (greeting("named"), greeting("h2"), greeting("imap"));
    let choosing = |more: &str| {
        Tidegate::start(&format!(
            r#"
streams: [{{ name: raw, bind: "127.0.0.1:0", alpn: {{ h2: h2, imap: imap }}{more} }}]
upstreams:
  named: {{ servers: [{}] }}
  h2: {{ servers: [{}] }}
  imap: {{ servers: [{}] }}
admin: {{ bind: "127.0.0.1:0" }}
"#,
            quoted(&named),
            quoted(&h2),
            quoted(&imap)
        ))
    };
    for more in [", upstream: named", ", sni: { \"*\": named }"] {
        let server = choosing(more);
        for (offered, expected) in
            [(&["imap", "h2"][..], "imap"), (&["http/1.1", "h2"], "h2"), (&["http/1.1"], "named")]
        {
            let mut client = server.connect("raw");
            client.send(hello(offered));
            client.expect(expected);
        }
    }
    let server = choosing(", sni: { a.test: named }");
    let mut other = server.connect("raw");
    other.send(hello(&["http/1.1"]));
    assert_eq!(other.read_until_gone(), b"");
    closed(&server, "unknown_server_name");
}

#[test]
fn tls_ends_at_the_stream() {
    let authority = Authority::new();
    let issued = authority.issue(&["a.test"]);
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nplain");
    let tls = ", tls: { certificates: [{ cert: a.pem, key: a.key }] }";
    let server = Launch::new(&config(&quoted(&upstream), tls))
        .file("a.pem", issued.chain)
        .file("a.key", issued.key)
        .file("ca.pem", authority.pem())
        .start();
    assert_eq!(curl(&server, "a.test"), "plain");
    let metrics = server.metrics();
    assert_eq!(metrics.sum("tidegate_tls_handshakes_total", &[("result", "full")]), 1.0);
    let names = ("listener", "raw");
    assert!(metrics.sum("tidegate_certificate_expiry_seconds", &[names]) > 0.0);
}

/// The gateway does not know the protocol that a stream carries, so it offers none in ALPN.
#[test]
fn no_protocol_is_offered_to_a_server_with_tls() {
    let (hellos, received) = std::sync::mpsc::channel();
    let upstream = Upstream::start(move |peer| {
        let header = peer.read_exactly(5);
        let length = u16::from_be_bytes([header[3], header[4]]);
        let _ = hellos.send(peer.read_exactly(length.into()));
    });
    let servers = format!("\"https://{}\"", upstream.address());
    let protocols = ", protocols: [h2, http/1.1]";
    let config =
        config(&servers, "").replacen("], timeouts", &format!("]{protocols}, timeouts"), 1);
    let server = Tidegate::start(&config);
    let mut client = server.connect("raw");
    let hello = received.recv_timeout(PATIENCE).expect("a ClientHello");
    assert_eq!(hello.first(), Some(&1), "{hello:?}");
    let offers = |protocol: &[u8]| hello.windows(protocol.len()).any(|bytes| bytes == protocol);
    assert!(!offers(b"\x08http/1.1") && !offers(b"\x02h2"), "{hello:?}");
    client.read_until_gone();
}

/// A UDP server that replies to `ask` with `N: ask`, where `N` is the port of the session.
fn datagram_echo() -> UdpSocket {
    let server = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let socket = server.try_clone().expect("a descriptor");
    socket.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    std::thread::spawn(move || {
        let mut room = [0; 2000];
        while let Ok((length, from)) = socket.recv_from(&mut room) {
            if &room[..length] == b"end" {
                return;
            }
            let reply = [format!("{}: ", from.port()).as_bytes(), &room[..length]].concat();
            let _ = socket.send_to(&reply, from);
        }
    });
    server
}

/// Sends a datagram and returns the reply: the port of the session, and the text.
fn ask(client: &UdpSocket, server: SocketAddr, text: &str) -> (String, String) {
    client.set_read_timeout(Some(PATIENCE)).expect("a time-out");
    client.send_to(text.as_bytes(), server).expect("a datagram is sent");
    let mut room = [0; 2000];
    let (length, from) = client.recv_from(&mut room).expect("a reply");
    assert_eq!(from, server);
    let reply = String::from_utf8_lossy(&room[..length]).into_owned();
    let (port, text) = reply.split_once(": ").expect("a port");
    (port.to_owned(), text.to_owned())
}

fn datagrams(server: &UdpSocket, more: &str) -> String {
    let address = server.local_addr().expect("an address");
    config(&format!("\"{address}\""), &format!(", protocol: udp{more}"))
}

#[test]
fn datagrams_of_a_client_are_a_session() {
    let upstream = datagram_echo();
    let server = Tidegate::start(&datagrams(&upstream, ""));
    let address = server.address("raw");
    let client = || UdpSocket::bind("127.0.0.1:0").expect("a port");
    let (one, other) = (client(), client());
    let (session, text) = ask(&one, address, "first");
    assert_eq!(text, "first");
    assert_eq!(ask(&one, address, "second"), (session.clone(), "second".to_owned()));
    let (another, _) = ask(&other, address, "third");
    assert_ne!(another, session);
    reload(&server, &datagrams(&upstream, ", timeouts: { idle: 5m }"));
    assert_eq!(ask(&one, address, "after a reload").0, session);
    let name = "tidegate_stream_datagrams_total";
    server.wait_for_metric(name, &[("result", "sent")], 4.0);
    assert_eq!(server.metrics().sum(name, &[("result", "received")]), 4.0);
    assert_eq!(server.metrics().sum("tidegate_stream_connections_active", &[]), 2.0);
    upstream.send_to(b"end", upstream.local_addr().expect("an address")).expect("a datagram");
    server.signal("TERM");
    assert_eq!(server.wait().code, Some(0));
}

#[test]
fn sessions_are_bounded_and_end_in_silence() {
    let upstream = datagram_echo();
    let limits = ", limits: { connections: 1 }, timeouts: { idle: 300ms }";
    let server = Tidegate::start(&datagrams(&upstream, limits));
    let address = server.address("raw");
    let one = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let other = UdpSocket::bind("127.0.0.1:0").expect("a port");
    ask(&one, address, "first");
    let labels = [("stream", "raw"), ("reason", "connection_limit")];
    // A busy machine may end the session in between; then the other client begins one.
    eventually("one client is too many", || {
        for client in [&one, &other] {
            client.send_to(b"any", address).expect("a datagram is sent");
        }
        server.metrics().sum("tidegate_stream_connections_closed_total", &labels) >= 1.0
    });
    closed(&server, "tunnel_idle");
    other.set_nonblocking(true).expect("an option");
    eventually("the other client has a session", || {
        other.send_to(b"now", address).expect("a datagram is sent");
        let mut room = [0; 2000];
        while let Ok(length) = other.recv(&mut room) {
            if room[..length].ends_with(b": now") {
                return true;
            }
        }
        false
    });
    upstream.send_to(b"end", upstream.local_addr().expect("an address")).expect("a datagram");
}

#[test]
fn a_server_whose_port_is_closed_ends_the_session() {
    let unused = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let server = Tidegate::start(&datagrams(&unused, ""));
    // It receives from that peer only, and no other process gets its port.
    unused.connect("127.0.0.1:9").expect("an address");
    let client = UdpSocket::bind("127.0.0.1:0").expect("a port");
    client.send_to(b"lost", server.address("raw")).expect("a datagram is sent");
    closed(&server, "stream_broken");
}
