//! nginx as a server behind us: kept connections, files, ranges, conditions, compression, early
//! refusals.

use crate::tools::{has, long_text, nginx, proxy};
use scenarios::{HttpResponse, Process, Tidegate};
use std::fs;
use tempfile::TempDir;

/// What it serves.
const CONFIG: &str = r"
daemon off; master_process off; pid nginx.pid; error_log stderr notice;
events { worker_connections 256; }
http {
  access_log off;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
  uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  types { text/plain txt; }
  server {
    listen unix:nginx.sock;
    root html;
    location /packed/ { alias html/; gzip on; gzip_types text/plain; gzip_proxied any; }
    location /small { client_max_body_size 1k; return 200 taken; }
    location /two { keepalive_requests 2; return 200 two; }
    location /told { return 200 '$host $http_via $http_x_forwarded_for $http_connection.'; }
  }
}
";

struct Nginx {
    server: Tidegate,
    text: String,
    // Dropped in this order: the process must be gone before its directory.
    _process: Process,
    _directory: TempDir,
}

impl Nginx {
    /// nginx with a gateway before it.
    fn start() -> Self {
        let directory = TempDir::new().expect("a temporary directory");
        let text = long_text(20_000);
        let (process, address) = nginx(&directory, CONFIG, &text);
        fs::write(directory.path().join("html/empty.txt"), "").expect("a file");
        let server = proxy(&address);
        Self { server, text, _process: process, _directory: directory }
    }

    fn get(&self, path: &str, fields: &str) -> HttpResponse {
        let request = format!("GET {path} HTTP/1.1\r\nhost: shop.example\r\n{fields}\r\n");
        self.server.exchange("web", request)
    }

    fn count(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.server.metrics().sum(name, labels)
    }
}

#[test]
fn files_come_whole_over_kept_connections() {
    if !has("nginx") {
        return;
    }
    let nginx = Nginx::start();
    let mut client = nginx.server.connect("web");
    for _ in 0..5 {
        client.send("GET /text.txt HTTP/1.1\r\nhost: a\r\n\r\n");
        let response = client.read_response();
        assert_eq!((response.status, response.header("content-type")), (200, Some("text/plain")));
        assert!(response.body == nginx.text.as_bytes());
        client.send("HEAD /text.txt HTTP/1.1\r\nhost: a\r\n\r\n");
        let head = client.read_response_to_head();
        assert_eq!(head.header("content-length"), response.header("content-length"));
        client.send("GET /empty.txt HTTP/1.1\r\nhost: a\r\n\r\n");
        assert_eq!(client.read_response().body, b"");
        client.send("GET /none HTTP/1.1\r\nhost: a\r\n\r\n");
        assert_eq!(client.read_response().status, 404);
        client.send("POST /text.txt HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\nabc");
        assert_eq!(client.read_response().status, 405);
    }
    drop(client);
    let ok = [("result", "ok")];
    assert_eq!(nginx.count("tidegate_upstream_connects_total", &ok), 1.0);
    assert_eq!(nginx.count("tidegate_upstream_connection_reuses_total", &[]), 24.0);
    assert_eq!(nginx.count("tidegate_upstream_requests_total", &[("class", "error")]), 0.0);
}

#[test]
fn ranges_and_conditions_are_left_to_the_server() {
    if !has("nginx") {
        return;
    }
    let nginx = Nginx::start();
    let part = nginx.get("/text.txt", "range: bytes=10-19\r\n");
    assert_eq!((part.status, part.text().as_str()), (206, &nginx.text[10..20]));
    let size = nginx.text.len();
    assert_eq!(part.header("content-range"), Some(&*format!("bytes 10-19/{size}")));
    let etag = part.header("etag").expect("an entity tag").to_owned();
    let same = nginx.get("/text.txt", &format!("if-none-match: {etag}\r\n"));
    assert_eq!((same.status, same.header("etag")), (304, Some(&*etag)));
    let other = nginx.get("/text.txt", "if-none-match: \"other\"\r\n");
    assert_eq!((other.status, other.body.len()), (200, size));
    assert_eq!(nginx.get("/text.txt", "range: bytes=99999999-\r\n").status, 416);
    let parts = nginx.get("/text.txt", "range: bytes=0-3,10-19\r\n");
    assert!(parts.header("content-type").is_some_and(|kind| kind.starts_with("multipart/")));
}

#[test]
fn what_it_compresses_and_chunks_arrives_so() {
    if !has("nginx") {
        return;
    }
    let nginx = Nginx::start();
    let packed = nginx.get("/packed/text.txt", "accept-encoding: gzip\r\n");
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    assert_eq!(packed.header("transfer-encoding"), Some("chunked"));
    assert!(packed.body.len() < nginx.text.len() / 4 && packed.body.starts_with(&[0x1f, 0x8b]));
    // An old client gets the same bytes, up to the end of the connection.
    let request = "GET /packed/text.txt HTTP/1.0\r\naccept-encoding: gzip\r\n\r\n";
    let old = nginx.server.exchange("web", request);
    assert_eq!(old.header("transfer-encoding"), None);
    assert!(old.body == packed.body);
    if !has("gzip") {
        return;
    }
    let directory = TempDir::new().expect("a temporary directory");
    fs::write(directory.path().join("text.gz"), &packed.body).expect("a file");
    let unpacked = crate::tools::run("gzip", directory.path(), &["-dc", "text.gz"]).stdout;
    assert!(unpacked == nginx.text);
}

#[test]
fn it_receives_the_client_address_and_may_close_at_any_time() {
    if !has("nginx") {
        return;
    }
    let nginx = Nginx::start();
    let told = nginx.get("/told", "x-forwarded-for: 6.6.6.6\r\n").text();
    assert_eq!(told, "shop.example 1.1 tidegate 127.0.0.1 .");
    // It closes after two requests each: no client notices.
    for _ in 0..9 {
        assert_eq!(nginx.get("/two", "").text(), "two");
    }
    assert_eq!(nginx.count("tidegate_upstream_requests_total", &[("class", "error")]), 0.0);
}

#[test]
fn an_early_refusal_reaches_the_client() {
    if !has("nginx") {
        return;
    }
    let nginx = Nginx::start();
    let mut client = nginx.server.connect("web");
    let length = 4 << 20;
    client.send(format!("POST /small HTTP/1.1\r\nhost: a\r\ncontent-length: {length}\r\n\r\n"));
    let mut sending = client.clone_for_reading();
    let sender = std::thread::spawn(move || sending.try_send(vec![b'x'; length]));
    assert_eq!(client.read_response().status, 413);
    sender.join().expect("the sender ends");
    // The connection ends with the refusal, or stays if nginx has taken all of the body before.
    let _ = client.try_finish_sending();
    client.read_until_gone();
    assert_eq!(nginx.get("/text.txt", "").status, 200);
}
