//! The PROXY protocol: received by listeners and streams from listed proxies, sent to upstreams.

use scenarios::{Authority, Connection, Process, Tidegate, Upstream};
use std::process::Command;

/// A header of version 2 for a client at 192.0.2.7:1234 that has connected to 192.0.2.8:80.
const V2: &[u8] =
    b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x07\xc0\x00\x02\x08\x04\xd2\x00\x50";
const V2_LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00";
const V1: &[u8] = b"PROXY TCP4 192.0.2.7 192.0.2.8 1234 80\r\n";
const V1_UNKNOWN: &[u8] = b"PROXY UNKNOWN\r\n";
const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

/// A server that responds with the client's address behind proxies at `from`.
fn responding(from: &str) -> Tidegate {
    responding_within("1h", from)
}

/// The same with a time for the header.
fn responding_within(handshake: &str, from: &str) -> Tidegate {
    Tidegate::start(&format!(
        r#"
listeners:
  web:
    bind: "127.0.0.1:0"
    timeouts: {{ handshake: {handshake} }}
    proxy_protocol: {{ from: ["{from}"] }}
admin: {{ bind: "127.0.0.1:0" }}
log: {{ access: {{ path: access.log }} }}
routes:
  - filters: [{{ response_headers: {{ set: {{ x-client: "{{client_ip}}" }} }} }}]
    handler: {{ respond: {{ body: hello }} }}
"#
    ))
}

fn closed(server: &Tidegate, reason: &str) {
    server.wait_for_metric("tidegate_connections_closed_total", &[("reason", reason)], 1.0);
}

#[test]
fn the_header_names_the_client_of_every_request() {
    let server = responding("127.0.0.0/8");
    for (header, client) in [
        (V1, "192.0.2.7"),
        (V2, "192.0.2.7"),
        (V1_UNKNOWN, "127.0.0.1"),
        (V2_LOCAL, "127.0.0.1"),
        (b"PROXY TCP6 2001:db8::7 2001:db8::8 1234 80\r\n", "2001:db8::7"),
    ] {
        let mut connection = server.connect("web");
        connection.send([header, GET].concat());
        assert_eq!(connection.read_response().header("x-client"), Some(client));
        connection.send(GET);
        assert_eq!(connection.read_response().header("x-client"), Some(client));
    }
    let mut connection = server.connect("web");
    connection.send_byte_by_byte([V2, GET].concat());
    assert_eq!(connection.read_response().header("x-client"), Some("192.0.2.7"));
    scenarios::eventually("the access log has the client", || {
        let log = std::fs::read_to_string(server.path("access.log")).unwrap_or_default();
        log.contains("\"client_ip\":\"2001:db8::7\"")
    });
}

#[test]
fn connections_without_a_header_are_closed() {
    let server = responding("127.0.0.1");
    for start in [GET, b"PROXY TCP4 192.0.2.7 192.0.2.8 1234\r\n", b"PROXX"] {
        let mut connection = server.connect("web");
        connection.send(start);
        assert_eq!(connection.read_until_gone(), b"");
    }
    closed(&server, "proxy_header");
    let server = responding_within("1s", "127.0.0.1");
    let mut slow = server.connect("web");
    slow.send("PROXY TCP4 192.");
    assert_eq!(slow.read_until_gone(), b"");
    closed(&server, "handshake_timeout");
}

#[test]
fn a_peer_that_is_not_listed_is_rejected() {
    let server = responding("192.0.2.0/24");
    let mut connection = server.connect("web");
    connection.try_send([V1, GET].concat());
    assert_eq!(connection.read_until_gone(), b"");
    closed(&server, "proxy_unknown");
    server.wait_for_log("not listed in `from`");
}

#[test]
fn the_header_comes_before_tls() {
    let authority = Authority::new();
    let issued = authority.issue(&["a.test"]);
    let config = r#"
listeners:
  web:
    bind: "127.0.0.1:0"
    proxy_protocol: { from: [127.0.0.1] }
    tls: { certificates: [{ cert: a.pem, key: a.key }] }
routes:
  - filters: [{ response_headers: { set: { x-client: "{client_ip} {scheme}" } } }]
    handler: { respond: { body: hello } }
"#;
    let server = scenarios::Launch::new(config)
        .file("a.pem", issued.chain)
        .file("a.key", issued.key)
        .file("ca.pem", authority.pem())
        .start();
    let port = server.address("web").port();
    let mut curl = Command::new("curl");
    curl.args(["-sS", "-i", "--max-time", "30", "--haproxy-protocol", "--cacert"]);
    curl.arg(server.path("ca.pem")).args(["--resolve", &format!("a.test:{port}:127.0.0.1")]);
    let exit = Process::run(curl.arg(format!("https://a.test:{port}/")));
    assert!(exit.stdout.contains("x-client: 127.0.0.1 https"), "{exit:?}");
}

/// Reads a header of version 2 and returns the client's address and port.
fn read_v2(peer: &mut Connection) -> ([u8; 4], u16) {
    let header = peer.read_exactly(28);
    assert_eq!(&header[..16], b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c");
    (header[16..20].try_into().expect("four"), u16::from_be_bytes([header[24], header[25]]))
}

#[test]
fn each_client_gets_connections_of_its_own_to_the_upstream() {
    let upstream = Upstream::start(|peer| {
        let (address, port) = read_v2(peer);
        peer.read_head();
        let body = format!("{address:?} {port}");
        peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()));
        // Nothing else comes: the connection belongs to the client of its header.
        peer.expect_closed();
    });
    let server = Tidegate::start(&format!(
        r#"
listeners: {{ web: {{ bind: "127.0.0.1:0", proxy_protocol: {{ from: [127.0.0.1] }} }} }}
upstreams: {{ u: {{ servers: ["{}"], send_proxy_protocol: v2 }} }}
routes: [{{ handler: {{ upstream: u }} }}]
"#,
        upstream.address()
    ));
    for _ in 0..2 {
        let mut client = server.connect("web");
        client.send([V1, GET].concat());
        assert_eq!(client.read_response().text(), "[192, 0, 2, 7] 1234");
        client.send(GET);
        assert_eq!(client.read_response().text(), "[192, 0, 2, 7] 1234");
    }
    assert_eq!(upstream.accepted(), 4);
}

#[test]
fn a_stream_passes_the_client_on() {
    let upstream = Upstream::start(|peer| {
        peer.expect("PROXY TCP4 192.0.2.7 127.0.0.1 1234 ");
        peer.read_until("\r\n");
        peer.expect("ping");
        peer.send("pong");
    });
    let server = Tidegate::start(&format!(
        r#"
streams:
  - {{ name: raw, bind: "127.0.0.1:0", upstream: u, proxy_protocol: {{ from: [127.0.0.1] }} }}
upstreams: {{ u: {{ servers: ["{}"], send_proxy_protocol: v1 }} }}
"#,
        upstream.address()
    ));
    let mut client = server.connect("raw");
    client.send([V2, b"ping"].concat());
    assert_eq!(client.read_to_end(), b"pong");
}

#[test]
fn a_health_check_names_no_client() {
    let upstream = Upstream::start(|peer| {
        // A check may be cut short by the end of the server.
        let Some(first) = peer.try_read_exactly(6) else { return };
        assert_eq!(first, b"PROXY ");
        let kind = peer.read_until("\r\n");
        let head = peer.read_head();
        let is_check = head.contains("tidegate-health");
        assert_eq!(kind == b"UNKNOWN\r\n", is_check, "{head}");
        peer.try_send("HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    });
    let server = Tidegate::start(&format!(
        r#"
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0" }}
upstreams:
  u:
    servers: ["{}"]
    send_proxy_protocol: v1
    health: {{ path: /, interval: 100ms, timeout: 1m }}
routes: [{{ handler: {{ upstream: u }} }}]
"#,
        upstream.address()
    ));
    server.wait_for_metric("tidegate_upstream_health_checks_total", &[("result", "ok")], 1.0);
    assert_eq!(server.exchange("web", GET).status, 200);
}
