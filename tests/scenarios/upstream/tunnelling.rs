//! Upgrades (RFC 9110 7.8): after 101 the two ends talk to each other, through reloads, until one
//! of them has had enough.

use super::{config, gateway, servers, settle_without_connections, wait_until};
use scenarios::{Connection, Tidegate, Upstream};

const UPGRADE: &str = "GET /chat HTTP/1.1\r\nhost: a\r\n\
                       connection: keep-alive, Upgrade\r\nupgrade: websocket\r\n\
                       sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\n\
                      connection: Upgrade\r\nupgrade: websocket\r\n\
                      sec-websocket-accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

/// Switches protocols and echoes line by line until the other end stops, then says goodbye.
fn echoing() -> Upstream {
    Upstream::start(|peer: &mut Connection| {
        let head = peer.read_head().to_ascii_lowercase();
        assert!(head.contains("connection: upgrade\r\n"), "{head}");
        assert!(head.contains("upgrade: websocket\r\n"), "{head}");
        assert!(head.contains("sec-websocket-key:"), "{head}");
        // Bytes of the new protocol may follow the head at once.
        peer.send(format!("{SWITCH}hello\n"));
        while !peer.at_end() {
            let line = peer.read_until("\n");
            peer.send(line);
        }
        peer.send("bye\n");
    })
}

fn open(server: &Tidegate) -> Connection {
    let mut client = server.connect("web");
    client.send(UPGRADE);
    let response = client.read_response();
    assert_eq!(response.status, 101, "{response:?}");
    assert_eq!(response.header("upgrade"), Some("websocket"));
    assert!(
        response.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("upgrade"))
    );
    assert_eq!(response.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    client.expect("hello\n");
    client
}

fn assert_echoes(client: &mut Connection, text: &str) {
    client.send(text);
    client.expect(text);
}

fn tunnels(server: &Tidegate) -> f64 {
    server.metrics().sum("tidegate_tunnels_active", &[])
}

#[test]
fn bytes_go_both_ways_and_ends_are_passed_on() {
    let upstream = echoing();
    let server = gateway(&servers(&[&upstream]));
    let mut client = open(&server);
    assert_eq!(tunnels(&server), 1.0);
    assert_echoes(&mut client, "one\n");
    // What looks like a request is none any more.
    assert_echoes(&mut client, "GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    let long = format!("{}\n", "x".repeat(1 << 20));
    let mut sending = client.clone_for_reading();
    let text = long.clone();
    let sender = std::thread::spawn(move || sending.send(text));
    client.expect(&long);
    sender.join().expect("all was sent");
    client.finish_sending();
    client.expect("bye\n");
    client.expect_closed();
    drop(client);
    super::closed(&server, "upgrade_finished");
    settle_without_connections(&server);
}

#[test]
fn a_tunnel_survives_reloads() {
    let upstream = echoing();
    let other = Upstream::responding(super::OK);
    let server = gateway(&servers(&[&upstream]));
    let mut client = open(&server);
    for turn in 0..3 {
        let before = server.metrics().sum("tidegate_config_reloads_total", &[]);
        // The upstream of the tunnel is not even named any more.
        server.rewrite_config(&config(&servers(&[&other]), 1));
        server.signal("HUP");
        wait_until(&server, "a reload", |metrics| {
            metrics.sum("tidegate_config_reloads_total", &[]) > before
        });
        assert_eq!(super::ask(&server).text(), "ok");
        assert_echoes(&mut client, &format!("after reload {turn}\n"));
    }
    assert_eq!(tunnels(&server), 1.0);
    client.finish_sending();
    client.expect("bye\n");
    client.expect_closed();
    drop(client);
    super::wait_until_released(&server);
}

#[test]
fn a_client_that_vanishes_ends_the_tunnel() {
    for resets in [false, true] {
        let upstream = Upstream::start(|peer| {
            peer.read_head();
            peer.send(SWITCH);
            peer.expect("x");
            peer.send("y");
            peer.read_until_gone();
        });
        let server = gateway(&servers(&[&upstream]));
        let mut client = server.connect("web");
        client.send(UPGRADE);
        assert_eq!(client.read_response().status, 101);
        client.send("x");
        client.expect("y");
        if resets {
            client.reset();
        } else {
            drop(client);
        }
        wait_until(&server, "no tunnel", |metrics| {
            metrics.sum("tidegate_tunnels_active", &[]) == 0.0
        });
        settle_without_connections(&server);
    }
}

#[test]
fn a_server_that_vanishes_ends_the_tunnel() {
    let upstream = Upstream::start_owned(|mut peer| {
        peer.read_head();
        peer.send(SWITCH);
        peer.expect("x");
        if peer.number() == 1 {
            peer.reset();
        }
    });
    let server = gateway(&servers(&[&upstream]));
    for _ in 0..2 {
        let mut client = server.connect("web");
        client.send(UPGRADE);
        assert_eq!(client.read_response().status, 101);
        client.send("x");
        assert!(client.read_until_gone().is_empty());
        drop(client);
        settle_without_connections(&server);
    }
}

#[test]
fn a_silent_tunnel_ends() {
    let upstream = Upstream::start(|peer| {
        peer.read_head();
        peer.send(SWITCH);
        peer.read_until_gone();
    });
    let server = gateway(&format!("{}, timeouts: {{ idle: 200ms }}", servers(&[&upstream])));
    let mut client = server.connect("web");
    client.send(UPGRADE);
    assert_eq!(client.read_response().status, 101);
    client.read_until_gone();
    drop(client);
    super::closed(&server, "tunnel_idle");
    settle_without_connections(&server);
}

/// RFC 9110 7.8: a server switches to nothing that the client did not offer.
#[test]
fn a_switch_to_a_protocol_that_was_not_offered_is_a_bad_response() {
    for (offered, chosen, accepted) in [
        ("websocket", "upgrade: WebSocket\r\n", true),
        ("foo/2, websocket", "upgrade: Foo/2\r\n", true),
        ("foo/2, websocket", "upgrade: websocket, foo/2\r\n", true),
        ("websocket", "upgrade: h2c\r\n", false),
        ("foo/2", "upgrade: foo/1\r\n", false),
        ("websocket", "upgrade: websocket, h2c\r\n", false),
        ("websocket", "", false),
    ] {
        let upstream = Upstream::start(move |peer| {
            peer.read_head();
            let head = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\n";
            peer.send(format!("{head}{chosen}\r\n"));
            peer.read_until_gone();
        });
        let server = gateway(&servers(&[&upstream]));
        let mut client = server.connect("web");
        client.send(format!(
            "GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: {offered}\r\n\r\n"
        ));
        let response = client.read_response();
        if accepted {
            assert_eq!(response.status, 101, "{offered}: {chosen}");
        } else {
            super::assert_fault(&response, 502, "http_protocol_error");
        }
    }
}

#[test]
fn a_server_that_declines_responds_as_usual() {
    let upstream = Upstream::responding(super::OK);
    let server = gateway(&servers(&[&upstream]));
    let mut client = server.connect("web");
    for _ in 0..2 {
        client.send(UPGRADE);
        let response = client.read_response();
        assert_eq!((response.status, response.text().as_str()), (200, "ok"));
    }
    assert_eq!((tunnels(&server), upstream.accepted()), (0.0, 1));
    drop(client);
    super::wait_until_released(&server);
}
