//! The cache over the wire: what clients see, what the origin is asked, what the admin API says.
//!
//! Owns the origin that writes down what it was asked, and the configuration these pages begin
//! with.

mod coding;
mod confirming;
mod cookies;
mod decoding;
mod explaining;
mod failing;
mod hitting;
mod keying;
mod outliving;
mod owning;
mod parts;
mod passing;
mod purging;
mod restarting;
mod sharing;
mod staling;
mod surviving;
mod varying;

use scenarios::{HttpResponse, Tidegate, Upstream, eventually};
use serde_json::Value;
use std::sync::{Arc, Mutex};

/// A server that responds with what a closure makes of a head, and remembers the heads.
struct Origin {
    upstream: Upstream,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Origin {
    /// `response` is given the head and how many there were before it.
    fn start(response: impl Fn(&str, usize) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let heads = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::clone(&heads);
        let upstream = Upstream::start(move |peer| {
            while !peer.at_end() {
                let head = peer.read_head();
                peer.read_exactly(content_length(&head));
                let before = {
                    let mut heads = written.lock().expect("no panic under it");
                    heads.push(head.clone());
                    heads.len() - 1
                };
                if !peer.try_send(response(&head, before)) {
                    return;
                }
            }
        });
        Origin { upstream, heads }
    }

    /// One that says of itself how often it was requested, in responses with these fields.
    fn counting(fields: &'static str) -> Self {
        Self::start(move |_, before| {
            origin_response(200, fields, format!("answer {before}").as_bytes())
        })
    }

    fn fetches(&self) -> usize {
        self.heads.lock().expect("no panic under it").len()
    }

    /// The latest head it was sent, in lower case.
    fn last(&self) -> String {
        let heads = self.heads.lock().expect("no panic under it");
        heads.last().expect("it was asked").to_ascii_lowercase()
    }
}

fn content_length(head: &str) -> usize {
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length:"));
    length.map_or(0, |length| length.trim().parse().expect("a length"))
}

/// A response with its length.
fn origin_response(status: u16, fields: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} Any\r\n{fields}content-length: {length}\r\n\r\n");
    [head.as_bytes(), body].concat()
}

/// A server whose every request goes through a cache with this entry to the origin.
fn cache(origin: &Origin, entry: &str) -> Tidegate {
    Tidegate::start(&config(origin, entry, "64MiB"))
}

/// The configuration of [`cache`].
fn config(origin: &Origin, entry: &str, memory: &str) -> String {
    let address = origin.upstream.address();
    format!(
        r#"
workers: 2
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0", token: open-sesame, socket: admin.sock }}
upstreams: {{ u: {{ servers: ["{address}"] }} }}
caches: {{ pages: {{ memory: {memory} }} }}
routes:
  - name: all
    match: {{ path: "/{{*rest}}" }}
    filters: [{{ cache: {{ store: pages, {entry} }} }}]
    handler: {{ upstream: u }}
"#
    )
}

/// What a request with these fields gets.
fn send_line(server: &Tidegate, line: &str, fields: &str) -> HttpResponse {
    let mut client = server.connect("web");
    client.send(format!("{line} HTTP/1.1\r\nhost: shop.example\r\n{fields}\r\n"));
    if line.starts_with("HEAD ") { client.read_response_to_head() } else { client.read_response() }
}

fn get(server: &Tidegate, path: &str, fields: &str) -> HttpResponse {
    send_line(server, &format!("GET {path}"), fields)
}

/// What Cache-Status says (RFC 9211), without the name of the cache.
fn cache_status(response: &HttpResponse) -> &str {
    let cache_status = response.header("cache-status").unwrap_or_default();
    cache_status
        .strip_prefix("tidegate; ")
        .unwrap_or_else(|| panic!("{cache_status:?} of {response:?}"))
}

fn is_hit(response: &HttpResponse) -> bool {
    cache_status(response).starts_with("hit")
}

/// Asks the admin API.
fn api(server: &Tidegate, line: &str, body: &str) -> (u16, Value) {
    let length = body.len();
    let response = server.exchange(
        "admin",
        format!(
            "{line} HTTP/1.1\r\nhost: admin\r\nauthorization: Bearer open-sesame\r\n\
             content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        ),
    );
    (response.status, serde_json::from_slice(&response.body).expect("JSON"))
}

/// Waits until a server that was started on the directory of another one has found so many objects:
/// it serves while it reads the directory.
fn found_on_disk(server: &Tidegate, least: u64) {
    eventually(&format!("{least} objects were found on disk"), || {
        api(server, "GET /v1/caches/pages", "").1["disk"]["objects"].as_u64() >= Some(least)
    });
}

/// Purges through the admin API and says how many responses that were.
fn purge(server: &Tidegate, body: &str) -> u64 {
    let (status, response) = api(server, "POST /v1/caches/pages/purge", body);
    assert_eq!(status, 200, "{response}");
    response["purged"].as_u64().expect("a number")
}

/// What the admin API says of a GET of that path.
fn explained(server: &Tidegate, path: &str) -> Value {
    let url = format!("http://shop.example{path}");
    let (status, response) = api(server, &format!("GET /v1/caches/pages/explain?url={url}"), "");
    assert_eq!(status, 200, "{response}");
    response
}
