//! Ten thousand idle clients: what they cost, and that all others are served.

use crate::setup::responding;
use scenarios::{Connection, Process, Tidegate};
use std::fs;
use std::process::Command;

const WANTED: usize = 10_000;
/// What the rest of the tests and the server itself may have open besides.
const SPARE: usize = 2_000;
const BYTES_MAX: f64 = 8.0 * 1024.0;

/// Soft and hard limit of descriptors of this process.
fn limits() -> (usize, usize) {
    let text = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("Max open files")).unwrap_or_default();
    let mut numbers = line.split_whitespace().skip(3).map(|word| word.parse().unwrap_or(1024));
    (numbers.next().unwrap_or(1024), numbers.next().unwrap_or(1024))
}

/// How many connections this machine allows, after the limit has been raised as far as it goes.
fn affordable() -> usize {
    let (soft, hard) = limits();
    if soft < hard {
        let id = std::process::id().to_string();
        let limit = format!("--nofile={hard}:{hard}");
        Process::run(Command::new("prlimit").args(["--pid", &id, &limit]));
    }
    limits().0.saturating_sub(SPARE).min(WANTED)
}

/// Resident memory of a process, without what it shares with files.
fn resident_bytes(process: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("a Linux machine");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("RssAnon");
    line.trim().trim_end_matches(" kB").parse::<f64>().expect("a number") * 1024.0
}

fn serves(client: &mut Connection) {
    client.send("GET /ping HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(client.read_response().body, b"pong");
}

#[test]
fn they_cost_little_and_are_in_nobodys_way() {
    let count = affordable();
    if count < WANTED {
        println!("only {count} connections: this machine allows no more descriptors");
    }
    // A slow machine takes longer to open so many than the first byte of one may usually take.
    let server = Tidegate::start(&responding("timeouts: { handshake: 10m, idle: 10m }"));
    let address = server.address("web");
    // Warm: what the first connections allocate for all is not what one costs.
    let mut warm: Vec<_> = (0..100).map(|_| Connection::to(address)).collect();
    warm.iter_mut().for_each(serves);
    drop(warm);
    server.wait_for_metric("tidegate_connections_closed_total", &[], 100.0);
    let before = resident_bytes(server.id());
    let mut idle: Vec<_> = (0..count).map(|_| Connection::to(address)).collect();
    // Each has been used: it has had a buffer, and must have given it back.
    idle.iter_mut().for_each(serves);
    server.wait_for_metric("tidegate_connections_idle", &[], count as f64);
    let each = (resident_bytes(server.id()) - before) / count as f64;
    println!("{count} idle connections: {each:.0} bytes each");
    assert!(each < BYTES_MAX, "{each} bytes for each idle connection");

    serves(&mut server.connect("web"));
    serves(&mut idle[0]);
    serves(&mut idle[count - 1]);
    server.signal("TERM");
    for client in &mut idle {
        client.expect_closed();
    }
    assert_eq!(server.wait().code, Some(0));
}
