//! All upstreams of the process, by name.
//!
//! `server` applies the upstreams of every new plan here before its workers build their handlers;
//! handlers find their cluster by name; the control thread ([`crate::control`]) runs checks and
//! resolves names for the clusters that are here. A cluster that the new plan does not name lives
//! until the last handler of an old plan is gone.

mod registering;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use plugin::Shared;
use telemetry::Telemetry;
use telemetry::log::Level;
use tokio::sync::Notify;

use crate::cluster::Cluster;
use crate::health_history::HealthChange;
use crate::member::ServerChange;
use crate::upstream_plan::UpstreamPlan;

/// The registry of upstreams. The process has one, in its [`Shared`] state.
#[derive(Default)]
pub struct Upstreams {
    clusters: Mutex<BTreeMap<String, Arc<Cluster>>>,
    /// The set of clusters has changed: for the control thread.
    pub(crate) changed: Notify,
}

impl Upstreams {
    /// The registry of the process. [`Shared`] holds a weak reference; the server holds a strong
    /// one until it ends.
    pub fn of(shared: &Shared) -> Arc<Upstreams> {
        shared.get((), Upstreams::default)
    }

    fn clusters(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Cluster>>> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies the upstreams of a plan, by name. To be called before the workers build their
    /// handlers.
    pub fn apply<'a>(
        &self,
        upstreams: impl IntoIterator<Item = (&'a str, &'a UpstreamPlan)>,
        telemetry: &Arc<Telemetry>,
    ) {
        let mut clusters = self.clusters();
        let mut kept = BTreeMap::new();
        for (name, plan) in upstreams {
            if plan.is_unverified() {
                let message = "tls.verify is false: certificates of an upstream are not verified";
                telemetry::event!(Level::Warn, message, upstream = name);
            }
            let cluster = match clusters.remove(name) {
                Some(cluster) => {
                    cluster.apply(plan);
                    cluster
                }
                None => Arc::new(Cluster::new(name, plan.clone(), telemetry.clone())),
            };
            kept.insert(name.to_owned(), cluster);
        }
        *clusters = kept;
        self.changed.notify_one();
    }

    /// Waits until every server name has been resolved once, at most `within`. A start does so
    /// after [`Upstreams::apply`], so that the first request finds a server.
    pub async fn wait_resolved(&self, within: Duration) {
        let settling = async {
            for cluster in self.all() {
                cluster.wait_resolved().await;
            }
        };
        // A name that takes longer adds its servers when it is resolved.
        let _ = net::timer::within(within, settling).await;
    }

    /// Changes a server of an upstream until the next [`Upstreams::apply`]: `server` is its
    /// address, or its entry in `servers`, which means all addresses of a name. Returns false if
    /// there is no such server.
    pub fn change_server(&self, upstream: &str, server: &str, change: ServerChange) -> bool {
        let now_ms = net::clock::precise_us() / 1000;
        let cluster = self.get(upstream);
        cluster.is_some_and(|cluster| cluster.change_server(server, change, now_ms))
    }

    /// The last changes of the health of an upstream's servers, and the address of each, the latest
    /// first; `None` if there is no such upstream.
    pub fn health_changes(&self, upstream: &str) -> Option<Vec<(Arc<str>, HealthChange)>> {
        Some(self.get(upstream)?.health_changes())
    }

    /// The cluster of that name in the latest plan.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Cluster>> {
        self.clusters().get(name).cloned()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Cluster>> {
        self.clusters().values().cloned().collect()
    }
}
