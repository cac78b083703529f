//! The time in which a recovered server regains its full share under `p2c`, simulated: picks at a
//! fixed rate, each measured at once.

use net::worker::block_on_local;

use super::balancing::Table;
use super::*;
use crate::view::Peer;

/// Servers of the upstream; the first one has a problem for a while.
const SERVERS: usize = 3;
const TROUBLE_US: u64 = 5_000_000;
/// The latency of a healthy server.
const WELL_US: u64 = 2_000;

/// Share of the first server in the requests of one second.
struct Recovery {
    rate: u64,
    table: Table,
    now_us: u64,
}

impl Recovery {
    fn new(rate: u64) -> Recovery {
        let table = Table::new(&[1; SERVERS], node!({ "ejection": { "failures": 0 } }));
        Recovery { rate, table, now_us: 1_000_000 }
    }

    fn share(&mut self, seconds: u64, trouble: impl Fn(&Peer, u64)) -> f64 {
        let request = request(Method::Get, Body::Empty);
        let (mut first, picks) = (0, self.rate * seconds);
        for _ in 0..picks {
            self.now_us += 1_000_000 / self.rate;
            let peer = self.table.pick(&request, &[], self.now_us).unwrap();
            if &*peer.name == "10.0.0.1:80" {
                first += 1;
                trouble(&peer, self.now_us);
            } else {
                peer.stats.measure(WELL_US, self.now_us);
            }
        }
        f64::from(first) / picks as f64
    }
}

fn well(peer: &Peer, now_us: u64) {
    peer.stats.measure(WELL_US, now_us);
}

fn assert_recovers(trouble: impl Fn(&Peer, u64), what: &str) {
    for rate in [300, 800] {
        let mut recovery = Recovery::new(rate);
        recovery.share(2, well);
        let during = recovery.share(TROUBLE_US / 1_000_000, &trouble);
        assert!(during < 0.02, "{what} at {rate}/s: {during} while in trouble");
        recovery.share(2, well);
        let after = recovery.share(1, well);
        let fair = 1.0 / SERVERS as f64;
        assert!(after > 0.8 * fair, "{what} at {rate}/s: {after} in the third second");
    }
}

#[test]
fn a_server_that_failed_has_its_share_within_three_seconds() {
    block_on_local(async {
        assert_recovers(|peer, now_us| peer.stats.measure_failure(200, now_us), "refusing");
    });
}

#[test]
fn a_server_that_was_slow_has_its_share_within_three_seconds() {
    block_on_local(async {
        assert_recovers(|peer, now_us| peer.stats.measure(900_000, now_us), "stalled");
    });
}

#[test]
fn a_slow_server_is_sampled_rarely() {
    block_on_local(async {
        // At a low rate the lost comparisons bound the samples, at a high one the time does.
        for (rate, most) in [(2, 0.10), (300, 0.005), (5_000, 0.001)] {
            let mut recovery = Recovery::new(rate);
            let slow = |peer: &Peer, now_us| peer.stats.measure(900_000, now_us);
            recovery.share(1 + 10 / rate, slow);
            let share = recovery.share(60, slow);
            assert!(share > 0.0 && share < most, "{rate}/s: {share}");
        }
    });
}

#[test]
fn a_server_that_returns_to_rotation_is_measured_again() {
    block_on_local(async {
        let mut recovery = Recovery::new(300);
        recovery.share(2, |peer, now_us| peer.stats.measure_failure(200, now_us));
        let cluster = recovery.table.local.cluster.clone();
        let member = cluster.snapshot().members.list[0].clone();
        let now_ms = recovery.now_us / 1000;
        cluster.set_checked(&member, false, now_ms, "");
        cluster.set_checked(&member, true, now_ms, "");
        let after = recovery.share(1, well);
        assert!(after > 0.3, "{after} in the first second");
    });
}
