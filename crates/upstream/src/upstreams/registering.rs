//! Registration of servers: what the admin API calls.

use std::sync::Arc;
use std::time::Duration;

use net::clock;
use settings::nearest;

use super::Upstreams;
use crate::cluster::Cluster;
use crate::discovered::read_entry;
use crate::registrations::{RegisteredServer, RegistrationError};
use crate::server_address::ServerProtocol;

/// An upstream whose servers register.
struct Registering {
    cluster: Arc<Cluster>,
    ttl: Duration,
    protocol: ServerProtocol,
}

impl Upstreams {
    fn registering(&self, upstream: &str) -> Result<Registering, RegistrationError> {
        let cluster = self.get(upstream).ok_or_else(|| {
            let all = self.all();
            let near = nearest(upstream, all.iter().map(|cluster| &*cluster.name));
            RegistrationError::NoUpstream { nearest: near.map(str::to_owned) }
        })?;
        let settings = cluster.snapshot().settings;
        let discover = settings.discover.as_ref().ok_or(RegistrationError::NotAccepted)?;
        let registration = discover.registration.as_ref().ok_or(RegistrationError::NotAccepted)?;
        let (ttl, protocol) = (registration.ttl.get(), discover.protocol);
        Ok(Registering { cluster, ttl, protocol })
    }

    /// Registers a server, or renews its registration: an address, or a JSON object with `address`
    /// and more, as under `servers`.
    pub fn register(
        &self,
        upstream: &str,
        server: &str,
    ) -> Result<RegisteredServer, RegistrationError> {
        let Registering { cluster, ttl, protocol } = self.registering(upstream)?;
        let server = read_entry(server.as_bytes(), protocol).map_err(RegistrationError::Invalid)?;
        let (address, weight, backup) = (server.address.to_string(), server.weight, server.backup);
        let is_new = cluster.registrations.put(server, clock::now().after(ttl))?;
        Ok(RegisteredServer { address, weight, backup, expires_in: ttl, is_new })
    }

    /// Ends the registration of the server at an address; false if there is none.
    pub fn deregister(&self, upstream: &str, address: &str) -> Result<bool, RegistrationError> {
        let Registering { cluster, protocol, .. } = self.registering(upstream)?;
        let server = read_entry(address.as_bytes(), protocol);
        let server = server.map_err(RegistrationError::Invalid)?;
        Ok(cluster.registrations.remove(&server.address))
    }

    /// The registered servers of an upstream, in the order of their addresses.
    pub fn registered(&self, upstream: &str) -> Result<Vec<RegisteredServer>, RegistrationError> {
        Ok(self.registering(upstream)?.cluster.registrations.list(clock::now()))
    }
}
