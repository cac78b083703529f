//! Rate limits per client address for events other than requests, such as connections to a stream.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use plugin::{Keyed, WorkerContext};
use settings::Rate;

use crate::keyed_state;
use crate::rate_limit::{Gcra, RateDecision, burst};

/// Addresses that are remembered; the one that was least used recently is forgotten first.
const ENTRIES: u32 = 100_000;

/// A bucket for each client address, shared by the workers. Outlives the plan.
pub struct ClientRate {
    bucket: Gcra,
    cells: Arc<Keyed<AtomicU64>>,
}

/// The key of the buckets in the state of the process.
#[derive(PartialEq, Eq, Hash)]
struct BucketsKey(String);

impl ClientRate {
    /// `name` identifies the buckets, also in the metrics of keyed state.
    pub fn new(rate: Rate, name: &str, worker: &WorkerContext) -> ClientRate {
        let table = || keyed_state::table(&worker.telemetry, name, ENTRIES);
        ClientRate {
            bucket: Gcra::new(rate, burst(rate)),
            cells: worker.shared.get(BucketsKey(name.to_owned()), table),
        }
    }

    /// True if the client may, which is counted.
    pub fn allows(&self, client: IpAddr) -> bool {
        let now_ns = net::clock::now_us() * 1000;
        let take = |cell: &AtomicU64| self.bucket.take(cell, 1, now_ns);
        let taken = match client {
            IpAddr::V4(address) => keyed_state::with(&self.cells, &address.octets(), take),
            IpAddr::V6(address) => keyed_state::with(&self.cells, &address.octets(), take),
        };
        matches!(taken, RateDecision::Allowed(_))
    }
}
