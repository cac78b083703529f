//! One server of a cluster: its configuration and its health.
//!
//! Its health is shared by all workers and outlives plans. Reading it is a few relaxed loads;
//! changes that matter to balancing are made through the cluster, which notifies the workers.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use http_client::Endpoint;
use telemetry::{CachePadded, Gauge};

use crate::health_history::HealthHistory;
pub use crate::server_state::ServerState;

/// The configuration of a server, for one of its addresses.
#[derive(Debug)]
pub(crate) struct Member {
    /// The address as written under `servers`.
    pub(crate) server: Arc<str>,
    /// Its value of `Host`.
    pub(crate) authority: Arc<str>,
    pub(crate) endpoint: Endpoint,
    /// The destination as text: its name in logs, metrics and Proxy-Status.
    pub(crate) name: Arc<str>,
    /// The hash of its name, the same on every server that has this member.
    pub(crate) place: u64,
    pub(crate) weight: u32,
    /// It gets no further requests, until the next reload.
    pub(crate) is_draining: bool,
    /// Weight or draining differ from the configuration.
    pub(crate) is_changed: bool,
    pub(crate) backup: bool,
    pub(crate) max_connections: Option<u32>,
    pub(crate) max_slow_clients: Option<u32>,
    pub(crate) health: Arc<ServerHealth>,
}

/// The health of a server. Times are milliseconds of the process's clock; 0 is never.
#[derive(Debug, Default)]
pub(crate) struct ServerHealth {
    /// Active checks fail.
    pub(crate) unhealthy: AtomicBool,
    /// Failures in a row, seen by any worker.
    pub(crate) failures: AtomicU32,
    /// Ejected until this time. After it one request may try the server.
    pub(crate) ejected_until_ms: AtomicU64,
    /// Ejections in a row.
    pub(crate) ejections: AtomicU32,
    /// The trial request is in flight.
    pub(crate) on_trial: AtomicBool,
    /// When it returned to rotation: its slow start begins here.
    pub(crate) returned_ms: AtomicU64,
    /// It has turned out to be this server.
    pub(crate) is_own: AtomicBool,
    pub(crate) history: HealthHistory,
    /// The average latency that each worker has measured, in microseconds; 0 is unknown.
    latencies: Mutex<Vec<Weak<CachePadded<Gauge>>>>,
}

/// What an operator changes about a server until the next reload; `None` leaves it as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerChange {
    /// True if it gets no further requests.
    pub drain: Option<bool>,
    pub weight: Option<u32>,
}

impl ServerChange {
    /// This change after an earlier one.
    pub(crate) fn after(self, earlier: ServerChange) -> ServerChange {
        ServerChange { drain: self.drain.or(earlier.drain), weight: self.weight.or(earlier.weight) }
    }
}

impl Member {
    pub(crate) fn state(&self, now_ms: u64) -> ServerState {
        match self.is_draining {
            true => ServerState::Draining,
            false => self.health.state(now_ms),
        }
    }
}

impl ServerHealth {
    pub(crate) fn state(&self, now_ms: u64) -> ServerState {
        if self.unhealthy.load(Relaxed) {
            return ServerState::Unhealthy;
        }
        match self.ejected_until_ms.load(Relaxed) {
            0 => ServerState::Healthy,
            until_ms if until_ms <= now_ms => ServerState::Trial,
            _ => ServerState::Ejected,
        }
    }

    /// Returns the cell for the average latency that one more worker measures.
    pub(crate) fn add_latency(&self) -> Arc<CachePadded<Gauge>> {
        let latency = Arc::default();
        let mut latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        latencies.retain(|each| each.strong_count() > 0);
        latencies.push(Arc::downgrade(&latency));
        latency
    }

    /// The mean of what the workers have measured.
    pub(crate) fn latency_us(&self) -> Option<u64> {
        let latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        let known = latencies.iter().filter_map(Weak::upgrade).map(|latency| latency.get());
        let (sum, count) = known
            .filter(|latency| *latency > 0)
            .fold((0_u64, 0_u64), |(sum, count), us| (sum + us.unsigned_abs(), count + 1));
        sum.checked_div(count)
    }

    /// True if it is ejected or on trial.
    pub(crate) fn is_ejected(&self) -> bool {
        self.ejected_until_ms.load(Relaxed) != 0
    }

    /// Claims the one request that may try an ejected server.
    pub(crate) fn claim_trial(&self) -> bool {
        self.on_trial.compare_exchange(false, true, Relaxed, Relaxed).is_ok()
    }

    pub(crate) fn release_trial(&self) {
        self.on_trial.store(false, Relaxed);
    }
}
