//! One server of a cluster: what it is, and how it is doing.
//!
//! Its standing is shared by all workers and outlives Plans. Reading it is a few relaxed loads;
//! every change that matters to balancing is made through the cluster, which tells the workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use exchange::client::Destination;

/// What the configuration says of a server, for one of its addresses.
#[derive(Debug)]
pub(crate) struct Member {
    /// As it stands under `servers`.
    pub(crate) server: Arc<str>,
    pub(crate) destination: Destination,
    /// The destination as text: its name in logs, metrics and Proxy-Status.
    pub(crate) name: Arc<str>,
    pub(crate) weight: u32,
    pub(crate) backup: bool,
    pub(crate) max_connections: Option<u32>,
    pub(crate) max_slow_clients: Option<u32>,
    pub(crate) standing: Arc<Standing>,
}

/// How a server is doing. Times are milliseconds of the process's clock; 0 is never.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// Active checks say that it is not well.
    pub(crate) unhealthy: AtomicBool,
    /// Failures in a row, seen by any worker.
    pub(crate) failures: AtomicU32,
    /// Out of rotation until then, for its failures. After that time one request may try it.
    pub(crate) ejected_until_ms: AtomicU64,
    /// Ejections in a row.
    pub(crate) ejections: AtomicU32,
    /// The one request that tries it is under way.
    pub(crate) on_trial: AtomicBool,
    /// When it came back: its slow start begins there.
    pub(crate) returned_ms: AtomicU64,
}

/// Whether a server may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// In rotation.
    Healthy,
    /// Active checks failed.
    Unhealthy,
    /// Out for its failures.
    Ejected,
    /// Its time out is over; one request will show.
    Trial,
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            State::Healthy => "healthy",
            State::Unhealthy => "unhealthy",
            State::Ejected => "ejected",
            State::Trial => "trial",
        }
    }
}

impl Standing {
    pub(crate) fn state(&self, now_ms: u64) -> State {
        if self.unhealthy.load(Relaxed) {
            return State::Unhealthy;
        }
        match self.ejected_until_ms.load(Relaxed) {
            0 => State::Healthy,
            until_ms if until_ms <= now_ms => State::Trial,
            _ => State::Ejected,
        }
    }

    /// Whether it is out for its failures, or on trial after that.
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
