//! What a server's name stands for, asked again whenever the answer's time is up.

use std::sync::Arc;

use http_client::Destination;
use net::{NoAddress, Resolver};
use settings::{Address, Host};
use telemetry::log::Level;

use super::family::{Chosen, Family};
use crate::cluster::Cluster;

/// Keeps the addresses of one name.
pub(super) async fn keep(cluster: Arc<Cluster>, server: Address, names: Arc<Resolver>) {
    let Address::Tcp { host: Host::Name(host), port } = &server else { return };
    let mut family = Family::default();
    loop {
        let valid_for = match names.resolve(host, *port).await {
            Ok(answer) => {
                let Chosen { addresses, valid_for } = family.choose(answer.addresses).await;
                cluster.resolve(&server, addresses.into_iter().map(Destination::Tcp).collect());
                valid_for.min(answer.valid_for)
            }
            Err(error) => {
                telemetry::event_limited!(
                    1,
                    Level::Warn,
                    "an upstream's server cannot be resolved",
                    upstream = &*cluster.name,
                    why = error
                );
                // Silence of the name servers changes nothing; their word that there is no such
                // name does.
                if matches!(error.reason, NoAddress::Unknown | NoAddress::Malformed) {
                    cluster.resolve(&server, Vec::new());
                }
                cluster.settle(&server);
                error.valid_for
            }
        };
        tokio::time::sleep(valid_for).await;
    }
}
