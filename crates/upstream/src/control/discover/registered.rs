//! Servers that have registered themselves, until their heartbeats stop.

use std::sync::Arc;
use std::time::Duration;

use net::{clock, timer};
use telemetry::event;
use telemetry::log::Level;

use crate::cluster::Cluster;
use crate::discovered::DiscoveredServers;

pub(super) async fn keep(cluster: &Arc<Cluster>) {
    loop {
        let now = clock::now();
        let (servers, expired, next) = cluster.registrations.current(now);
        if expired > 0 {
            event!(
                Level::Warn,
                "registered servers have sent no heartbeat",
                upstream = &*cluster.name,
                servers = expired
            );
        }
        cluster.discovered(DiscoveredServers { servers, rejected: Vec::new() });
        let wait = next.map_or(Duration::from_secs(3600), |next| next.since(now));
        timer::within(wait, cluster.registrations.changed.notified()).await;
    }
}
