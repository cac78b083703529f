//! Servers with HTTP/2 behind us: nginx, Go's net/http and Node.

use crate::tools::{command, gateway, go_program, has, long_text, nginx, proxy};
use scenarios::{Authority, Connection, Launch, Process, Tidegate};
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use tempfile::TempDir;

const NGINX: &str = r"
daemon off; master_process off; pid nginx.pid; error_log stderr notice;
events { worker_connections 256; }
http {
  access_log off; keepalive_requests 7; http2_max_concurrent_streams 4;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server {
    listen unix:nginx.sock http2;
    root html;
    location /small { client_max_body_size 1k; return 200 taken; }
    location /told { return 200 '$server_protocol $host $http_via $http_te $request_uri.'; }
  }
}
";

fn get(server: &Tidegate, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: shop.example\r\n\r\n");
    let response = server.exchange("web", request);
    assert_eq!(response.status, 200, "{path}: {response:?}");
    response.text()
}

/// As many requests of each of a few clients at once; all must get 200.
fn load(server: &Tidegate, path: &str, clients: usize, requests: usize) {
    let mut connections: Vec<Connection> = (0..clients).map(|_| server.connect("web")).collect();
    for _ in 0..requests {
        for connection in &mut connections {
            connection.send(format!("GET {path} HTTP/1.1\r\nhost: shop.example\r\n\r\n"));
        }
        for connection in &mut connections {
            assert_eq!(final_response(connection).0, 200, "{path}");
        }
    }
}

/// The response after interim ones, which are counted.
fn final_response(connection: &mut Connection) -> (u16, String, usize) {
    let mut interim = 0;
    loop {
        let response = connection.read_response();
        if response.status >= 200 {
            return (response.status, response.text(), interim);
        }
        interim += 1;
    }
}

/// Sends a body in chunks with a trailer, and reads its echo with the trailers.
fn echo(server: &Tidegate, size: usize) -> Vec<(String, String)> {
    let mut client = server.connect("web");
    client.send(format!(
        "POST /echo HTTP/1.1\r\nhost: a\r\nte: trailers\r\ntransfer-encoding: chunked\r\n\
         trailer: x-sum\r\n\r\n{size:x}\r\n"
    ));
    let content = vec![b'x'; size];
    let mut sender = client.clone_for_reading();
    let sending = std::thread::spawn(move || {
        sender.send(content);
        sender.send("\r\n0\r\nX-Sum: 7\r\n\r\n");
    });
    let response = client.read_response();
    sending.join().expect("the body is sent");
    assert_eq!((response.status, response.body.len()), (200, size));
    response.trailers
}

#[test]
fn nginx_serves_files_over_http_2() {
    if !has("nginx") {
        return;
    }
    let directory = TempDir::new().expect("a temporary directory");
    let text = long_text(20_000);
    let (_process, address) = nginx(&directory, NGINX, &text);
    let server = proxy(&format!("h2c://{address}"));
    assert_eq!(get(&server, "/told?a=b"), "HTTP/2.0 shop.example 1.1 tidegate  /told?a=b.");
    assert!(get(&server, "/text.txt") == text);
    // More at once than nginx allows, and more than it serves on one connection.
    load(&server, "/text.txt", 12, 5);
    let mut client = server.connect("web");
    client.send("POST /small HTTP/1.1\r\nhost: a\r\ncontent-length: 2000000\r\n\r\n");
    client.try_send(vec![b'x'; 2_000_000]);
    assert_eq!(client.read_response().status, 413);
    assert_eq!(errors(&server), 0.0);
}

/// Requests that got no response.
fn errors(server: &Tidegate) -> f64 {
    server.metrics().sum("tidegate_upstream_requests_total", &[("class", "error")])
}

/// Builds and starts the Go server with a certificate for `a.test`; its ports in the clear and with
/// TLS.
fn go(directory: &Path, authority: &Authority) -> (Process, [u16; 2]) {
    let issued = authority.issue(&["a.test"]);
    fs::write(directory.join("server.pem"), issued.chain).expect("a file");
    fs::write(directory.join("server.key"), issued.key).expect("a file");
    let process =
        Process::start(&mut go_program(directory, include_str!("http2_servers/server.go")));
    let port = |secure: &str| {
        let prefix = format!("listening {secure} ");
        process.wait_for_line(|line| line.strip_prefix(&prefix)?.parse().ok()).expect("it listens")
    };
    let ports = [port("false"), port("true")];
    (process, ports)
}

#[test]
fn go_serves_http_2_in_the_clear_and_by_alpn() {
    if !has("go") {
        return;
    }
    let directory = TempDir::new().expect("a temporary directory");
    let authority = Authority::new();
    let (_process, [clear, secure]) = go(directory.path(), &authority);
    let secure = format!("servers: [\"https://127.0.0.1:{secure}\"]");
    let tls = "tls: { ca: ca.pem, server_name: a.test }";
    let start = |upstream: &str| {
        Launch::new(&format!(
            "workers: 1\nlisteners: {{ web: {{ bind: \"127.0.0.1:0\" }} }}\n\
             admin: {{ bind: \"127.0.0.1:0\" }}\nupstreams: {{ u: {{ {upstream} }} }}\n\
             routes: [{{ match: {{ path: \"/{{*rest}}\" }}, handler: {{ upstream: u }} }}]\n"
        ))
        .file("ca.pem", authority.pem())
        .start()
    };
    for upstream in [
        format!("servers: [\"h2c://127.0.0.1:{clear}\"]"),
        format!("{secure}, protocols: [h2, http/1.1], {tls}"),
    ] {
        let server = start(&upstream);
        assert_eq!(get(&server, "/a?b=c"), "HTTP/2.0 shop.example /a?b=c");
        let trailers = echo(&server, 3_000_000);
        assert_eq!(trailers, [("x-count".to_owned(), "3000000".to_owned())]);
        // More at once than the server allows on one connection.
        load(&server, "/slow", 20, 3);
        let metrics = server.metrics();
        let shared = metrics.sum("tidegate_upstream_connections", &[("state", "shared")]);
        assert!((2.0..=20.0).contains(&shared), "{shared}");
        assert_eq!(errors(&server), 0.0);
    }
    // Go announces no extended CONNECT: a WebSocket needs HTTP/1.1.
    for (protocols, status) in [("h2, http/1.1", 101), ("h2", 502)] {
        let server = start(&format!("{secure}, protocols: [{protocols}], {tls}"));
        for _ in 0..2 {
            assert_eq!(get(&server, "/a"), "HTTP/2.0 shop.example /a");
            let mut client = server.connect("web");
            client.send(
                "GET /chat HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                 sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
            );
            assert_eq!(client.read_response().status, status);
            if status == 101 {
                client.send("hello\n");
                assert_eq!(client.read_to_end(), b"HTTP/1.1 hello\n");
            }
        }
    }
}

#[test]
fn node_serves_http_2_and_its_refusals_are_retried() {
    if !has("node") {
        return;
    }
    let directory = TempDir::new().expect("a temporary directory");
    fs::write(directory.path().join("server.js"), include_str!("http2_servers/server.js"))
        .expect("a file");
    let process = Process::start(command("node", directory.path()).arg("server.js"));
    let port: Option<u16> =
        process.wait_for_line(|line| line.strip_prefix("listening ")?.parse().ok());
    let address = SocketAddr::from(([127, 0, 0, 1], port.expect("it listens")));
    let server = gateway(&format!(
        "workers: 1\nupstreams: {{ u: {{ servers: [\"h2c://{address}\"] }} }}\n\
         routes: [{{ match: {{ path: \"/{{*rest}}\" }}, handler: {{ upstream: u }} }}]\n"
    ));
    let mut client = server.connect("web");
    client.send("GET /a HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(final_response(&mut client), (200, "GET /a 1".to_owned(), 1));
    client.send("POST /refuse-once HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi");
    assert_eq!(final_response(&mut client), (200, "POST /refuse-once 3".to_owned(), 1));
    for _ in 0..3 {
        assert_eq!(get(&server, "/goaway"), "last");
    }
    assert_eq!(echo(&server, 1_000_000), [("x-end".to_owned(), "yes".to_owned())]);
    load(&server, "/load", 15, 4);
    assert_eq!(errors(&server), 0.0);
}

/// A server of a script with TLS and both versions of HTTP, and what gateways before it are sent.
struct DemandingServer {
    process: Process,
    _directory: TempDir,
    authority: Authority,
    port: u16,
}

impl DemandingServer {
    fn start(program: &str, script: &str, argument: &str) -> DemandingServer {
        let directory = TempDir::new().expect("a temporary directory");
        let authority = Authority::new();
        let issued = authority.issue(&["a.test"]);
        for (name, content) in
            [("server.pem", issued.chain.as_str()), ("server.key", &issued.key), ("script", script)]
        {
            fs::write(directory.path().join(name), content).expect("a file");
        }
        let mut server = command(program, directory.path());
        let process = Process::start(server.args(["script", argument]));
        let port: Option<u16> =
            process.wait_for_line(|line| line.strip_prefix("listening ")?.parse().ok());
        let port = port.expect("it listens");
        DemandingServer { process, _directory: directory, authority, port }
    }

    fn gateway(&self, protocols: &str) -> Tidegate {
        let port = self.port;
        Launch::new(&format!(
            "workers: 1\nlisteners: {{ web: {{ bind: \"127.0.0.1:0\" }} }}\n\
             admin: {{ bind: \"127.0.0.1:0\" }}\n\
             upstreams: {{ u: {{ servers: [\"https://127.0.0.1:{port}\"], protocols: {protocols}, \
             tls: {{ ca: ca.pem, server_name: a.test }} }} }}\n\
             routes: [{{ match: {{ path: \"/{{*rest}}\" }}, handler: {{ upstream: u }} }}]\n"
        ))
        .file("ca.pem", self.authority.pem())
        .start()
    }
}

fn send(server: &Tidegate, method: &str) -> (u16, String) {
    let request = format!("{method} / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n");
    let response = server.exchange("web", request);
    (response.status, response.text())
}

fn over_http1(method: &str) -> (u16, String) {
    (200, format!("HTTP/1.1 {method}"))
}

const BOTH: &str = "[h2, http/1.1]";

#[test]
fn a_server_that_demands_http_1_1_gets_it() {
    if !has("node") {
        return;
    }
    let script = include_str!("http2_servers/http1.js");
    let upstream = DemandingServer::start("node", script, "");
    // A request whose method is idempotent is sent again; the next ones begin with HTTP/1.1.
    let server = upstream.gateway(BOTH);
    assert_eq!(send(&server, "PUT"), over_http1("PUT"));
    assert_eq!(send(&server, "POST"), over_http1("POST"));
    let server = upstream.gateway(BOTH);
    assert_eq!(send(&server, "POST").0, 502);
    assert_eq!(send(&server, "POST"), over_http1("POST"));
    assert_eq!(send(&upstream.gateway("[h2]"), "PUT").0, 502);
}

#[test]
fn a_server_that_demands_http_1_1_by_goaway_gets_it() {
    if !has("python3") {
        return;
    }
    let script = include_str!("http2_servers/goaway.py");
    // The server has processed no stream: any request is sent again.
    let upstream = DemandingServer::start("python3", script, "0");
    let server = upstream.gateway(BOTH);
    for method in ["POST", "PUT"] {
        assert_eq!(send(&server, method), over_http1(method));
    }
    // What it has said is complete once it has ended.
    upstream.process.signal("TERM");
    let said = upstream.process.wait().stderr;
    let connections = |version: &str| said.lines().filter(|line| *line == version).count();
    assert_eq!((connections("http2"), connections("http1")), (1, 1), "the demand is remembered");
    // It may have processed the first one: only an idempotent one is sent again.
    let upstream = DemandingServer::start("python3", script, "1");
    let server = upstream.gateway(BOTH);
    assert_eq!(send(&server, "POST").0, 502);
    assert_eq!(send(&server, "POST"), over_http1("POST"));
    assert_eq!(send(&upstream.gateway(BOTH), "PUT"), over_http1("PUT"));
    assert_eq!(send(&upstream.gateway("[h2]"), "PUT").0, 502);
}
