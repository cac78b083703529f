//! Python's http.server behind us: HTTP/1.0, a connection a request, bodies that end with it.

use crate::tools::{command, has, long_text, proxy};
use scenarios::{Process, Tidegate};
use std::fs;
use tempfile::TempDir;

/// The stock file server, and `/endless`, whose answer has no length.
const SCRIPT: &str = r#"
import http.server, sys

class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        if self.path != "/endless":
            return super().do_GET()
        self.send_response(200)
        self.end_headers()
        for number in range(1000):
            self.wfile.write(b"%d\n" % number)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"%d" % len(body))

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print("port", server.server_address[1], file=sys.stderr, flush=True)
server.serve_forever()
"#;

/// The server, a gateway before it, and the text it has to give.
fn start() -> (Tidegate, String, Process, TempDir) {
    let directory = TempDir::new().expect("a temporary directory");
    let text = long_text(20_000);
    fs::write(directory.path().join("text.txt"), &text).expect("a file");
    fs::write(directory.path().join("serve.py"), SCRIPT).expect("a file");
    let process = Process::start(command("python3", directory.path()).arg("serve.py"));
    let port = process.wait_for_line(|line| line.strip_prefix("port ").map(str::to_owned));
    let port = port.unwrap_or_else(|| panic!("python3 ended: {:?}", process.log()));
    (proxy(&format!("127.0.0.1:{port}")), text, process, directory)
}

#[test]
fn an_http10_response_is_forwarded_as_http11() {
    if !has("python3") {
        return;
    }
    let (server, text, _process, _directory) = start();
    let mut client = server.connect("web");
    for _ in 0..3 {
        client.send("GET /text.txt HTTP/1.1\r\nhost: a\r\n\r\n");
        let response = client.read_response();
        assert_eq!((response.version.as_str(), response.status), ("HTTP/1.1", 200));
        assert_eq!(response.header("connection"), None, "the client's connection is ours to keep");
        assert!(response.body == text.as_bytes());

        client.send("GET /endless HTTP/1.1\r\nhost: a\r\n\r\n");
        let response = client.read_response();
        assert_eq!(response.header("transfer-encoding"), Some("chunked"));
        let numbers: String = (0..1000).map(|number| format!("{number}\n")).collect();
        assert_eq!(response.text(), numbers);

        client.send("HEAD /text.txt HTTP/1.1\r\nhost: a\r\n\r\n");
        let length = text.len().to_string();
        assert_eq!(client.read_response_to_head().header("content-length"), Some(length.as_str()));
        client.send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 70000\r\n\r\n");
        client.send(vec![b'x'; 70_000]);
        assert_eq!(client.read_response().text(), "70000");
        client.send("GET /none HTTP/1.1\r\nhost: a\r\n\r\n");
        assert_eq!(client.read_response().status, 404);
        client.send("BREW / HTTP/1.1\r\nhost: a\r\n\r\n");
        assert_eq!(client.read_response().status, 501);
    }
    drop(client);
    let metrics = server.metrics();
    assert_eq!(metrics.sum("tidegate_upstream_requests_total", &[("class", "error")]), 0.0);
    assert_eq!(metrics.sum("tidegate_upstream_connection_reuses_total", &[]), 0.0);
    let old = server.exchange("web", "GET /endless HTTP/1.0\r\n\r\n");
    assert!(old.text().ends_with("\n999\n"));
}
