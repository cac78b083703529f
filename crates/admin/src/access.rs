//! Access control: which clients may use which endpoints.
//!
//! The Unix socket is protected by the permissions of its file. Over TCP a bearer token (RFC 6750)
//! or a session of the console is required; without a configured token only the open endpoints are
//! served. Each token has a role, which each endpoint names. Tokens are compared in constant time
//! and appear in no response and no log.

use crate::endpoints::Guard;
use crate::limits::REFUSALS_LOGGED_PER_SECOND;
use crate::problem::Problem;
use crate::sessions::{Session, Sessions};
use config::{AdminRole, AdminToken};
use message::Request;
use net::Peer;
use settings::{Secret, quote};
use std::net::IpAddr;
use std::rc::Rc;
use subtle::ConstantTimeEq;
use telemetry::event_limited;
use telemetry::log::Level;
use wire::Known;
use wire::authorization::bearer;

/// The locks of the admin API.
#[derive(Debug, Clone)]
pub struct Access {
    /// The bearer tokens; without one only the Unix socket is served.
    pub tokens: Vec<AdminToken>,
    /// True if `/metrics` needs no token.
    pub metrics_open: bool,
    /// Names that `Host` may say besides IP addresses and names without a dot.
    pub hosts: Vec<String>,
    /// True if secrets of the configuration are shown over TCP on request.
    pub config_secrets: bool,
    /// True if the console is served, and logs clients in.
    pub console: bool,
    /// The sessions of the console; they outlive a reload.
    pub sessions: Rc<Sessions>,
}

/// The client of a request.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// The name of its token.
    pub(crate) name: String,
    pub(crate) role: AdminRole,
    pub(crate) by: CallerKind,
}

/// How a client was recognized.
#[derive(Debug, Clone)]
pub(crate) enum CallerKind {
    /// An endpoint that needs no token.
    Open,
    Socket,
    Token(Secret),
    Session(Rc<Session>),
}

impl CallerKind {
    pub(crate) const fn slug(&self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Socket => "socket",
            Self::Token(_) => "token",
            Self::Session(_) => "session",
        }
    }
}

impl Caller {
    fn of(token: &AdminToken, by: CallerKind) -> Self {
        Self { name: token.name.clone(), role: token.role, by }
    }

    /// Whether the current tokens still allow what an endpoint with this guard does. A response
    /// that does not end asks again: its token may be gone, or have another role.
    pub(crate) fn is_still_allowed(&self, guard: Guard, sessions: &Sessions) -> bool {
        match &self.by {
            CallerKind::Open | CallerKind::Socket => true,
            CallerKind::Token(secret) => {
                let role = sessions
                    .role_of(|token| bool::from(token.secret.expose().ct_eq(secret.expose())));
                role.is_some_and(|role| opens(role, guard))
            }
            CallerKind::Session(session) => {
                let role = sessions.role_of(|token| session.is_of(&token.secret));
                !session.is_over(net::clock::now()) && role.is_some_and(|role| opens(role, guard))
            }
        }
    }

    /// The session of the console, if the request belongs to one.
    pub(crate) fn session(&self) -> Option<&Rc<Session>> {
        match &self.by {
            CallerKind::Session(session) => Some(session),
            _ => None,
        }
    }
}

/// Whether a role opens a guarded endpoint.
const fn opens(role: AdminRole, guard: Guard) -> bool {
    match (guard, role) {
        (Guard::Open | Guard::Any, _) | (_, AdminRole::All) => true,
        (Guard::Read | Guard::Metrics, AdminRole::Read | AdminRole::Write)
        | (Guard::Caches, _)
        | (Guard::Purge, AdminRole::Purge | AdminRole::Write)
        | (Guard::Write, AdminRole::Write) => true,
        (Guard::Read | Guard::Metrics, AdminRole::Purge)
        | (Guard::Purge, AdminRole::Read)
        | (Guard::Write, AdminRole::Read | AdminRole::Purge)
        | (Guard::All, _) => false,
    }
}

impl Access {
    /// Allows a request and returns its client, or the reason for its rejection.
    pub(crate) fn check(&self, guard: Guard, request: &Request) -> Result<Caller, Problem> {
        let trusted = |name: &str, by| Caller { name: name.to_owned(), role: AdminRole::All, by };
        if matches!(request.facts.peer, Peer::Unix) {
            return Ok(trusted("socket", CallerKind::Socket));
        }
        if guard == Guard::Open || guard == Guard::Metrics && self.metrics_open {
            self.check_host(request)?;
            return Ok(trusted("", CallerKind::Open));
        }
        let caller = self.recognize(request)?;
        if opens(caller.role, guard) {
            return Ok(caller);
        }
        event_limited!(
            REFUSALS_LOGGED_PER_SECOND,
            Level::Warn,
            "the role of an admin token does not suffice",
            event = "admin_role_refused",
            by = caller.name,
            role = caller.role.slug(),
            client = request.client_ip,
            path = request.target.path()
        );
        let role = caller.role.slug();
        Err(Problem::new(403, format!("the role \"{role}\" may not do this"))
            .advice("this needs a token of another role, see `admin.tokens`"))
    }

    fn recognize(&self, request: &Request) -> Result<Caller, Problem> {
        self.check_configured()?;
        if let Some(given) = request.headers.get(Known::Authorization) {
            let token = bearer(given).and_then(|given| self.token(given));
            return match token {
                Some(token) => Ok(Caller::of(token, CallerKind::Token(token.secret.clone()))),
                // RFC 6750 section 3.1
                None => Err(refused(request, "Bearer error=\"invalid_token\"")),
            };
        }
        let Some(session) = self.sessions.of(request)? else {
            return Err(Problem::unauthorized(
                "this needs `Authorization: Bearer TOKEN`",
                "Bearer",
            ));
        };
        self.check_host(request)?;
        // A reload may have removed the token, or given it another role.
        let token = self.tokens.iter().find(|token| session.is_of(&token.secret));
        let token = token.ok_or_else(|| {
            session.close();
            Problem::unauthorized("the token of this session is not configured any more", "Bearer")
        })?;
        Ok(Caller::of(token, CallerKind::Session(session)))
    }

    fn check_configured(&self) -> Result<(), Problem> {
        if !self.tokens.is_empty() {
            return Ok(());
        }
        Err(Problem::new(403, "no admin token is configured")
            .advice("set `admin.token`, or use the Unix socket of the admin API on this machine"))
    }

    /// The configured token with this content. Each one is compared, so that the time does not
    /// depend on which one is equal.
    fn token(&self, given: &[u8]) -> Option<&AdminToken> {
        let is_equal = |token: &AdminToken| bool::from(given.ct_eq(token.secret.expose()));
        self.tokens.iter().fold(None, |found, token| match is_equal(token) {
            true => Some(token),
            false => found,
        })
    }

    /// The token that a login names, or the reason why there is no session with it.
    pub(crate) fn log_in(&self, given: &[u8], request: &Request) -> Result<&AdminToken, Problem> {
        self.check_configured()?;
        self.token(given).ok_or_else(|| refused(request, "Bearer error=\"invalid_token\""))
    }

    /// Refuses names that a page of a foreign site may have had resolved to our address (DNS
    /// rebinding): a browser asks for them as its own. No public name is without a dot, and what
    /// needs a bearer token needs no more than that.
    fn check_host(&self, request: &Request) -> Result<(), Problem> {
        let host = String::from_utf8_lossy(request.host());
        let host = host.strip_suffix('.').unwrap_or(&host);
        let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_address = literal.unwrap_or(host).parse::<IpAddr>().is_ok();
        let is_listed = || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(host));
        if is_address || !host.contains('.') || is_listed() {
            return Ok(());
        }
        Err(Problem::new(421, format!("the admin API is not called {}", quote(host)))
            .advice("use its IP address, or list the name in `admin.hosts`"))
    }

    /// Allows secrets of the configuration to be shown, or returns the reason for the rejection.
    pub(crate) fn check_secrets(&self, caller: &Caller) -> Result<(), Problem> {
        if matches!(caller.by, CallerKind::Socket) {
            return Ok(());
        }
        if !self.config_secrets {
            return Err(Problem::new(403, "secrets are not shown over TCP").advice(
                "use the Unix socket of the admin API, or set `admin.config_secrets: true`",
            ));
        }
        if caller.role != AdminRole::All {
            let role = caller.role.slug();
            return Err(Problem::new(403, format!("the role \"{role}\" sees no secrets")));
        }
        Ok(())
    }
}

fn refused(request: &Request, challenge: &'static str) -> Problem {
    event_limited!(
        REFUSALS_LOGGED_PER_SECOND,
        Level::Warn,
        "admin token refused",
        client = request.client_ip
    );
    Problem::unauthorized("this is not the admin token", challenge)
}

#[cfg(test)]
mod tests {
    use super::opens;
    use crate::endpoints::Guard;
    use config::AdminRole::{All, Purge, Read, Write};

    #[test]
    fn each_role_opens_what_its_description_says() {
        let opened = |role| {
            [Guard::Any, Guard::Caches, Guard::Read, Guard::Purge, Guard::Write, Guard::All]
                .map(|guard| opens(role, guard))
        };
        assert_eq!(opened(Read), [true, true, true, false, false, false]);
        assert_eq!(opened(Purge), [true, true, false, true, false, false]);
        assert_eq!(opened(Write), [true, true, true, true, true, false]);
        assert_eq!(opened(All), [true; 6]);
    }
}
