//! Servers that register themselves and renew their registration by a heartbeat.
//!
//! Promises that the number of servers is bounded, that a server without a heartbeat is removed
//! after the `ttl` of its upstream, and that registrations outlive plans. They do not outlive the
//! process: the next heartbeat restores them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use net::clock::Moment;
use tokio::sync::Notify;

use crate::limits::DISCOVERED_SERVERS;
use crate::server_address::ServerAddress;
use crate::settings::ServerSettings;

/// The registered servers of an upstream.
#[derive(Default)]
pub(crate) struct Registrations {
    entries: Mutex<BTreeMap<ServerAddress, Registration>>,
    /// For the task that removes servers without a heartbeat.
    pub(crate) changed: Notify,
}

struct Registration {
    server: ServerSettings,
    until: Moment,
}

/// A registered server.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisteredServer {
    pub address: String,
    pub weight: u32,
    pub backup: bool,
    /// The time until it is removed, unless it registers again.
    pub expires_in: Duration,
    /// True if it was not registered before.
    pub is_new: bool,
}

/// Why a server is not registered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RegistrationError {
    /// There is no such upstream; perhaps this one is meant.
    NoUpstream { nearest: Option<String> },
    /// The upstream has no `discover: { registration: … }`.
    NotAccepted,
    /// The sentence says what is wrong with the server.
    Invalid(String),
    /// There is no room for another server.
    TooMany,
}

impl Registrations {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<ServerAddress, Registration>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes all servers.
    pub(crate) fn clear(&self) {
        self.entries().clear();
    }

    /// Removes servers without a heartbeat; returns the others, how many were removed, and when the
    /// next one is due.
    pub(crate) fn current(&self, now: Moment) -> (Vec<ServerSettings>, usize, Option<Moment>) {
        let mut entries = self.entries();
        let before = entries.len();
        entries.retain(|_, registration| registration.until > now);
        let next = entries.values().map(|registration| registration.until).min();
        let servers = entries.values().map(|registration| registration.server.clone()).collect();
        (servers, before - entries.len(), next)
    }

    /// Adds a server or renews its registration; true if it is a new one.
    pub(crate) fn put(
        &self,
        server: ServerSettings,
        until: Moment,
    ) -> Result<bool, RegistrationError> {
        let mut entries = self.entries();
        let known = entries.get(&server.address);
        let is_new = known.is_none();
        if is_new && entries.len() >= DISCOVERED_SERVERS {
            return Err(RegistrationError::TooMany);
        }
        let has_changed = known.is_none_or(|known| known.server != server);
        entries.insert(server.address.clone(), Registration { server, until });
        drop(entries);
        if has_changed {
            self.changed.notify_one();
        }
        Ok(is_new)
    }

    /// Removes a server; false if it is not registered.
    pub(crate) fn remove(&self, address: &ServerAddress) -> bool {
        let is_removed = self.entries().remove(address).is_some();
        if is_removed {
            self.changed.notify_one();
        }
        is_removed
    }

    /// The servers, in the order of their addresses.
    pub(crate) fn list(&self, now: Moment) -> Vec<RegisteredServer> {
        let show = |registration: &Registration| RegisteredServer {
            address: registration.server.address.to_string(),
            weight: registration.server.weight,
            backup: registration.server.backup,
            expires_in: registration.until.since(now),
            is_new: false,
        };
        self.entries().values().map(show).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::discovered::read_entry;
    use crate::server_address::ServerProtocol;

    fn server(address: &str) -> ServerSettings {
        read_entry(address.as_bytes(), ServerProtocol::Http).unwrap()
    }

    #[test]
    fn a_server_without_a_heartbeat_is_removed() {
        let registrations = Registrations::default();
        let at = |seconds| Moment::from_ms(0).after(Duration::from_secs(seconds));
        assert_eq!(registrations.put(server("a:1"), at(30)), Ok(true));
        assert_eq!(registrations.put(server("b:1"), at(40)), Ok(true));
        assert_eq!(registrations.put(server("a:1"), at(60)), Ok(false), "a heartbeat");
        let (servers, expired, next) = registrations.current(at(40));
        assert_eq!((servers, expired, next), (vec![server("a:1")], 1, Some(at(60))));
        assert_eq!(registrations.list(at(50))[0].expires_in, Duration::from_secs(10));
        assert!(registrations.remove(&server("a:1").address));
        assert!(!registrations.remove(&server("a:1").address));
        assert_eq!(registrations.current(at(40)), (Vec::new(), 0, None));
    }

    #[test]
    fn the_number_of_servers_is_bounded() {
        let registrations = Registrations::default();
        let until = Moment::NEVER;
        for port in 1..=DISCOVERED_SERVERS {
            assert_eq!(registrations.put(server(&format!("a:{port}")), until), Ok(true));
        }
        assert_eq!(registrations.put(server("b:1"), until), Err(RegistrationError::TooMany));
        assert_eq!(registrations.put(server("a:1"), until), Ok(false), "a heartbeat is accepted");
    }
}
