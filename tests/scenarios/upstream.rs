//! The upstream side: what clients see of servers that fail, lie, stall, come and go.
//!
//! Owns the configuration these pages begin with and the check they end with: whatever happened,
//! nothing is in flight and nothing is leaked afterwards ([`wait_until_released`]).

mod addresses;
mod breaking;
mod cancelling;
mod checking;
mod choosing;
mod early;
mod ejecting;
mod failing;
mod flooding;
mod interim;
mod keeping;
mod lying;
mod mixing;
mod multiplexing;
mod multiplexing_failures;
mod multiplexing_floods;
mod outliving;
mod pressing;
mod recovering;
mod refusing;
mod retrying;
mod slow_uploads;
mod stalling;
mod telling;
mod tls;
mod trailing;
mod tunnelling;

pub(crate) use refusing::Refusing;
use scenarios::{HttpResponse, Metrics, Tidegate, Upstream, eventually};
use serde_json::Value;

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A gateway whose every request goes to the upstream `u`, which is what `upstream` says. One
/// worker, so that its pools and its turns are those of every connection.
fn gateway(upstream: &str) -> Tidegate {
    Tidegate::start(&config(upstream, 1))
}

/// The configuration of [`gateway`].
fn config(upstream: &str, workers: usize) -> String {
    format!(
        r#"
workers: {workers}
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0", token: open-sesame, socket: admin.sock }}
upstreams:
  u: {{ {upstream} }}
routes:
  - {{ name: all, match: {{ path: "/{{*rest}}" }}, handler: {{ upstream: u }} }}
"#
    )
}

/// `servers: […]` of these, for [`gateway`].
fn servers(upstreams: &[&Upstream]) -> String {
    let addresses: Vec<_> =
        upstreams.iter().map(|upstream| format!("{:?}", upstream.address().to_string())).collect();
    format!("servers: [{}]", addresses.join(", "))
}

/// What a request to an upstream of one server gets.
fn ask(server: &Tidegate) -> HttpResponse {
    server.exchange("web", GET)
}

/// Waits until the counters are as `are` says.
fn wait_until(server: &Tidegate, what: &str, are: impl Fn(&Metrics) -> bool) {
    eventually(what, || are(&server.metrics()));
}

/// Every connection of the client is gone by now: nothing may be in flight, and no connection to a
/// server may be held by anybody.
fn wait_until_released(server: &Tidegate) {
    const GAUGES: [&str; 5] = [
        "tidegate_connections_active",
        "tidegate_exchanges_in_flight",
        "tidegate_requests_in_flight",
        "tidegate_upstream_requests_in_flight",
        "tidegate_tunnels_active",
    ];
    for gauge in GAUGES {
        wait_until(server, gauge, |metrics| metrics.sum(gauge, &[]) == 0.0);
    }
    let active = [("state", "active")];
    wait_until(server, "no connection in use", |metrics| {
        metrics.sum("tidegate_upstream_connections", &active) == 0.0
    });
}

/// The same, and not even a kept connection is left.
fn settle_without_connections(server: &Tidegate) {
    wait_until_released(server);
    assert_eq!(server.metrics().sum("tidegate_upstream_connections", &[]), 0.0);
}

/// Checks a fault that the gateway answered for: its status, and its word in Proxy-Status
/// (RFC 9209).
fn assert_fault(response: &HttpResponse, status: u16, error: &str) {
    let told = response.header("proxy-status").unwrap_or_default();
    assert_eq!(response.status, status, "{response:?}");
    assert!(told.starts_with("tidegate") && told.contains(&format!(";error={error}")), "{told}");
    // No client learns of internal addresses.
    assert!(!response.text().contains("127.0.0.1"), "{response:?}");
}

fn closed(server: &Tidegate, reason: &str) {
    server.wait_for_metric("tidegate_connections_closed_total", &[("reason", reason)], 1.0);
}

/// The requests that `address` was sent, by class.
fn sent_to(server: &Tidegate, upstream: &Upstream, class: &str) -> f64 {
    let address = upstream.address().to_string();
    let labels = [("upstream", "u"), ("server", address.as_str()), ("class", class)];
    server.metrics().sum("tidegate_upstream_requests_total", &labels)
}

/// What the admin API has at a path.
fn from_api(server: &Tidegate, path: &str) -> Value {
    let request = format!(
        "GET {path} HTTP/1.1\r\nhost: admin\r\nauthorization: Bearer open-sesame\r\n\
         connection: close\r\n\r\n"
    );
    let response = server.exchange("admin", request);
    assert_eq!(response.status, 200, "{response:?}");
    serde_json::from_slice(&response.body).expect("JSON")
}

/// The upstream `u` as the admin API shows it.
fn shown(server: &Tidegate) -> Value {
    from_api(server, "/v1/upstreams")["upstreams"][0].take()
}

/// Waits until the servers of `u` are in these states, in the order of the configuration.
fn wait_for_states(server: &Tidegate, states: &[&str]) {
    eventually(&format!("the servers are {states:?}"), || {
        let upstream = shown(server);
        let servers = upstream["servers"].as_array().expect("servers");
        servers.iter().map(|server| &server["state"]).eq(states)
    });
}
