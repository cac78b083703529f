//! A server that is killed and restarted has its full share of the requests again soon after.

use super::{GET, config, wait_until};
use scenarios::{Connection, Metrics, Tidegate};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Fair is a third. Without care it takes at least the ten seconds of an ejection; within how many
/// it shall be is three, and the rest is for a machine that is busy.
const FULL_SHARE: f64 = 0.8 / 3.0;
const WITHIN: Duration = Duration::from_secs(7);
/// Time over which a share is measured.
const WINDOW: Duration = Duration::from_secs(1);

/// A server of its own process.
fn server(address: &str) -> Tidegate {
    let server = Tidegate::start(&format!(
        r#"
workers: 1
listeners: {{ web: {{ bind: "{address}" }} }}
routes:
  - {{ name: all, match: {{ path: "/{{*rest}}" }}, handler: {{ respond: {{ body: ok }} }} }}
"#
    ));
    server.address("web");
    server
}

/// Clients that send requests at a fixed rate until they are told to stop.
struct LoadRate {
    over: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl LoadRate {
    fn start(address: SocketAddr, rate: u32) -> LoadRate {
        const CLIENTS: u32 = 8;
        let over = Arc::new(AtomicBool::new(false));
        let client = |over: Arc<AtomicBool>| {
            std::thread::spawn(move || {
                let (began, mut sent) = (Instant::now(), 0);
                let mut connection = Connection::to(address);
                while !over.load(Ordering::Relaxed) {
                    connection.send(GET);
                    // A 502 at the moment of the kill is none of this test's business.
                    connection.read_response();
                    sent += 1;
                    // Keeps the rate, which decides how soon a server has its share.
                    let due = began + Duration::from_secs(1) * CLIENTS * sent / rate;
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                }
            })
        };
        let clients = (0..CLIENTS).map(|_| client(over.clone())).collect();
        LoadRate { over, clients }
    }

    fn stop(self) {
        self.over.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().expect("every request was answered");
        }
    }
}

/// Requests that a server has answered, and those of all servers.
fn answered(metrics: &Metrics, address: &str) -> (f64, f64) {
    let count = |labels: &[(&str, &str)]| metrics.sum("tidegate_upstream_requests_total", labels);
    (count(&[("server", address), ("class", "2xx")]), count(&[("class", "2xx")]))
}

#[test]
fn a_restarted_server_soon_has_its_full_share() {
    for rate in [300, 800] {
        let servers: Vec<Tidegate> = (0..3).map(|_| server("127.0.0.1:0")).collect();
        let addresses: Vec<String> =
            servers.iter().map(|server| server.address("web").to_string()).collect();
        let gateway = Tidegate::start(&config(&format!("servers: {addresses:?}"), 2));
        let pace = LoadRate::start(gateway.address("web"), rate);
        let first = addresses[0].clone();
        wait_until(&gateway, "requests to the first server", |metrics| {
            answered(metrics, &first).0 >= 50.0
        });
        let mut servers = servers.into_iter();
        let killed = servers.next().expect("three servers");
        killed.signal("KILL");
        gateway.wait_for_log("a server is ejected after failures");

        let restarted = server(&first);
        let deadline = Instant::now() + WITHIN;
        let mut shares = Vec::new();
        loop {
            let before = answered(&gateway.metrics(), &first);
            // A share is counted over a span.
            std::thread::sleep(WINDOW);
            let after = answered(&gateway.metrics(), &first);
            let share = (after.0 - before.0) / (after.1 - before.1);
            shares.push(share);
            if share >= FULL_SHARE {
                break;
            }
            assert!(Instant::now() < deadline, "{rate}/s: shares per second {shares:?}");
        }
        pace.stop();
        drop((restarted, killed));
    }
}
