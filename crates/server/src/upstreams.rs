//! The upstreams of the process, for the control thread: background tasks and status.

use std::collections::BTreeMap;
use std::sync::Arc;

use admin::{BreakerStatus, ServerStatus, UpstreamStatus};
use net::task::JoinHandle;
use plugin::Shared;
use upstream::{ServerState, Upstreams};

/// Health checks, discovery and name resolution; dropping it stops them.
pub(crate) struct UpstreamTasks(JoinHandle<()>);

impl UpstreamTasks {
    pub(crate) fn start(upstreams: &Arc<Upstreams>) -> UpstreamTasks {
        let names = Arc::new(net::Resolver::system());
        let upkeep = upstream::control::run(upstreams.clone(), names);
        UpstreamTasks(net::task::spawn_local(upkeep))
    }
}

impl Drop for UpstreamTasks {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns the status of every upstream in the format of the admin API; `breakers` are those of
/// each upstream by its name.
pub(crate) fn status(
    upstreams: &Upstreams,
    shared: &Shared,
    workers: usize,
    mut breakers: BTreeMap<String, Vec<BreakerStatus>>,
) -> Vec<UpstreamStatus> {
    upstreams
        .status(shared, workers)
        .into_iter()
        .map(|upstream| UpstreamStatus {
            breakers: breakers.remove(&upstream.name).unwrap_or_default(),
            name: upstream.name,
            balance: upstream.balance.to_owned(),
            panic: upstream.panic,
            servers: upstream.servers.into_iter().map(server).collect(),
            discovery: upstream.discovery,
        })
        .collect()
}

fn server(server: upstream::ServerStatus) -> ServerStatus {
    let connections = &server.connections;
    // A gauge summed over workers may be read between two of their updates.
    let count = |gauge: i64| u64::try_from(gauge).unwrap_or_default();
    let last_error =
        (server.failures > 0).then(|| format!("{} failures in a row", server.failures));
    ServerStatus {
        server: server.server,
        address: server.address,
        weight: server.weight,
        changed: server.changed,
        backup: server.backup,
        healthy: server.state == ServerState::Healthy,
        state: server.state.as_str().to_owned(),
        in_flight: count(connections.active),
        connections: count(connections.active - connections.streams + connections.idle)
            + count(connections.shared)
            + connections.parked as u64,
        latency_us: server.latency_us,
        last_error,
        ejected_for_ms: server.ejected_for_ms,
        last_change: server.last_change,
    }
}
