//! `tidegate import gateway-api`: manifests become a configuration, whose routes respond as the
//! specification of the Gateway API says.

use std::fs;
use std::process::Command;

use scenarios::{Connection, Tidegate, Upstream, free_port, tidegate_binary};
use tempfile::TempDir;

/// A service whose endpoint is a server of the test.
fn service(name: &str, server: &Upstream) -> String {
    format!(
        r#"---
apiVersion: v1
kind: Service
metadata: {{ name: {name}, namespace: shop }}
spec: {{ ports: [{{ port: 80, targetPort: 8080 }}] }}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{ name: {name}-x, namespace: shop, labels: {{ kubernetes.io/service-name: {name} }} }}
addressType: IPv4
ports: [{{ port: {} }}]
endpoints: [{{ addresses: ["127.0.0.1"] }}]
"#,
        server.address().port()
    )
}

const ROUTES: &str = r#"
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: main, namespace: shop }
spec:
  parentRefs: [{ name: edge }]
  hostnames: [shop.example.com]
  rules:
    - matches:
        - path: { type: PathPrefix, value: /items }
        - path: { type: PathPrefix, value: /items }
          headers: [{ name: x-version, value: "2" }, { name: x-test, value: "1" }]
      backendRefs: [{ name: a, port: 80 }]
    - matches:
        - path: { type: PathPrefix, value: /items }
          method: POST
      filters:
        - type: URLRewrite
          urlRewrite: { path: { type: ReplacePrefixMatch, replacePrefixMatch: /v2 } }
      backendRefs: [{ name: b, port: 80 }]
    - matches: [{ path: { type: Exact, value: /exact } }]
      backendRefs: [{ name: b, port: 80 }]
    - matches: [{ path: { type: PathPrefix, value: /old } }]
      filters:
        - type: RequestRedirect
          requestRedirect:
            path: { type: ReplacePrefixMatch, replacePrefixMatch: /new }
            statusCode: 301
    - matches: [{ path: { value: /alone } }]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: { name: others, namespace: shop }
spec:
  parentRefs: [{ name: edge }]
  hostnames: ["*.example.com"]
  rules: [{ backendRefs: [{ name: b, port: 80 }] }]
"#;

/// The status, the `Location` or the body of a response.
fn ask(server: &Tidegate, listener: &str, line: &str, host: &str, fields: &str) -> String {
    let mut client = Connection::to(server.address(listener));
    client.send(format!(
        "{line} HTTP/1.1\r\nhost: {host}\r\ncontent-length: 0\r\nconnection: close\r\n{fields}\r\n"
    ));
    let response = client.read_response();
    let location = response.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("location"));
    match (response.status, location) {
        (200, _) => response.text(),
        (status, Some((_, to))) => format!("{status} {to}"),
        (status, None) => status.to_string(),
    }
}

#[test]
fn imported_routes_respond_as_the_specification_says() {
    let echo = |name: &'static str| {
        Upstream::start(move |peer| {
            while !peer.at_end() {
                let head = peer.read_head();
                let path = head.split(' ').nth(1).unwrap_or_default();
                let body = format!("{name} {path}");
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
                if !peer.try_send(head + &body) {
                    return;
                }
            }
        })
    };
    let (a, b) = (echo("a"), echo("b"));
    let directory = TempDir::new().expect("a temporary directory");
    let port = free_port();
    let gateway = format!(
        r#"
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{ name: edge, namespace: shop }}
spec:
  gatewayClassName: any
  listeners: [{{ name: web, protocol: HTTP, port: {port} }}]
---{ROUTES}"#
    );
    let files =
        [("gateway.yaml", gateway), ("services.yaml", service("a", &a) + &service("b", &b))];
    let mut command = Command::new(tidegate_binary());
    command.args(["import", "gateway-api"]).current_dir(directory.path());
    for (name, text) in &files {
        fs::write(directory.path().join(name), text).expect("a file");
        command.arg(name);
    }
    let output = command.output().expect("tidegate starts");
    let text = String::from_utf8(output.stdout).expect("text");
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    let server = Tidegate::start(&text);
    let listener = format!("http-{port}");
    let ask = |line: &str, host: &str, fields: &str| ask(&server, &listener, line, host, fields);
    let shop = "shop.example.com";
    for (line, host, fields, expected) in [
        ("GET /items", shop, "", "a /items"),
        ("GET /items/7", shop, "", "a /items/7"),
        // By whole segments; what no route of its host has is for a wider host.
        ("GET /itemsx", shop, "", "b /itemsx"),
        // A method is more special than two headers, an exact path than a prefix.
        ("POST /items/7", shop, "x-version: 2\r\nx-test: 1\r\n", "b /v2/7"),
        ("GET /items/7", shop, "x-version: 2\r\nx-test: 1\r\n", "a /items/7"),
        ("GET /exact", shop, "", "b /exact"),
        ("GET /exact/x", shop, "", "b /exact/x"),
        ("GET /old/x?q=1", shop, "", "301 http://shop.example.com"),
        ("GET /alone", shop, "", "500"),
        ("GET /items", "b.example.com", "", "b /items"),
        ("GET /items", "example.com", "", "404"),
    ] {
        let expected = match expected.strip_prefix("301 ") {
            Some(to) => format!("301 {to}:{port}/new/x?q=1"),
            None => expected.to_owned(),
        };
        assert_eq!(ask(line, host, fields), expected, "{line} {host} {fields}\n{text}");
    }
}
