//! Upgrade: after 101 the connection is raw bytes both ways, until both sides are done, one breaks,
//! or nothing moves for too long (RFC 9110 7.8).

use crate::setup::behind;
use scenarios::{Connection, Tidegate, Upstream};
use std::time::{Duration, Instant};

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nhost: a\r\nconnection: Upgrade\r\n\
                       upgrade: websocket\r\nsec-websocket-key: dGhlIHNhbXBsZQ==\r\n\r\n";
const SWITCHING: &str = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n\
                         upgrade: websocket\r\nsec-websocket-accept: x\r\n\r\n";

fn accept_upgrade(peer: &mut Connection) {
    let head = peer.read_head();
    let small = head.to_ascii_lowercase();
    assert!(small.contains("\r\nupgrade: websocket\r\n"), "{head}");
    assert!(small.contains("\r\nconnection: upgrade\r\n"), "{head}");
    assert!(small.contains("\r\nsec-websocket-key: "), "{head}");
    peer.send(SWITCHING);
}

fn upgrade(server: &Tidegate) -> Connection {
    let mut client = server.connect("web");
    client.send(UPGRADE);
    let response = client.read_response();
    assert_eq!((response.status, response.header("upgrade")), (101, Some("websocket")));
    assert!(response.header("connection").is_some_and(|c| c.eq_ignore_ascii_case("upgrade")));
    assert_eq!(response.header("sec-websocket-accept"), Some("x"));
    client
}

fn closes(server: &Tidegate, reason: &str) {
    server.wait_for_metric("tidegate_connections_closed_total", &[("reason", reason)], 1.0);
    assert_eq!(server.metrics().sum("tidegate_tunnels_active", &[]), 0.0);
}

#[test]
fn bytes_go_both_ways_unchanged_and_each_end_is_passed_on() {
    let upstream = Upstream::start(|peer| {
        accept_upgrade(peer);
        // Whatever comes goes back, until the client is done; then there is one word more.
        while !peer.at_end() {
            let some = peer.read_exactly(peer.waiting());
            peer.send(some);
        }
        peer.send("goodbye");
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = upgrade(&server);
    // What looks like HTTP is not HTTP any more.
    let all: Vec<u8> = (0..=255).collect();
    for bytes in [b"GET / HTTP/1.1\r\n\r\n".as_slice(), b"\0\xff\r\n0\r\n\r\n", &all] {
        client.send(bytes);
        assert_eq!(client.read_exactly(bytes.len()), bytes);
    }
    assert_eq!(server.metrics().sum("tidegate_tunnels_active", &[]), 1.0);
    client.finish_sending();
    assert_eq!(client.read_to_end(), b"goodbye");
    drop(client);
    closes(&server, "upgrade_finished");
}

#[test]
fn what_comes_with_the_heads_is_not_lost() {
    let upstream = Upstream::start(|peer| {
        peer.read_head();
        peer.send(format!("{SWITCHING}first words"));
        peer.expect("early bird");
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = server.connect("web");
    client.send(format!("{UPGRADE}early bird"));
    assert_eq!(client.read_response().status, 101);
    assert_eq!(client.read_to_end(), b"first words");
}

#[test]
fn megabytes_go_both_ways_at_once() {
    /// Sends from another thread, while this one reads to the end.
    fn exchange(connection: &mut Connection, byte: u8) -> usize {
        let mut sending = connection.clone_for_reading();
        let sent = std::thread::spawn(move || {
            sending.send(vec![byte; 8 << 20]);
            sending.finish_sending();
        });
        let got = connection.read_to_end();
        sent.join().expect("no panic");
        assert!(got.iter().all(|other| *other != byte));
        got.len()
    }
    let upstream = Upstream::start(|peer| {
        accept_upgrade(peer);
        assert_eq!(exchange(peer, b'u'), 8 << 20);
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    assert_eq!(exchange(&mut upgrade(&server), b'c'), 8 << 20);
}

#[test]
fn the_upstream_may_end_first() {
    let upstream = Upstream::start(|peer| {
        accept_upgrade(peer);
        peer.send("bye");
        peer.finish_sending();
        assert_eq!(peer.read_to_end(), b"still here");
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = upgrade(&server);
    assert_eq!(client.read_to_end(), b"bye");
    client.send("still here");
    client.finish_sending();
    closes(&server, "upgrade_finished");
    drop(upstream); // its script has seen what it expects
}

#[test]
fn an_idle_tunnel_ends() {
    let upstream = Upstream::start(|peer| {
        accept_upgrade(peer);
        peer.read_until_gone();
    });
    let config = behind(&upstream, "");
    let config = config.replace("\"] }", "\"], timeouts: { idle: 1s } }");
    let server = Tidegate::start(&config);
    let mut client = upgrade(&server);
    client.read_until_gone();
    closes(&server, "tunnel_idle");
}

#[test]
fn a_client_that_vanishes_ends_the_tunnel_for_the_upstream() {
    let (ends, ended) = std::sync::mpsc::channel();
    let upstream = Upstream::start(move |peer| {
        accept_upgrade(peer);
        peer.expect("a word");
        peer.send("heard");
        peer.read_until_gone();
        ends.send(()).expect("the test waits");
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = upgrade(&server);
    client.send("a word");
    client.expect("heard");
    client.reset();
    ended.recv_timeout(scenarios::PATIENCE).expect("the script has come to its end");
    closes(&server, "client_gone");
}

#[test]
fn a_refused_upgrade_is_a_response_like_any_other() {
    let upstream = Upstream::responding("HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\n\r\nno");
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = server.connect("web");
    for _ in 0..2 {
        client.send(UPGRADE);
        let response = client.read_response();
        assert_eq!((response.status, response.text().as_str()), (403, "no"));
    }
}

#[test]
fn an_unrequested_upgrade_is_a_bad_gateway() {
    let upstream = Upstream::start(|peer| {
        peer.read_head();
        peer.send(SWITCHING);
        peer.at_end();
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = server.connect("web");
    // Upgrade without Connection: upgrade is not a request for one.
    client.send("GET / HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\n\r\n");
    assert_eq!(client.read_response().status, 502);
    client.send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    client.read_exactly(1);
}

#[test]
fn a_tunnel_without_frames_lives_until_the_time_to_drain_is_over() {
    let upstream = Upstream::start(|peer| {
        accept_upgrade(peer);
        while !peer.at_end() {
            let some = peer.read_exactly(peer.waiting());
            peer.send(some);
        }
        // The end comes to this side too, and not as a reset.
        peer.expect_closed();
    });
    let echoes = |client: &mut Connection, text: &str| {
        client.send(text);
        client.expect(text);
    };
    let start = |drain: &str| {
        let more = format!("timeouts: {{ drain: {drain} }}");
        let server = Tidegate::start(&behind(&upstream, &more));
        let mut clients = [upgrade(&server), upgrade(&server)];
        // No frame of WebSocket: a Close frame would not be a frame either.
        clients.iter_mut().for_each(|client| echoes(client, "hello"));
        (server, clients)
    };
    let (server, mut clients) = start("1h");
    server.signal("TERM");
    server.wait_for_log("draining");
    clients.iter_mut().for_each(|client| echoes(client, "still here"));
    for client in &mut clients {
        client.finish_sending();
        client.expect_closed();
    }
    assert_eq!(server.wait().code, Some(0));

    let (server, mut clients) = start("3s");
    let begin = Instant::now();
    server.signal("TERM");
    clients.iter_mut().for_each(Connection::expect_closed);
    assert!(begin.elapsed() >= Duration::from_millis(2900), "{:?}", begin.elapsed());
    let exit = server.wait();
    assert_eq!(exit.code, Some(0));
    assert!(exit.stderr.contains("cut off connections=2"), "{}", exit.stderr);
}

#[test]
fn a_server_whose_tunnels_have_ended_does_not_wait_for_the_deadline() {
    let upstream = Upstream::start(|peer| {
        accept_upgrade(peer);
        peer.send("hello");
        peer.read_until_gone();
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = upgrade(&server);
    client.expect("hello");
    server.signal("TERM");
    server.wait_for_log("draining");
    client.finish_sending();
    client.expect_closed();
    let exit = server.wait();
    assert!(exit.stderr.contains("drained"), "{}", exit.stderr);
}

#[test]
fn the_messages_of_a_websocket_are_counted() {
    let upstream = Upstream::start(|peer| {
        accept_upgrade(peer);
        // A text message in two frames with a ping between them, a binary one, and the close frame.
        peer.expect("\x01\u{0}");
        peer.send(b"\x82\x7e\x00\x80");
        peer.send([7; 128]);
        peer.send(b"\x88\x02\x03\xe8");
        peer.read_until_gone();
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = upgrade(&server);
    let fragments: [&[u8]; 5] =
        [b"\x01\x00", b"\x89\x80mask", b"\x80\x81", b"mas", b"kx\x81\x00\x88\x80mask"];
    for fragment in fragments {
        client.send(fragment);
    }
    client.read_exactly(136);
    let count = |direction, kind, least| {
        let labels = [("direction", direction), ("type", kind)];
        server.wait_for_metric("tidegate_websocket_messages_total", &labels, least);
        assert_eq!(server.metrics().sum("tidegate_websocket_messages_total", &labels), least);
    };
    count("received", "close", 1.0);
    count("received", "text", 2.0);
    count("received", "binary", 0.0);
    count("sent", "text", 0.0);
    count("sent", "binary", 1.0);
    count("sent", "close", 1.0);
    let bytes = |direction| {
        server.metrics().sum("tidegate_websocket_bytes_total", &[("direction", direction)])
    };
    assert_eq!((bytes("received"), bytes("sent")), (23.0, 136.0));
}

/// The line of the access log that contains this text.
fn logged(server: &Tidegate, text: &str) -> String {
    scenarios::eventually_some("a line of the access log", || {
        let log = std::fs::read_to_string(server.path("access.log")).unwrap_or_default();
        log.lines().find(|line| line.contains(text)).map(str::to_owned)
    })
}

fn logging(upstream: &Upstream, format: &str, more: &str) -> Tidegate {
    let log = format!("log: {{ access: {{ format: {format}, path: access.log }} }}\n{more}");
    Tidegate::start(&behind(upstream, &log))
}

#[test]
fn the_line_of_a_websocket_has_what_it_carried_in_both_directions() {
    for (upgrade, messages) in
        [(UPGRADE.to_owned(), true), (UPGRADE.replace("websocket", "x"), false)]
    {
        let upstream = Upstream::start(|peer| {
            let head = peer.read_head();
            let protocol = if head.contains("websocket") { "websocket" } else { "x" };
            peer.send(SWITCHING.replace("websocket", protocol));
            peer.expect(b"\x81\x80mask\x82\x81maskx");
            peer.send(b"\x81\x02hi\x89\0");
        });
        let server = logging(&upstream, "json", "");
        let mut client = server.connect("web");
        client.send(upgrade);
        assert_eq!(client.read_response().status, 101);
        client.send(b"\x81\x80mask\x82\x81maskx");
        client.expect(b"\x81\x02hi\x89\0");
        let log = std::fs::read_to_string(server.path("access.log")).unwrap_or_default();
        assert!(!log.contains("/chat"), "the line is written at the end: {log}");
        client.finish_sending();
        client.expect_closed();
        let line = logged(&server, "/chat");
        assert!(line.starts_with("{\"time\":\"2"), "{line}");
        assert!(line.contains(",\"status\":101,\"bytes\":6,\"duration_us\":"), "{line}");
        let carried = match messages {
            true => {
                ",\"received_bytes\":13,\"sent_bytes\":6,\
                 \"received_messages\":2,\"sent_messages\":1,\"route\":\"app\""
            }
            false => ",\"received_bytes\":13,\"sent_bytes\":6,\"route\":\"app\"",
        };
        assert!(line.contains(carried) && line.ends_with('}'), "{line}");
    }
}

#[test]
fn a_tunnel_that_is_cut_off_is_logged() {
    let upstream = Upstream::start(|peer| {
        accept_upgrade(peer);
        peer.send("no frame");
        peer.read_until_gone();
    });
    let server = logging(&upstream, "combined", "timeouts: { drain: 1s }");
    let mut client = upgrade(&server);
    client.expect("no frame");
    server.signal("TERM");
    client.expect_closed();
    let line = logged(&server, "/chat");
    assert!(line.starts_with("127.0.0.1 - - ["), "{line}");
    assert!(line.ends_with("] \"GET /chat HTTP/1.1\" 101 8 \"-\" \"-\""), "{line}");
    let exit = server.wait();
    assert!(exit.stderr.contains("cut off connections=1"), "{}", exit.stderr);
}

#[test]
fn a_format_of_the_operator_has_the_end_of_the_tunnel() {
    let upstream = Upstream::start(|peer| {
        accept_upgrade(peer);
        peer.send("no frame");
        peer.read_until_gone();
    });
    let format = "'{bytes} {duration_us} \"{method} {target}\" {status} {header.none}'";
    let server = logging(&upstream, format, "timeouts: { drain: 1s }");
    let mut client = upgrade(&server);
    client.expect("no frame");
    drop(client);
    let line = logged(&server, "/chat");
    let (bytes, rest) = line.split_once(' ').unwrap();
    let (duration_us, rest) = rest.split_once(' ').unwrap();
    assert_eq!((bytes, rest), ("8", "\"GET /chat\" 101 -"), "{line}");
    assert!(duration_us.parse::<u64>().unwrap() > 0, "{line}");
}
