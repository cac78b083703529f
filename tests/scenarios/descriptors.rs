//! File descriptors run out: clients leave enough of them for everything else, the longest idle
//! connections give way to new ones, and nothing spins.

use crate::setup::answering;
use scenarios::{Connection, Launch, Metrics, Tidegate, eventually};

const PING: &str = "GET /ping HTTP/1.1\r\nhost: a\r\n\r\n";

/// Few enough that the crowd holds everything that it can get.
const DESCRIPTORS: u32 = 128;
const CROWD: usize = 300;

fn serves(client: &mut Connection) {
    client.send(PING);
    assert_eq!(client.answer().body, b"pong");
}

/// Whether a connection was served, and not turned away or closed for another.
fn is_served(client: &mut Connection) -> bool {
    let sent = client.try_send("GET /ping HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    sent && client.read_until_gone().ends_with(b"pong")
}

/// What an endpoint of the admin API answers, over a connection of its own.
fn ask(server: &Tidegate, path: &str) -> scenarios::Answer {
    server.exchange("admin", format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n"))
}

/// Processor time of the server so far.
fn cpu_seconds(metrics: &Metrics) -> f64 {
    metrics.sum("process_cpu_seconds_total", &[])
}

#[test]
fn clients_cannot_take_the_descriptors_of_everything_else() {
    let server = Launch::new(&answering("")).descriptors(DESCRIPTORS).start();
    let address = server.address("web");
    let mut first = server.connect("web");
    serves(&mut first);

    // More than there are descriptors. Those above the cap are answered 503, or closed.
    let crowd: Vec<_> = (0..CROWD).map(|_| Connection::to(address)).collect();
    server.wait_for_metric("tidegate_limits_hit_total", &[("limit", "descriptors")], 1.0);
    let metrics = server.metrics();
    let open = metrics.sum("process_open_fds", &[]);
    assert!(open < f64::from(DESCRIPTORS) - 8.0, "{open} are open");
    assert_eq!(ask(&server, "/healthz").status, 200);
    let ready = ask(&server, "/readyz");
    assert_eq!(ready.status, 200);
    assert!(ready.text().contains("out of file descriptors"), "{}", ready.text());
    server.wait_for_log("event=descriptors_exhausted");
    let line = server.wait_for_log("client_connections=");
    assert!(line.contains(&format!("limit={DESCRIPTORS}")), "{line}");

    // Once they have been idle for a while, they make room, and nothing spins.
    let before = cpu_seconds(&server.metrics());
    eventually("an idle connection makes room", || is_served(&mut Connection::to(address)));
    server.wait_for_metric("tidegate_connections_closed_total", &[("reason", "descriptors")], 1.0);
    let spent = cpu_seconds(&server.metrics()) - before;
    assert!(spent < 1.0, "{spent} s of processor time");
    assert_eq!(server.metrics().sum("tidegate_accept_errors_total", &[]), 0.0);

    // When the crowd has gone, the service is what it was.
    drop(crowd);
    eventually("the connections of the crowd are closed", || {
        server.metrics().sum("tidegate_connections_active", &[]) <= 2.0
    });
    let mut late: Vec<_> = (0..20).map(|_| Connection::to(address)).collect();
    late.iter_mut().for_each(serves);
}
