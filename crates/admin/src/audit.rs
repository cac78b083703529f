//! The log of changes: one event for each request that changes something, with its client.
//!
//! Promises an event also if the client disconnects before the response, because the change may
//! have been made.

use crate::access::{Caller, CallerKind};
use crate::endpoints::{Action, Endpoint};
use message::Request;
use std::net::IpAddr;
use telemetry::event;
use telemetry::log::Level;

/// A change that is being made; logged when dropped.
pub(crate) struct ChangeRecord {
    by: String,
    role: &'static str,
    kind: &'static str,
    /// The address of the client; none on the Unix socket.
    client: Option<IpAddr>,
    /// The request without its query, which may have keys of clients in it.
    request: String,
    action: Action,
    status: Option<u16>,
}

impl ChangeRecord {
    /// The record of a request; `None` if it changes nothing.
    pub(crate) fn of(endpoint: &Endpoint, caller: &Caller, request: &Request) -> Option<Self> {
        endpoint.is_change().then(|| Self {
            by: caller.name.clone(),
            role: caller.role.slug(),
            kind: caller.by.slug(),
            client: match caller.by {
                CallerKind::Socket => None,
                _ => Some(request.client_ip),
            },
            request: format!("{} {}", endpoint.method, request.target.path()),
            action: endpoint.action,
            status: None,
        })
    }

    /// Notes the status of the response, and logs the change.
    pub(crate) fn finish(mut self, status: u16) {
        self.status = Some(status);
    }
}

impl Drop for ChangeRecord {
    fn drop(&mut self) {
        // A heartbeat is a registration that is repeated every few seconds.
        if self.action == Action::RegisterServer && self.status == Some(200) {
            return;
        }
        event!(
            Level::Info,
            "change over the admin API",
            event = "admin_change",
            by = self.by,
            role = self.role,
            with = self.kind,
            client = self.client.map_or_else(|| "local".to_owned(), |client| client.to_string()),
            request = self.request,
            status = self.status.map_or_else(|| "none".to_owned(), |status| status.to_string())
        );
    }
}
