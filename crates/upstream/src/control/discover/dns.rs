//! Servers from DNS: SRV records, or the addresses of a host, by their TTL.

use std::sync::Arc;
use std::time::Duration;

use net::{NameError, NoAddress, Resolver};

use crate::cluster::Cluster;
use crate::control::family::Family;
use crate::discover_settings::DnsName;
use crate::discovered::{DiscoveredServers, of_addresses, read_services};
use crate::server_address::ServerProtocol;

pub(super) async fn keep(
    cluster: &Arc<Cluster>,
    name: &DnsName,
    protocol: ServerProtocol,
    names: &Resolver,
) {
    let mut family = Family::default();
    loop {
        let (found, valid_for) = match resolve(name, protocol, names, &mut family).await {
            Ok((found, valid_for)) => (found, valid_for),
            // The name servers respond that there are no such records.
            Err(error) if error.reason == NoAddress::Unknown => {
                (Ok(DiscoveredServers::default()), error.valid_for)
            }
            Err(error) => {
                let valid_for = error.valid_for;
                (Err(error.to_string()), valid_for)
            }
        };
        match found {
            Ok(found) => cluster.discovered(found),
            Err(why) => cluster.discovery_failed(&why),
        }
        net::timer::sleep(valid_for).await;
    }
}

type Resolved = (Result<DiscoveredServers, String>, Duration);

async fn resolve(
    name: &DnsName,
    protocol: ServerProtocol,
    names: &Resolver,
    family: &mut Family,
) -> Result<Resolved, NameError> {
    match name {
        DnsName::Service(name) => {
            let services = names.services(name).await?;
            Ok((read_services(&services.records, protocol), services.valid_for))
        }
        DnsName::Host { host, port } => {
            let resolved = names.resolve(host, *port).await?;
            let chosen = family.choose(resolved.addresses).await;
            let valid_for = chosen.valid_for.min(resolved.valid_for);
            Ok((of_addresses(chosen.addresses, protocol), valid_for))
        }
    }
}
