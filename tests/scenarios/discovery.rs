//! Upstreams whose servers come from a source: members change under load without a failed request,
//! and a source that fails changes nothing.

mod changing;
mod consul;
mod failing;
mod registering;

use scenarios::{
    BETWEEN_REQUESTS, Connection, HttpResponse, Launch, Tidegate, Upstream, eventually,
};
use serde_json::Value;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

/// A gateway whose upstream `api` has these settings, next to a file `servers` with this content.
fn gateway(upstream: &str, servers: &str) -> Tidegate {
    let config = format!(
        r#"
workers: 2
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0", token: open-sesame, socket: admin.sock }}
upstreams:
  api: {{ {upstream} }}
routes:
  - {{ name: all, match: {{ path: "/{{*rest}}" }}, handler: {{ upstream: api }} }}
"#
    );
    Launch::new(&config).file("servers", servers).start()
}

/// A server that responds with its name.
fn server(name: &str) -> Upstream {
    let length = name.len();
    Upstream::responding(format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{name}"))
}

/// The addresses of servers, one a line.
fn lines<'a>(servers: impl IntoIterator<Item = &'a Upstream>) -> String {
    servers.into_iter().map(|server| format!("{}\n", server.address())).collect()
}

/// Replaces a file in one step.
fn replace(gateway: &Tidegate, name: &str, content: &str) {
    let new = format!("{name}.new");
    gateway.write(&new, content);
    std::fs::rename(gateway.path(&new), gateway.path(name)).expect("a rename");
}

/// A request to the admin API.
fn admin(gateway: &Tidegate, method: &str, path: &str, body: &str) -> HttpResponse {
    let length = body.len();
    gateway.exchange(
        "admin",
        format!(
            "{method} {path} HTTP/1.1\r\nhost: admin\r\nauthorization: Bearer open-sesame\r\n\
             content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        ),
    )
}

/// The upstream `api`, as the admin API shows it.
fn status(gateway: &Tidegate) -> Value {
    let response = admin(gateway, "GET", "/v1/upstreams", "");
    assert_eq!(response.status, 200, "{response:?}");
    let all: Value = serde_json::from_slice(&response.body).expect("JSON");
    all["upstreams"][0].clone()
}

/// The addresses of the upstream in this state, sorted.
fn addresses(gateway: &Tidegate, state: &str) -> Vec<String> {
    let status = status(gateway);
    let servers = status["servers"].as_array().expect("servers").iter();
    let servers = servers.filter(|server| server["state"] == state);
    let mut addresses: Vec<String> =
        servers.map(|server| server["address"].as_str().expect("text").to_owned()).collect();
    addresses.sort();
    addresses
}

/// Waits until the upstream has these servers and no others, and no request is in flight to another
/// one.
fn wait_for<'a>(gateway: &Tidegate, servers: impl IntoIterator<Item = &'a Upstream>) {
    let mut expected: Vec<String> =
        servers.into_iter().map(|server| server.address().to_string()).collect();
    expected.sort();
    eventually("the servers are the members", || {
        addresses(gateway, "healthy") == expected && addresses(gateway, "removed").is_empty()
    });
}

/// The response to a request of a connection of its own.
fn body(gateway: &Tidegate) -> String {
    let response = gateway.exchange("web", GET);
    assert_eq!(response.status, 200, "{response:?}");
    response.text()
}

/// Clients that send requests until they are told to stop; each has to be answered with 200.
struct Load {
    over: Arc<AtomicBool>,
    requests: Arc<AtomicU64>,
    clients: Vec<JoinHandle<()>>,
}

impl Load {
    fn start(address: SocketAddr) -> Load {
        let (over, requests) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let client = |_| {
            let (over, requests) = (over.clone(), requests.clone());
            std::thread::spawn(move || {
                let mut connection = Connection::to(address);
                while !over.load(Ordering::Relaxed) {
                    connection.send(GET);
                    let response = connection.read_response();
                    assert_eq!(response.status, 200, "{response:?}");
                    requests.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(BETWEEN_REQUESTS);
                }
            })
        };
        let clients = (0..4).map(client).collect();
        Load { over, requests, clients }
    }

    /// Waits until more requests have been answered.
    fn continues(&self) {
        let before = self.requests.load(Ordering::Relaxed);
        eventually("requests are answered", || {
            self.requests.load(Ordering::Relaxed) > before + 20
                || self.clients.iter().any(JoinHandle::is_finished)
        });
    }

    fn end(self) {
        self.over.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().expect("every request was answered with 200");
        }
    }
}
