//! gRPC with grpcio and google.golang.org/grpc, each as client and as server: every kind of call
//! through the gateway.

use crate::tools::{command, gateway, has, prepared_node_packages, python_with, skip};
use scenarios::{Authority, Launch, Process, Tidegate};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A program that is service and client.
enum Implementation {
    /// `grpc_calls.py`.
    Python(PathBuf),
    /// `grpc_go`.
    Go(PathBuf),
}

impl Implementation {
    /// The ones that are here.
    fn all() -> Vec<Implementation> {
        python_with("grpc").map(Implementation::Python).into_iter().chain(go()).collect()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = match self {
            Implementation::Python(python) => {
                let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/grpc_calls.py");
                let mut command = command(&python.display().to_string(), &std::env::temp_dir());
                command.arg(script);
                command
            }
            Implementation::Go(program) => Command::new(program),
        };
        command.args(arguments);
        command
    }

    /// A service, and where it listens.
    fn serve(&self, certificate: &[&str]) -> (Process, String) {
        let process = Process::start(&mut self.command(&[&["serve"], certificate].concat()));
        let port = process.wait_for_line(|line| line.strip_prefix("port ").map(str::to_owned));
        let port = port.unwrap_or_else(|| panic!("the service ended: {:?}", process.log()));
        (process, port)
    }

    fn calls(&self, server: &Tidegate, kind: &str) -> Process {
        let port = server.address("web").port().to_string();
        Process::start(&mut self.command(&["call", &port, kind]))
    }
}

/// The program that `scripts/prepare` has built.
fn go() -> Option<Implementation> {
    let prepared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/bin/grpc_go");
    if !prepared.is_file() {
        skip("grpc_go is not built");
        return None;
    }
    Some(Implementation::Go(prepared))
}

fn before(port: &str, settings: &str) -> Tidegate {
    gateway(&format!(
        "upstreams: {{ orders: {{ servers: [\"h2c://127.0.0.1:{port}\"], {settings} }} }}\n\
         routes: [{{ name: orders, match: {{ path: \"/{{*rest}}\" }}, handler: {{ upstream: \
         orders }} }}]\n"
    ))
}

/// Makes calls of a kind, which all have to go as they should.
fn passes(kind: &str, statuses: &[(&str, f64)]) {
    for implementation in Implementation::all() {
        let (_service, port) = implementation.serve(&[]);
        let server = before(&port, "");
        let exit = implementation.calls(&server, kind).wait();
        assert_eq!((exit.code, exit.stdout.as_str()), (Some(0), "done\n"), "{exit:?}");
        for (status, count) in statuses {
            let labels = [("route", "orders"), ("grpc_status", *status)];
            server.wait_for_metric("tidegate_grpc_requests_total", &labels, *count);
        }
    }
}

#[test]
fn calls_of_all_four_kinds() {
    passes("kinds", &[("ok", 4.0)]);
}

#[test]
fn messages_that_are_larger_than_any_window() {
    passes("large", &[("ok", 2.0)]);
}

#[test]
fn statuses_messages_and_metadata_of_errors() {
    let failures = [("failed_precondition", 1.0), ("data_loss", 1.0), ("unimplemented", 1.0)];
    passes("errors", &failures);
}

#[test]
fn a_cancelled_call_is_cancelled_at_the_server() {
    passes("cancellation", &[("cancelled", 1.0), ("ok", 1.0)]);
}

#[test]
fn a_deadline_reaches_the_server() {
    passes("deadline", &[("ok", 2.0)]);
}

#[test]
fn a_killed_server_is_unavailable() {
    let Some(python) = python_with("grpc").map(Implementation::Python) else { return };
    let (service, port) = python.serve(&[]);
    let server = before(&port, "");
    let client = python.calls(&server, "unavailable");
    let line = client.wait_for_line(|line| (line == "in flight").then_some(()));
    assert!(line.is_some(), "{:?}", client.log());
    service.signal("KILL");
    let exit = client.wait();
    assert_eq!((exit.code, exit.stdout.as_str()), (Some(0), "done\n"), "{exit:?}");
    let labels = [("route", "orders"), ("grpc_status", "unavailable")];
    server.wait_for_metric("tidegate_grpc_requests_total", &labels, 2.0);
}

#[test]
fn health_checks_ask_for_a_service() {
    let Some(python) = python_with("grpc").map(Implementation::Python) else { return };
    let (_service, port) = python.serve(&[]);
    let checks = |server: &Tidegate, result: &str| {
        let labels = [("upstream", "orders"), ("result", result)];
        server.wait_for_metric("tidegate_upstream_health_checks_total", &labels, 1.0);
    };
    let known = before(&port, "health: { grpc: shop.v1.Orders, interval: 200ms }");
    checks(&known, "ok");
    let exit = python.calls(&known, "kinds").wait();
    assert_eq!(exit.code, Some(0), "{exit:?}");
    let unknown = before(&port, "health: { grpc: shop.v1.Order, interval: 200ms }");
    checks(&unknown, "failed");
    let reason = unknown.wait_for_log("not_found");
    assert!(reason.contains("server=127.0.0.1"), "{reason}");
}

#[test]
fn health_checks_and_calls_over_tls() {
    let Some(go) = go() else { return };
    let directory = TempDir::new().expect("a temporary directory");
    let authority = Authority::new();
    let issued = authority.issue(&["a.test"]);
    let [certificate, key] =
        [("server.pem", issued.chain), ("server.key", issued.key)].map(|(name, text)| {
            let path = directory.path().join(name);
            fs::write(&path, text).expect("a file");
            path.display().to_string()
        });
    let (_service, port) = go.serve(&[&certificate, &key]);
    let start = |service: &str, server_name: &str| {
        Launch::new(&format!(
            r#"
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0" }}
upstreams:
  orders:
    servers: ["https://127.0.0.1:{port}"]
    protocols: [h2]
    tls: {{ ca: ca.pem, server_name: {server_name} }}
    health: {{ grpc: {service}, interval: 200ms }}
routes: [{{ match: {{ path: "/{{*rest}}" }}, handler: {{ upstream: orders }} }}]
"#
        ))
        .file("ca.pem", authority.pem())
        .start()
    };
    let checks = |server: &Tidegate, result: &str| {
        let labels = [("upstream", "orders"), ("result", result)];
        server.wait_for_metric("tidegate_upstream_health_checks_total", &labels, 1.0);
    };
    let known = start("shop.v1.Orders", "a.test");
    checks(&known, "ok");
    let exit = go.calls(&known, "kinds").wait();
    assert_eq!((exit.code, exit.stdout.as_str()), (Some(0), "done\n"), "{exit:?}");
    checks(&start("shop.v1.Order", "a.test"), "failed");
    // The certificate is for another name.
    checks(&start("shop.v1.Orders", "b.test"), "failed");
}

/// The package `grpc-web`, whose messages are in base64 or not; streams are in base64 only.
#[test]
fn the_client_of_browsers_makes_calls() {
    let Some(packages) = prepared_node_packages("grpc-web") else { return };
    let Some(python) = python_with("grpc").map(Implementation::Python) else { return };
    let (_service, port) = python.serve(&[]);
    let server = gateway(&format!(
        "upstreams: {{ orders: {{ servers: [\"h2c://127.0.0.1:{port}\"] }} }}\n\
         routes: [{{ name: orders, match: {{ path: \"/{{*rest}}\" }}, \
         filters: [{{ grpc_web: {{}} }}], handler: {{ upstream: orders }} }}]\n"
    ));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("interop/grpc_web.js");
    let gateway_port = server.address("web").port().to_string();
    for format in ["text", "binary"] {
        let mut node = command("node", &std::env::temp_dir());
        node.env("NODE_PATH", &packages).arg(&script).args([&gateway_port, format]);
        let exit = Process::run(&mut node);
        assert_eq!((exit.code, exit.stdout.as_str()), (Some(0), "done\n"), "{exit:?}");
    }
    for (status, count) in [("ok", 3.0), ("failed_precondition", 2.0), ("data_loss", 1.0)] {
        let labels = [("route", "orders"), ("grpc_status", status)];
        server.wait_for_metric("tidegate_grpc_requests_total", &labels, count);
    }
}

/// The messages of grpcurl come from the descriptor file of the example, and so does its JSON: one
/// service, called in three ways.
#[test]
fn grpcurl_browsers_and_json_reach_one_service() {
    let Some(python) = python_with("grpc").map(Implementation::Python) else { return };
    let (_service, port) = python.serve(&[]);
    let shop = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/grpc/shop.pb");
    let server = gateway(&format!(
        r#"
upstreams: {{ orders: {{ servers: ["h2c://127.0.0.1:{port}"] }} }}
routes:
  - match: {{ path: "/v1/{{*rest}}" }}
    filters: [{{ grpc_json: {{ descriptors: "{}" }} }}]
    handler: {{ upstream: orders }}
  - match: {{ path: "/{{*rest}}" }}
    filters: [{{ grpc_web: {{}} }}]
    handler: {{ upstream: orders }}
"#,
        shop.display()
    ));
    // The service responds with the bytes of the request: field 1 of both is `order_id`.
    let request = "GET /v1/orders/7 HTTP/1.1\r\nhost: a\r\n\r\n";
    let order = server.exchange("web", request);
    assert_eq!((order.status, order.text().as_str()), (200, r#"{"orderId":"7"}"#));
    assert_eq!(order.header("content-type"), Some("application/json"));
    let lines = "{\"orderId\":\"1\"}\n{\"orderId\":\"2\"}\n";
    let request = format!(
        "POST /v1/chat HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{lines}",
        lines.len()
    );
    let orders = server.exchange("web", request);
    assert_eq!((orders.status, orders.text().as_str()), (200, lines));
    assert_eq!(orders.header("content-type"), Some("application/x-ndjson"));
    let call = "POST /shop.v1.Orders/Get HTTP/1.1\r\nhost: a\r\n\
                content-type: application/grpc-web-text\r\ncontent-length: 12\r\n\r\nAAAAAAMKATc=";
    let order = server.exchange("web", call);
    let text = order.text();
    assert!(text.starts_with("AAAAAAMKATc=") && text.len() > 12, "{text}");
    assert_eq!(order.header("content-type"), Some("application/grpc-web-text"));

    // The same over HTTP/2.
    let url = format!("http://{}/shop.v1.Orders/Get", server.address("web"));
    if has("curl") {
        let mut curl = command("curl", &std::env::temp_dir());
        curl.args(["-sS", "--http2-prior-knowledge", "--max-time", "40", "--data-binary"]);
        curl.args(["AAAAAAMKATc=", "-H", "content-type: application/grpc-web-text", &url]);
        let exit = Process::run(&mut curl);
        assert_eq!((exit.code, exit.stdout), (Some(0), text), "{}", exit.stderr);
    }

    let installed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools/bin/grpcurl");
    if !installed.is_file() {
        return skip("grpcurl is not installed");
    }
    let address = server.address("web").to_string();
    let mut grpcurl = Command::new(installed);
    grpcurl.args(["-plaintext", "-max-time", "40", "-protoset"]).arg(shop);
    grpcurl.args(["-d", r#"{"order_id":"7"}"#, &address, "shop.v1.Orders/Get"]);
    let exit = Process::run(&mut grpcurl);
    assert_eq!(exit.code, Some(0), "{exit:?}");
    assert!(exit.stdout.contains(r#""orderId": "7""#), "{exit:?}");
}
