//! One server of a cluster: its configuration and its health.
//!
//! Its health is shared by all workers and outlives plans. Reading it is a few relaxed loads;
//! changes that matter to balancing are made through the cluster, which notifies the workers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use http_client::Endpoint;

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
    pub(crate) weight: u32,
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
}

/// The state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// In rotation.
    Healthy,
    /// Active checks failed.
    Unhealthy,
    /// Ejected after failures.
    Ejected,
    /// The ejection has ended; one trial request decides.
    Trial,
}

impl ServerState {
    pub fn as_str(self) -> &'static str {
        match self {
            ServerState::Healthy => "healthy",
            ServerState::Unhealthy => "unhealthy",
            ServerState::Ejected => "ejected",
            ServerState::Trial => "trial",
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
