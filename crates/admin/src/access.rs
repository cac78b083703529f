//! Access control: which clients may use which endpoints.
//!
//! The Unix socket is protected by the permissions of its file. Over TCP a bearer token (RFC 6750)
//! is required; without a configured token only the open endpoints are served. The token is
//! compared in constant time and appears in no response and no log.

use crate::endpoints::Guard;
use crate::limits::REFUSALS_LOGGED_PER_SECOND;
use crate::problem::Problem;
use message::Request;
use net::Peer;
use settings::Secret;
use std::net::IpAddr;
use subtle::ConstantTimeEq;
use telemetry::event_limited;
use telemetry::log::Level;
use wire::Known;
use wire::authorization::bearer;

/// The locks of the admin API.
#[derive(Debug, Clone)]
pub struct Access {
    /// The bearer token; without one only the Unix socket is served.
    pub token: Option<Secret>,
    /// True if `/metrics` needs no token.
    pub metrics_open: bool,
    /// Names that `Host` may say besides IP addresses and names without a dot.
    pub hosts: Vec<String>,
    /// True if secrets of the configuration are shown over TCP on request.
    pub config_secrets: bool,
}

impl Access {
    /// Allows a request, or returns the reason for its rejection.
    pub(crate) fn check(&self, guard: Guard, request: &Request) -> Result<(), Problem> {
        let open = match guard {
            Guard::Open => true,
            Guard::Metrics => self.metrics_open,
            Guard::Token => false,
        };
        if matches!(request.facts.peer, Peer::Unix) {
            return Ok(());
        }
        if open {
            return self.check_host(request);
        }
        let Some(token) = &self.token else {
            return Err(Problem::new(403, "no admin token is configured").advice(
                "set `admin.token`, or use the Unix socket of the admin API on this machine",
            ));
        };
        let Some(given) = request.headers.get(Known::Authorization) else {
            return Err(unauthorized("this needs `Authorization: Bearer TOKEN`", "Bearer"));
        };
        let right = bearer(given).is_some_and(|given| bool::from(given.ct_eq(token.expose())));
        if right {
            return Ok(());
        }
        event_limited!(
            REFUSALS_LOGGED_PER_SECOND,
            Level::Warn,
            "admin token refused",
            client = request.client_ip
        );
        // RFC 6750 section 3.1
        Err(unauthorized("this is not the admin token", "Bearer error=\"invalid_token\""))
    }
}

impl Access {
    /// Refuses names that a page of a foreign site may have had resolved to our address (DNS
    /// rebinding): a browser asks for them as its own. No public name is without a dot, and what
    /// needs the token needs no more than that.
    fn check_host(&self, request: &Request) -> Result<(), Problem> {
        let host = String::from_utf8_lossy(request.host());
        let host = host.strip_suffix('.').unwrap_or(&host);
        let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_address = literal.unwrap_or(host).parse::<IpAddr>().is_ok();
        let is_listed = || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host));
        if is_address || !host.contains('.') || is_listed() {
            return Ok(());
        }
        Err(Problem::new(421, format!("the admin API is not called \"{host}\""))
            .advice("use its IP address, or list the name in `admin.hosts`"))
    }

    /// Allows secrets of the configuration to be shown, or returns the reason for the rejection.
    pub(crate) fn check_secrets(&self, request: &Request) -> Result<(), Problem> {
        if self.config_secrets || matches!(request.facts.peer, Peer::Unix) {
            return Ok(());
        }
        Err(Problem::new(403, "secrets are not shown over TCP")
            .advice("use the Unix socket of the admin API, or set `admin.config_secrets: true`"))
    }
}

fn unauthorized(detail: &str, challenge: &'static str) -> Problem {
    Problem::new(401, detail).field(Known::WwwAuthenticate, challenge)
}
