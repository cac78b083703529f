//! Consul, played by a server that does what the documentation of its health API and of its
//! blocking queries describes: the real one cannot be had here.

use super::{Load, body, gateway, server, status, wait_for};
use scenarios::{Connection, PATIENCE, Upstream, eventually};
use serde_json::{Value, json};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// What the server knows of one service.
#[derive(Default)]
struct Catalog {
    index: u64,
    instances: Vec<Value>,
    /// Queries are answered with 500.
    is_sick: bool,
    /// Responses have no `X-Consul-Index`.
    hides_index: bool,
    /// The targets and fields of queries, in order.
    queries: Vec<String>,
    is_over: bool,
}

#[derive(Default)]
struct Consul {
    catalog: Mutex<Catalog>,
    changed: Condvar,
}

impl Consul {
    fn lock(&self) -> MutexGuard<'_, Catalog> {
        self.catalog.lock().expect("the catalog")
    }

    /// Makes a change and wakes the queries that wait.
    fn change(&self, change: impl FnOnce(&mut Catalog)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    fn set(&self, index: u64, servers: &[&Upstream]) {
        self.change(|catalog| {
            catalog.index = index;
            catalog.instances = servers.iter().map(|server| instance(server)).collect();
        });
    }

    fn queries(&self) -> Vec<String> {
        self.lock().queries.clone()
    }

    /// Answers one query: at once, or once the index is another than the one that it names, or when
    /// its `wait` is over.
    fn answer(&self, head: &str) -> String {
        let target = head.split(' ').nth(1).expect("a target");
        let parameter = |name: &str| {
            let mut pairs = target.split(['?', '&']).filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
        };
        let index: Option<u64> = parameter("index").map(|index| index.parse().expect("a number"));
        let wait = parameter("wait").map_or(300_000, |wait| {
            wait.strip_suffix("ms").and_then(|ms| ms.parse().ok()).expect("milliseconds")
        });
        let until = Instant::now() + Duration::from_millis(wait).min(PATIENCE);
        let mut catalog = self.lock();
        catalog.queries.push(head.to_owned());
        while index == Some(catalog.index) && !catalog.is_sick && !catalog.is_over {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            catalog = self.changed.wait_timeout(catalog, left).expect("the catalog").0;
        }
        if catalog.is_sick {
            return "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 18\r\n\r\n\
                    No cluster leader\n"
                .to_owned();
        }
        let field = match catalog.hides_index {
            true => String::new(),
            false => format!("X-Consul-Index: {}\r\n", catalog.index),
        };
        let content = Value::Array(catalog.instances.clone()).to_string();
        let length = content.len();
        format!("HTTP/1.1 200 OK\r\n{field}content-length: {length}\r\n\r\n{content}")
    }
}

fn instance(server: &Upstream) -> Value {
    let address = server.address();
    json!({
        "Node": { "Node": "n1", "Address": "192.0.2.1" },
        "Service": {
            "ID": format!("api-{}", address.port()),
            "Service": "api",
            "Address": address.ip().to_string(),
            "Port": address.port(),
            "Weights": { "Passing": 2, "Warning": 1 }
        },
        "Checks": [{ "Status": "passing" }]
    })
}

/// Ends the queries that wait, so that the threads of the server end with the test.
struct Running {
    consul: Arc<Consul>,
    upstream: Upstream,
}

impl Running {
    fn start() -> Running {
        let consul = Arc::new(Consul::default());
        consul.lock().index = 10;
        let answering = consul.clone();
        let upstream = Upstream::start(move |peer: &mut Connection| {
            while !peer.at_end() {
                let head = peer.read_head();
                if !peer.try_send(answering.answer(&head)) {
                    return;
                }
            }
        });
        Running { consul, upstream }
    }

    fn settings(&self, more: &str) -> String {
        let url = format!("http://{}", self.upstream.address());
        format!("discover: {{ consul: {{ url: '{url}', service: api, {more} }} }}")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.consul.change(|catalog| catalog.is_over = true);
    }
}

#[test]
fn changes_arrive_by_blocking_queries_and_no_request_fails() {
    let servers = ["0", "1", "2"].map(server);
    let running = Running::start();
    running.consul.set(10, &[&servers[0], &servers[1]]);
    let gateway = gateway(&running.settings("token: s3cret, tag: v2, wait: 10m"), "");
    wait_for(&gateway, &servers[..2]);
    eventually("a query waits", || running.consul.queries().len() == 2);
    let queries = running.consul.queries();
    assert!(
        queries[0].starts_with("GET /v1/health/service/api?passing=1&tag=v2&stale HTTP/1.1\r\n"),
        "{queries:?}"
    );
    assert!(queries[0].to_lowercase().contains("\r\nx-consul-token: s3cret\r\n"), "{queries:?}");
    assert!(queries[1].contains("&stale&index=10&wait=600000ms HTTP/1.1"), "{queries:?}");
    let load = Load::start(gateway.address("web"));
    for index in 11..17 {
        let several: Vec<&Upstream> = match index % 2 {
            0 => servers[..2].iter().collect(),
            _ => servers[1..].iter().collect(),
        };
        running.consul.set(index, &several);
        wait_for(&gateway, several);
        load.continues();
    }
    load.end();
    assert_eq!(status(&gateway)["servers"][0]["weight"], 2);
    assert_eq!(status(&gateway)["discovery"]["source"], "consul api");
    assert!(!gateway.log().join("\n").contains("s3cret"));
}

#[test]
fn an_index_that_goes_backwards_begins_again() {
    let servers = ["0", "1"].map(server);
    let running = Running::start();
    running.consul.set(50, &[&servers[0]]);
    let gateway = gateway(&running.settings(""), "");
    wait_for(&gateway, &servers[..1]);
    running.consul.set(7, &[&servers[1]]);
    wait_for(&gateway, &servers[1..]);
    eventually("a query without an index follows, and one with the new one", || {
        let queries = running.consul.queries();
        let [.., before, last] = queries.as_slice() else { return false };
        !before.contains("index=") && last.contains("&index=7&")
    });
    // Without an index the servers are polled.
    running.consul.change(|catalog| {
        catalog.hides_index = true;
        catalog.index = 8;
        catalog.instances = vec![instance(&servers[0])];
    });
    wait_for(&gateway, &servers[..1]);
    running.consul.change(|catalog| catalog.instances = vec![instance(&servers[1])]);
    wait_for(&gateway, &servers[1..]);
}

#[test]
fn the_last_servers_stay_while_consul_fails() {
    let servers = ["0", "1"].map(server);
    let running = Running::start();
    running.consul.set(20, &[&servers[0]]);
    let gateway = gateway(&running.settings(""), "");
    wait_for(&gateway, &servers[..1]);
    running.consul.change(|catalog| catalog.is_sick = true);
    let error = || status(&gateway)["discovery"]["error"].as_str().unwrap_or_default().to_owned();
    eventually("the failure is shown", || {
        error() == "the response has the status 500: \"No cluster leader\""
    });
    assert_eq!(body(&gateway), "0");
    // An instance that cannot be used is left out by name; it does not hide the others.
    running.consul.change(|catalog| {
        catalog.is_sick = false;
        catalog.index = 21;
        catalog.instances = vec![
            json!({ "Node": {}, "Service": { "ID": "bad", "Address": "unix:/run/x", "Port": 1 } }),
            instance(&servers[1]),
        ];
    });
    wait_for(&gateway, &servers[1..]);
    eventually("the entry is named", || error().starts_with("1 entries are not used: \"bad\": "));
    // No instance passes its checks: the last one stays, unless it is configured otherwise.
    running.consul.set(22, &[]);
    eventually("the response is empty", || error() == "the response has no servers");
    assert_eq!(body(&gateway), "1");
}
