//! Traces, metrics and logs at a collector that reads OTLP by the official definitions, over gRPC
//! and HTTP.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use scenarios::{Launch, Process, Tidegate};
use serde_json::Value;
use tempfile::TempDir;

use crate::tools::{python_with, skip};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const CLIENT_SPAN: &str = "00f067aa0ba902b7";

/// A handler that asks the server behind the gateway.
const TO_UPSTREAM: &str = "local tide = require \"tide\"\nreturn function(request, response)\n  \
    response:stream(assert(tide.upstream(\"app\"):request(request)))\nend\n";
/// A handler that asks the application in Python.
const TO_VIEW: &str = "local tide = require \"tide\"\nreturn function(request, response)\n  \
    response:stream(assert(tide.route(request, { path = \"/view\" })))\nend\n";
/// An application that continues the trace with a span of its own: it asks the server behind the
/// gateway, through the gateway.
const VIEW: &str = r#"
import http.client, json, secrets

def call(address, method, path, body=None, headers={}):
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request(method, path, body, headers)
    return connection.getresponse().read()

def app(environ, start_response):
    _, trace, parent, flags = environ["HTTP_TRACEPARENT"].split("-")
    own = secrets.token_hex(8)
    fields = {"traceparent": f"00-{trace}-{own}-{flags}"}
    content = call(environ["HTTP_HOST"], "GET", "/behind", headers=fields)
    span = {"kind": "span", "name": "view", "trace": trace, "id": own, "parent": parent}
    call("127.0.0.1:COLLECTOR", "POST", "/own-span", json.dumps(span))
    start_response("200 OK", [])
    return [content]
"#;

/// The collector, and the ports of its parts.
struct Collector {
    process: Process,
    _directory: TempDir,
    ports: BTreeMap<&'static str, u16>,
}

impl Collector {
    fn start() -> Option<Collector> {
        let module = "grpc, opentelemetry.proto.collector.logs.v1.logs_service_pb2_grpc";
        let python = python_with(module)?;
        let directory = TempDir::new().expect("a temporary directory");
        let program = directory.path().join("collector.py");
        fs::write(&program, include_str!("otlp_collector.py")).expect("a writable directory");
        let process = Process::start(Command::new(python).arg("-u").arg(program));
        let port = |name: &'static str| {
            let line = process.wait_for_line(|line| line.strip_prefix(name)?.trim().parse().ok());
            (name, line.unwrap_or_else(|| panic!("the collector ended: {:?}", process.log())))
        };
        let ports = ["grpc", "http", "app"].map(port).into_iter().collect();
        Some(Collector { process, _directory: directory, ports })
    }

    /// Waits for what `wanted` accepts.
    fn wait(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let found = self.process.wait_for_line(|line| {
            let value: Value = serde_json::from_str(line).ok()?;
            wanted(&value).then_some(value)
        });
        found.unwrap_or_else(|| panic!("no {what}: {:?}", self.process.log()))
    }

    fn span(&self, name: &str) -> Value {
        self.wait(name, |one| one["kind"] == "span" && one["name"] == name)
    }

    /// A gateway that exports everything to it by this protocol, with a Lua handler and these
    /// routes.
    fn gateway(&self, protocol: &str, handler: &str, routes: &str) -> Launch {
        let url = |path: &str| match protocol {
            "grpc" => format!("http://127.0.0.1:{}", self.ports["grpc"]),
            _ => format!("http://127.0.0.1:{}/v1/{path}", self.ports["http"]),
        };
        let export = |path: &str| {
            format!(
                "{{ url: \"{}\", protocol: {protocol}, interval: 20ms, service: edge }}",
                url(path)
            )
        };
        let config = format!(
            r#"listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0" }}
upstreams: {{ app: {{ servers: ["127.0.0.1:{}"] }} }}
routes:
- {{ name: scripted, match: {{ path: /lua }}, handler: {{ lua: handler.lua }} }}
{routes}log: {{ format: json, access: {{ path: access.log }}, otlp: {} }}
metrics: {{ otlp: {} }}
traces:
  sample: 0
  service: edge
  otlp: {{ url: "{}", protocol: {protocol}, interval: 20ms }}
"#,
            self.ports["app"],
            export("logs"),
            export("metrics"),
            url("traces"),
        );
        Launch::new(&config).file("handler.lua", handler)
    }

    /// The names of the spans from this one up to that of the gateway that the client's is the
    /// parent of.
    fn names_up_from(&self, mut span: Value) -> Vec<String> {
        let mut names = Vec::new();
        loop {
            assert_eq!(span["trace"], TRACE, "{names:?} {span}");
            names.push(span["name"].as_str().unwrap_or_default().to_owned());
            let parent = span["parent"].clone();
            if parent == CLIENT_SPAN {
                return names;
            }
            let is_it = |one: &Value| one["kind"] == "span" && one["id"] == parent;
            span = self.wait(&format!("parent of {names:?}"), is_it);
        }
    }
}

/// Sends a request that a client traces to the Lua handler.
fn traced(server: &Tidegate) -> String {
    let request = format!(
        "GET /lua HTTP/1.1\r\nhost: {}\r\ntraceparent: 00-{TRACE}-{CLIENT_SPAN}-01\r\n\r\n",
        server.address("web")
    );
    server.exchange("web", request).text()
}

fn one_tree_and_everything_else(protocol: &str) {
    let Some(collector) = Collector::start() else { return };
    let server = collector.gateway(protocol, TO_UPSTREAM, "").start();
    assert_eq!(traced(&server), "from python");
    // One tree: the client, the gateway, its Lua handler, the attempt, the server in Python.
    let python = collector.span("python");
    let root = collector.span("GET scripted");
    let lua = collector.span("lua");
    assert_eq!(root["protocol"], protocol);
    assert!([&python, &root, &lua].iter().all(|span| span["trace"] == TRACE));
    assert_eq!((&root["parent"], &lua["parent"]), (&Value::from(CLIENT_SPAN), &root["id"]));
    assert_eq!(root["attributes"]["tidegate.route"], "scripted");
    assert_eq!(root["service"], "edge");
    let attempt = collector.span("upstream attempt");
    assert_eq!(python["parent"], attempt["id"]);
    assert_eq!(attempt["parent"], lua["id"]);

    let durations = collector.wait("durations with an example", |one| {
        one["name"] == "tidegate_request_duration_seconds"
            && one["examples"].as_array().is_some_and(|all| !all.is_empty())
    });
    assert_eq!(durations["examples"], serde_json::json!([TRACE]));
    assert_eq!(durations["attributes"]["route"], "scripted");
    assert_eq!((&durations["service"], &durations["count"]), (&"edge".into(), &1.into()));
    collector.wait("a counter", |one| {
        one["name"] == "tidegate_requests_total"
            && one["data"] == "sum"
            && one["attributes"]["class"] == "2xx"
            && one["value"] == 1
    });

    let line = collector.wait("a line of the access log", |one| {
        one["kind"] == "log" && one["attributes"]["tidegate.log"] == "access"
    });
    assert_eq!((&line["trace"], &line["severity"]), (&TRACE.into(), &"INFO".into()));
    assert_eq!(line["attributes"]["route"], "scripted");
    collector.wait("an event", |one| one["kind"] == "log" && one["body"] == "serving");
    server.wait_for_metric(
        "tidegate_otlp_records_total",
        &[("signal", "logs"), ("result", "exported")],
        1.0,
    );
}

#[test]
fn a_collector_gets_everything_by_grpc() {
    one_tree_and_everything_else("grpc");
}

#[test]
fn a_collector_gets_everything_by_http() {
    one_tree_and_everything_else("http");
}

/// A binary with Python inside, and the `PATH` on which its interpreter comes first.
fn with_python() -> Option<(PathBuf, String)> {
    let Some(binary) = std::env::var_os("TIDEGATE_PYTHON_BINARY").map(PathBuf::from) else {
        skip("this binary has no Python inside: make test-python sets TIDEGATE_PYTHON_BINARY");
        return None;
    };
    let directory = binary.parent().expect("a path to a file").display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    Some((binary, format!("{directory}:{path}")))
}

#[test]
fn gateway_lua_python_application_and_upstream_are_one_tree() {
    let Some((binary, path)) = with_python() else { return };
    let Some(collector) = Collector::start() else { return };
    let routes = "- { name: application, match: { path: /view }, handler: { app: view } }\n\
                  - { name: behind, match: { path: /behind }, handler: { upstream: app } }\n\
                  apps: { view: { python: \"view:app\", workers: 1 } }\n";
    let view = VIEW.replace("COLLECTOR", &collector.ports["http"].to_string());
    let launch = collector.gateway("grpc", TO_VIEW, routes).file("view.py", view);
    let server = launch.binary(binary).environment("PATH", &path).start();
    assert_eq!(traced(&server), "from python");
    let names = collector.names_up_from(collector.span("python"));
    let expected = [
        "python",
        "upstream attempt",
        "upstream",
        "GET behind",
        "view",
        "app",
        "lua",
        "GET scripted",
    ];
    assert_eq!(names, expected);
}
