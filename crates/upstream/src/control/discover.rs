//! Follows the source of an upstream's servers, one task for each upstream.
//!
//! Promises that a source that fails is tried again with growing pauses and changes nothing; that
//! every request has a time-out and every response a bound; and that no worker waits.

mod consul;
mod dns;
mod etcd_keys;
mod http_poll;
mod registered;
mod source_client;
mod watched_file;

use std::sync::Arc;

use net::Resolver;

use crate::cluster::Cluster;
use crate::discover_settings::DiscoverSource;
use crate::upstream_plan::DiscoverPlan;

/// Follows the source until it is dropped.
pub(super) async fn keep(cluster: Arc<Cluster>, plan: Arc<DiscoverPlan>, names: Arc<Resolver>) {
    let protocol = plan.settings.protocol;
    match plan.settings.source() {
        Some(DiscoverSource::Dns(name)) => dns::keep(&cluster, name, protocol, &names).await,
        Some(DiscoverSource::Etcd(etcd)) => etcd_keys::keep(&cluster, etcd, &plan).await,
        Some(DiscoverSource::Consul(consul)) => {
            consul::keep(&cluster, consul, &plan, &names).await;
        }
        Some(DiscoverSource::File(file)) => watched_file::keep(&cluster, file, protocol).await,
        Some(DiscoverSource::Http(http)) => http_poll::keep(&cluster, http, &plan, &names).await,
        Some(DiscoverSource::Registration) => registered::keep(&cluster).await,
        // Checked settings have a source.
        None => {}
    }
}
