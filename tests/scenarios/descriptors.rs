//! File descriptors run out: what is open is served on, nobody spins, and when some are free again
//! the service is what it was.

use crate::setup::answering;
use scenarios::{Connection, Launch, Metrics};
use std::time::Duration;

const PING: &str = "GET /ping HTTP/1.1\r\nhost: a\r\n\r\n";

fn serves(client: &mut Connection) {
    client.send(PING);
    assert_eq!(client.answer().body, b"pong");
}

/// Over a connection that was open before: there is no descriptor for another.
fn metrics(admin: &mut Connection) -> Metrics {
    admin.send("GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n");
    Metrics::parse(&admin.answer().text())
}

fn wait_for(admin: &mut Connection, what: &str, is: impl Fn(&Metrics) -> bool) {
    let deadline = std::time::Instant::now() + scenarios::PATIENCE;
    while !is(&metrics(admin)) {
        assert!(std::time::Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Processor time of the server so far.
fn cpu_seconds(metrics: &Metrics) -> f64 {
    metrics.sum("process_cpu_seconds_total", &[])
}

#[test]
fn the_service_outlives_their_exhaustion() {
    let server = Launch::new(&answering("")).descriptors(64).start();
    let address = server.address("web");
    let mut admin = server.connect("admin");
    let mut first = server.connect("web");
    serves(&mut first);
    metrics(&mut admin);

    // More than fit. The kernel takes them all in, the server cannot.
    let crowd: Vec<_> = (0..100).map(|_| Connection::to(address)).collect();
    wait_for(&mut admin, "an accept error", |metrics| {
        metrics.sum("tidegate_accept_errors_total", &[]) >= 2.0
    });
    serves(&mut first);
    let line = server.wait_for_log("accepting a connection failed");
    assert!(line.contains("Too many open files"), "{line}");

    // It looks again now and then, and does not spin.
    let before = metrics(&mut admin);
    let errors = |metrics: &Metrics| metrics.sum("tidegate_accept_errors_total", &[]);
    wait_for(&mut admin, "a few more", |now| errors(now) >= errors(&before) + 10.0);
    let after = metrics(&mut admin);
    let spent = cpu_seconds(&after) - cpu_seconds(&before);
    assert!(spent < 0.3, "{spent} s of processor time for ten looks");

    // Those that waited are served once there is room.
    drop(crowd);
    let mut late: Vec<_> = (0..20).map(|_| Connection::to(address)).collect();
    late.iter_mut().for_each(serves);
    serves(&mut first);
}
