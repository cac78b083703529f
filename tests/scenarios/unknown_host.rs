//! What a listener does with a host that no route names: 404, 421, or the end of the connection.

use scenarios::{Process, Tidegate, command_exists};
use std::process::Command;

const CONFIG: &str = r#"
workers: 1
listeners:
  lenient: { bind: "127.0.0.1:0" }
  strict: { bind: "127.0.0.1:0", unknown_host: misdirected }
  silent: { bind: "127.0.0.1:0", unknown_host: close }
admin: { bind: "127.0.0.1:0" }
routes:
  - match: { host: [shop.example, "*.shop.example"], path: /in }
    handler: { respond: { body: in } }
  - match: { host: lenient.example, listener: lenient, path: /in }
    handler: { respond: { body: lenient } }
  - match: { path: /healthz }
    handler: { respond: { body: well } }
"#;

fn get(host: &str, path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n")
}

#[test]
fn a_host_that_no_route_names_is_treated_as_its_listener_says() {
    let server = Tidegate::start(CONFIG);
    // (host, path, of `lenient`, of `strict`)
    let table = [
        ("shop.example", "/in", 200, 200),
        ("A.Shop.Example:80", "/in", 200, 200),
        ("shop.example", "/none", 404, 404),
        ("a.shop.example.", "/none", 404, 404),
        ("other.example", "/in", 404, 421),
        // Named on another listener only.
        ("lenient.example", "/in", 200, 421),
        // A route without a host takes every host.
        ("other.example", "/healthz", 200, 200),
    ];
    for (host, path, lenient, strict) in table {
        for (listener, status) in [("lenient", lenient), ("strict", strict)] {
            let response = server.exchange(listener, get(host, path));
            assert_eq!(response.status, status, "{host} {path} on {listener}");
            assert_eq!(response.header("connection"), None, "{response:?}");
        }
    }
}

#[test]
fn the_connection_may_end_without_a_response() {
    let server = Tidegate::start(CONFIG);
    let mut client = server.connect("silent");
    client.send(get("shop.example", "/in"));
    assert_eq!(client.read_response().text(), "in");
    // What was requested before is still responded to.
    client.send(get("a.shop.example", "/in") + &get("other.example", "/in"));
    assert_eq!(client.read_response().text(), "in");
    client.expect_closed();
    let reason = [("reason", "unknown_host")];
    server.wait_for_metric("tidegate_connections_closed_total", &reason, 1.0);
    let mut client = server.connect("silent");
    client.send("GET /in HTTP/1.0\r\n\r\n");
    client.expect_closed();
    server.wait_for_metric("tidegate_connections_closed_total", &reason, 2.0);
}

#[test]
fn a_stream_without_a_response_is_not_requested_again() {
    if !command_exists("curl") {
        return;
    }
    let server = Tidegate::start(CONFIG);
    let url = format!("http://{}/in", server.address("silent"));
    let mut command = Command::new("curl");
    command.args(["-sS", "--max-time", "40", "--http2-prior-knowledge", "-H", "host: a.test"]);
    let exit = Process::run(command.arg(url));
    // Of REFUSED_STREAM a client knows that it may retry.
    assert!(exit.stderr.contains("CANCEL"), "{exit:?}");
    server.wait_for_metric("tidegate_requests_in_flight", &[], 0.0);
}
