//! The state of upstreams for the admin API: a snapshot, taken on the control thread.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use http_client::{Pool, PoolState};
use net::clock;
use plugin::Shared;

use crate::cluster::{Cluster, DiscoveryStatus};
use crate::health_history::HealthChange;
use crate::member::{Member, ServerState};
use crate::settings::Balance;
use crate::upstreams::Upstreams;

/// One upstream.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamStatus {
    pub name: String,
    /// The name of the setting: `p2c`, `hash`.
    pub balance: &'static str,
    /// So few servers are healthy that all are used.
    pub panic: bool,
    pub servers: Vec<ServerStatus>,
    /// The source of servers, if there is one.
    pub discovery: Option<DiscoveryStatus>,
}

/// One address of a server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerStatus {
    /// The address in the configuration.
    pub server: String,
    /// The resolved address.
    pub address: String,
    pub weight: u32,
    /// Weight or draining were changed since the latest reload.
    pub changed: bool,
    pub backup: bool,
    pub state: ServerState,
    /// Failures in a row.
    pub failures: u32,
    /// Remaining time of the ejection.
    pub ejected_for_ms: u64,
    /// Moving average of the time to the head of a response; `None` before the first.
    pub latency_us: Option<u64>,
    /// Connections, and the requests on them.
    pub connections: PoolState,
    /// The last change of its health.
    pub last_change: Option<HealthChange>,
}

impl Upstreams {
    /// The state of every upstream of the current plan.
    pub fn status(&self, shared: &Shared, workers: usize) -> Vec<UpstreamStatus> {
        let now_ms = clock::precise_us() / 1000;
        self.all().iter().map(|cluster| of(cluster, shared, workers, now_ms)).collect()
    }

    /// A sentence for each source of servers that fails.
    pub fn problems(&self) -> Vec<String> {
        let failing = |cluster: &Arc<Cluster>| {
            let status = cluster.discovery_status()?;
            let DiscoveryStatus { source, servers, age_ms, error } = status;
            let age = age_ms.map_or_else(String::new, |ms| format!(" of {} s ago", ms / 1000));
            let name = &cluster.name;
            Some(format!("upstream {name}: {source}: {}; {servers} servers{age} in use", error?))
        };
        self.all().iter().filter_map(failing).collect()
    }
}

fn of(cluster: &Cluster, shared: &Shared, workers: usize, now_ms: u64) -> UpstreamStatus {
    let snapshot = cluster.snapshot();
    let status = |member: &Arc<Member>| {
        let health = &member.health;
        ServerStatus {
            server: member.server.to_string(),
            address: member.name.to_string(),
            weight: member.weight,
            changed: member.is_changed,
            backup: member.backup,
            state: member.state(now_ms),
            failures: health.failures.load(Relaxed),
            ejected_for_ms: health.ejected_until_ms.load(Relaxed).saturating_sub(now_ms),
            latency_us: health.latency_us(),
            connections: Pool::state(shared, &cluster.name, &member.endpoint, workers),
            last_change: health.history.last(),
        }
    };
    let mut servers: Vec<ServerStatus> = snapshot.members.list.iter().map(status).collect();
    let healthy = servers.iter().filter(|server| server.state == ServerState::Healthy).count();
    let is_serving = |server: &&ServerStatus| server.state != ServerState::Draining;
    let serving = servers.iter().filter(is_serving).count();
    UpstreamStatus {
        name: cluster.name.to_string(),
        balance: match snapshot.settings.balance {
            Balance::P2c => "p2c",
            Balance::RoundRobin => "round_robin",
            Balance::LeastRequests => "least_requests",
            Balance::Random => "random",
            Balance::Hash(_) => "hash",
        },
        panic: snapshot.settings.is_panic(healthy, serving),
        servers: {
            let leaving = cluster.leaving();
            let busy = leaving.iter().map(status).filter(|server| server.connections.active > 0);
            servers
                .extend(busy.map(|server| ServerStatus { state: ServerState::Removed, ..server }));
            servers
        },
        discovery: cluster.discovery_status(),
    }
}
