//! The listeners of the admin API: stalled connections do not keep other clients out, and a change
//! that this machine cannot make is rejected before anything has changed.

use crate::setup::responding;
use scenarios::{Connection, HttpResponse, Launch, Tidegate, Upstream, eventually, free_port};
use std::time::{Duration, Instant};

const HEALTH: &str = "GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
/// Seats of the admin listener.
const SEATS: usize = 256;
/// How long a connection of the reserve may take to send a request (`HURRY` of crates/server).
const HURRY: Duration = Duration::from_secs(1);

fn health(server: &Tidegate) -> u16 {
    server.exchange("admin", HEALTH).status
}

/// True if a client that sends at once is served; false if a busy machine held it up for so long
/// that the server need not wait for it.
fn is_served(server: &Tidegate) -> bool {
    let began = Instant::now();
    let mut client = server.connect("admin");
    client.try_send(HEALTH);
    let is_served = client.read_until_gone().starts_with(b"HTTP/1.1 200 ");
    assert!(is_served || began.elapsed() >= HURRY, "a client that sends at once is locked out");
    is_served
}

#[test]
fn slow_connections_do_not_lock_others_out() {
    let server = Tidegate::start(&responding(""));
    let slow = |index: usize| {
        let mut client = server.connect("admin");
        let part = match index % 3 {
            0 => "",
            1 => "GET /healthz HT",
            _ => "PUT /v1/config HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nhal",
        };
        // One that is slow indeed may have been closed before it sends.
        client.try_send(part);
        client
    };
    let mut all: Vec<Connection> = (0..SEATS + 20).map(slow).collect();
    for _ in 0..5 {
        eventually("a client is served", || is_served(&server));
    }
    // Even the reserve is full: its connections get a short time-out.
    all.extend((0..100).map(slow));
    eventually("a connection of the reserve makes room", || {
        let mut client = server.connect("admin");
        client.try_send(HEALTH);
        client.read_until_gone().starts_with(b"HTTP/1.1 200 ")
    });
}

/// Clients that do not read their responses, or do not finish their requests, delay nothing: those
/// that stall are still waited for when the health check has its response.
#[test]
fn stalled_connections_do_not_delay_health_checks() {
    let server = Tidegate::start(&responding(""));
    let stalled = |index: usize| {
        let mut client = server.connect("admin");
        client.shrink_receive_buffer();
        match index % 3 {
            0 => client.send("GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n".repeat(20)),
            1 => client.send("GET /healthz HT"),
            _ => client.send("PUT /v1/config HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\nhal"),
        }
        client
    };
    let mut all: Vec<Connection> = (0..102).map(stalled).collect();
    assert_eq!(health(&server), 200);
    let [.., metrics, head, body] = &mut all[..] else { panic!("more than three") };
    // At once: the server waits for them for a few seconds only.
    head.send("TP/1.1\r\nhost: a\r\n\r\n");
    body.send("f a one");
    assert_eq!(head.read_response().status, 200);
    assert_eq!(metrics.read_response().status, 200);
    assert_eq!(body.read_response().status, 403, "no token is configured");
}

fn put(server: &Tidegate, config: &str) -> HttpResponse {
    let length = config.len();
    server.exchange(
        "admin",
        format!(
            "PUT /v1/config HTTP/1.1\r\nhost: a\r\nauthorization: Bearer word\r\nif-match: *\r\n\
             content-type: application/yaml\r\ncontent-length: {length}\r\n\r\n{config}"
        ),
    )
}

#[test]
fn what_this_machine_does_not_have_is_refused_and_nothing_has_changed() {
    let free = format!("127.0.0.1:{}", free_port());
    let other = Upstream::responding("");
    let busy = other.address().to_string();
    let before = responding("").replace(r#"admin: { bind: "127.0.0.1:0" }"#, ADMIN);
    let server = Tidegate::start(&before);
    let written = || std::fs::read_to_string(server.path("tidegate.yaml")).expect("a file");
    let version = || {
        let fields = "host: a\r\nauthorization: Bearer word\r\n\r\n";
        let response = server.exchange("admin", format!("GET /v1/status HTTP/1.1\r\n{fields}"));
        assert_eq!(response.status, 200, "{response:?}");
        let status: serde_json::Value = serde_json::from_slice(&response.body).expect("JSON");
        status["config_version"].as_str().expect("a version").to_owned()
    };
    let in_use = version();
    for (old, new, named) in [
        (r#"{ bind: "127.0.0.1:0" } }"#, format!("{{ bind: \"{busy}\" }} }}"), &*busy),
        (ADMIN, format!("admin: {{ bind: \"{busy}\", token: word }}"), &busy),
        (ADMIN, ADMIN.replace(" }", ", socket: /proc/none/admin.sock }"), "/proc/none"),
        ("workers: 2", "workers: 2\nlog: { access: { path: /proc/none/a.log } }".into(), "a.log"),
    ] {
        let next = before.replacen(old, &new, 1).replace("\"pong\"", "\"changed\"");
        assert_ne!(next.len(), before.len(), "{old}");
        let response = put(&server, &next);
        let problem = response.text();
        assert_eq!(response.status, 409, "{new}: {problem}");
        assert!(problem.contains(named) && problem.contains("nothing has changed"), "{problem}");
        assert_eq!(written(), before);
        let ping = server.exchange("web", "GET /ping HTTP/1.1\r\nhost: a\r\n\r\n");
        assert_eq!(ping.text(), "pong");
    }
    assert_eq!(version(), in_use);
    // What can be had is had, at another address of the API as well.
    let next = before.replace(ADMIN, &format!("admin: {{ bind: \"{free}\", token: word }}"));
    assert_eq!(put(&server, &next).status, 200);
    server.wait_for_log(&format!("name=admin address={free}"));
    assert_eq!(Connection::to(free.parse().expect("an address")).send_health(), 200);
}

const ADMIN: &str = r#"admin: { bind: "127.0.0.1:0", token: word }"#;

trait SendHealth {
    fn send_health(self) -> u16;
}

impl SendHealth for Connection {
    fn send_health(mut self) -> u16 {
        self.send(HEALTH);
        self.read_response().status
    }
}

#[test]
fn a_socket_that_was_requested_is_there_or_the_server_is_not() {
    let admin = r#"admin: { bind: "127.0.0.1:0", socket: /proc/none/admin.sock }"#;
    let config = responding("").replace(r#"admin: { bind: "127.0.0.1:0" }"#, admin);
    let exit = Launch::new(&config).run(&["up"]);
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    assert!(exit.stderr.contains("/proc/none"), "{}", exit.stderr);
    // The one we choose ourselves may be missing: the configuration did not ask for it.
    let launch = Launch::new(&responding("")).environment("XDG_RUNTIME_DIR", "/proc/none");
    let server = launch.start();
    server.wait_for_log("no admin socket");
    assert_eq!(health(&server), 200);
}

#[test]
fn a_composed_request_goes_to_a_listener_of_this_server_only() {
    let open = "admin: { bind: \"127.0.0.1:0\" }";
    let server = Tidegate::start(&responding("").replace(open, ADMIN));
    let head = |line: &str| format!("{line} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer word\r\n");
    let send = |body: &str| {
        let length = format!("content-length: {}\r\n\r\n", body.len());
        server.exchange("admin", head("POST /v1/send") + &length + body)
    };
    let port = server.address("admin").port();
    // The URL names the admin API: the request still goes to the listener.
    let url = format!("http://127.0.0.1:{port}/ping");
    let sent = send(&format!("{{\"url\": \"{url}\", \"method\": \"POST\", \"body\": \"x\"}}"));
    let (status, text) = (sent.status, sent.text());
    assert_eq!(status, 200, "{text}");
    assert!(text.contains("\"listener\": \"web\"") && text.contains("\"status\": 200"), "{text}");
    for (body, why) in [
        (r#"{"url": "/ping", "client_ip": "10.0.0.1"}"#, "has the address of this machine"),
        (r#"{"url": "/ping", "headers": {"connection": "close"}}"#, "is set by the connection"),
        (r#"{"url": "/ping", "headers": {"a": "b\r\nc: d"}}"#, "has control characters"),
        (r#"{"url": "/ping", "listener": "wbe"}"#, "did you mean"),
    ] {
        let refused = send(body);
        let (status, text) = (refused.status, refused.text());
        assert!(status == 400 && text.contains(why), "{text}");
    }
    let schema = server.exchange("admin", head("GET /v1/config/schema") + "\r\n");
    assert!(schema.text().contains("\"$defs\""));
}
