//! Resolves a server's name, again whenever the TTL of its addresses ends.

use std::sync::Arc;

use http_client::Destination;
use net::clock::{self, Moment};
use net::{NoAddress, Resolver};
use settings::{Address, Host};
use telemetry::log::Level;

use super::family::{Chosen, Family};
use crate::cluster::Cluster;

/// Updates the addresses of one name until it is dropped.
pub(super) async fn keep(cluster: Arc<Cluster>, server: Address, names: Arc<Resolver>) {
    let Address::Tcp { host: Host::Name(host), port } = &server else { return };
    let mut family = Family::default();
    let mut resolved_at: Option<Moment> = None;
    loop {
        let valid_for = match names.resolve(host, *port).await {
            Ok(resolved) => {
                let Chosen { addresses, valid_for } = family.choose(resolved.addresses).await;
                resolved_at = Some(clock::now());
                cluster.resolve(&server, addresses.into_iter().map(Destination::Tcp).collect());
                valid_for.min(resolved.valid_for)
            }
            Err(error) => {
                telemetry::event_limited!(
                    1,
                    Level::Warn,
                    "an upstream's server cannot be resolved",
                    upstream = &*cluster.name,
                    why = error
                );
                // A failure to reach the name servers changes nothing; their response that the name
                // does not exist does.
                if matches!(error.reason, NoAddress::Unknown | NoAddress::Malformed) {
                    cluster.name_unknown(&server, resolved_at);
                }
                cluster.mark_resolved(&server);
                error.valid_for
            }
        };
        net::timer::sleep(valid_for).await;
    }
}
