//! The scenarios, each with its cases.
//!
//! Owns the list, and the environment of a server in a case: its backend, its files, the request
//! and the correct response. Promises that every server of a case has responded correctly once
//! before any load, and that the list contains only what the program under test supports. Never
//! measures: that is `run`.

mod bodies;
mod cache;
mod certificate;
mod compressed;
mod connections;
mod documents;
mod files;
mod filters;
mod fixture;
mod gateway;
mod hello;
mod http2;
mod json;
mod latency;
mod lua_hello;
mod ping;
mod probe;
mod python;
mod reload;
mod routes;
mod tls;
mod websocket;

pub(crate) use bodies::Transfer;
pub(crate) use documents::Document;

pub(crate) use connections::{DESCRIPTORS_KEPT, ports_of_an_address, room_for};
pub(crate) use fixture::Fixture;
pub(crate) use probe::{WAIT, probe, request};
pub(crate) use reload::reloading;

use crate::load::{Command, LoadPlan};
use crate::peers::{App, CacheRequest, DOCUMENTS, Guard, Operation, Peer, Protocol, Role, Site};
use crate::report::data::FLOOR;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A scenario with its cases.
#[derive(Debug)]
pub struct Scenario {
    pub name: &'static str,
    /// One line for the list of scenarios.
    pub about: &'static str,
    pub cases: &'static [Case],
    /// True if it runs when no scenario is named.
    pub by_default: bool,
}

/// One row of the results.
#[derive(Debug, PartialEq)]
pub struct Case {
    /// As in `Record::scenario`.
    pub name: &'static str,
    /// The request and the response.
    pub about: &'static str,
    /// The published page it replays.
    pub replays: Option<&'static str>,
    pub(crate) serve: Serve,
    pub(crate) protocol: Protocol,
    pub(crate) kind: Kind,
}

/// The content that a server serves in a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Serve {
    Hello,
    Gateway { delay: Duration, keep: bool },
    Bodies(Transfer),
    Guarded(Guard),
    Filtered(&'static str),
    Grpc { message_bytes: usize },
    LuaHello,
    Routes { count: usize },
    Ping { command: Command, pipeline: u32 },
    Json { document: Document, operation: Operation },
    File { name: &'static str, bytes: usize },
    Cached { bytes: usize, asked: CacheRequest },
    App(App),
    AppGateway,
    AppCached,
    AppLoop,
}

impl Serve {
    /// Returns the role of a server for this backend and these files, if it has any.
    pub(crate) fn role(self, backend: SocketAddr, root: PathBuf) -> Role {
        match self {
            Self::Hello => Role::Hello,
            Self::Gateway { keep, .. } => Role::Gateway { backend, keep },
            Self::Bodies(_) => Role::Gateway { backend, keep: true },
            Self::Guarded(by) => Role::Guarded { backend, by },
            Self::Filtered(filters) => Role::Filtered { backend, filters },
            Self::Grpc { .. } => Role::GrpcGateway { backend },
            Self::LuaHello => Role::LuaHello,
            Self::Routes { count } => Role::Routes { count },
            Self::Ping { .. } => Role::Ping,
            Self::Json { operation, .. } => {
                Role::Json { document: root, operation, time: Duration::ZERO }
            }
            Self::File { .. } => Role::Files { root },
            Self::Cached { asked, .. } => Role::Cached { backend, root, asked },
            Self::App(app) => Role::App(app),
            Self::AppGateway => Role::AppGateway,
            Self::AppCached => Role::AppCached { backend, root },
            Self::AppLoop => Role::AppLoop { time: Duration::ZERO },
        }
    }
}

/// The activity in a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Load,
    /// Load while the configuration is changed over and over.
    Reload,
    /// Load in an open loop, at 70 % of what the slowest server can do.
    SeventyPercent,
    /// Load along with many idle connections.
    Idle,
    /// No load: a program that repeats an operation and prints the count.
    Program,
}

impl Case {
    /// Returns true if the peer can be measured in it.
    pub(crate) fn is_for(&self, peer: &Peer, workers: u32) -> bool {
        // The bare proxy does not wait for a slow reader.
        let is_bare = matches!(self.serve, Serve::Bodies(_)) && peer.name == FLOOR;
        !is_bare && peer.can(&self.site(workers))
    }

    /// Returns the Python packages that the peer needs, in addition to its own program.
    pub(crate) fn needs(&self, peer: &Peer) -> Vec<&'static str> {
        peer.needs(&self.site(1))
    }

    fn site(&self, workers: u32) -> Site {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let role = self.serve.role(address, PathBuf::new());
        let reloads = self.kind == Kind::Reload;
        let protocol = self.protocol;
        Site { workers, reloads, protocol, ..Site::new(role, address, PathBuf::new()) }
    }

    /// Returns the numbers of connections that show most, if these are not the usual ones.
    pub(crate) fn connections(&self) -> Option<&'static [usize]> {
        match self.serve {
            Serve::App(App::AsgiSleep) => Some(&[512]),
            Serve::App(App::GeventSleep) => Some(&[1000]),
            Serve::App(App::Page) => Some(&[500, 1000]),
            _ => None,
        }
    }

    /// The number of documents that are requested in turn.
    pub(crate) fn documents(&self) -> u32 {
        match self.serve {
            Serve::Cached { asked: CacheRequest::Many, .. } => DOCUMENTS,
            _ => 1,
        }
    }

    /// The time-out of a response. With many streams it waits for thousands of others.
    pub(crate) fn timeout(&self) -> Duration {
        let streams = match self.protocol {
            Protocol::Http2 { streams } => streams,
            Protocol::Http1 | Protocol::Https { .. } => 1,
        };
        LoadPlan::default().timeout + Duration::from_millis(100) * (streams - 1)
    }

    /// Returns true if it is measured with one worker and with one on each core.
    pub(crate) fn scales(&self) -> bool {
        self.serve == Serve::App(App::Page)
    }
}

/// Every scenario there is.
pub const ALL: &[&Scenario] = &[
    &hello::SCENARIO,
    &gateway::SCENARIO,
    &latency::SCENARIO,
    &bodies::SCENARIO,
    &ping::SCENARIO,
    &json::SCENARIO,
    &lua_hello::SCENARIO,
    &filters::SCENARIO,
    &filters::AUTHENTICATION,
    &filters::COSTS,
    &routes::SCENARIO,
    &routes::MANY,
    &files::SCENARIO,
    &cache::SCENARIO,
    &cache::DISK,
    &tls::HELLO,
    &tls::HANDSHAKE,
    &tls::FILE,
    &tls::PROXIED,
    &http2::HELLO,
    &http2::PROXIED,
    &http2::GRPC,
    &reload::SCENARIO,
    &connections::SCENARIO,
    &python::ASGI_HELLO,
    &python::WSGI_HELLO,
    &python::ECHO,
    &python::ASGI_SLEEP,
    &python::WSGI_SLEEP,
    &python::GEVENT,
    &python::FASTAPI,
    &python::FASTAPI_TLS,
    &python::WEBSOCKET,
    &python::ASGI_UP,
    &python::CACHE,
    &python::PAGE,
];

/// The scenario of that name.
pub fn named(name: &str) -> Option<&'static Scenario> {
    ALL.iter().copied().find(|scenario| scenario.name == name)
}

#[cfg(test)]
mod tests {
    use super::{ALL, Serve};
    use crate::peers;

    #[test]
    fn the_program_under_test_can_do_all() {
        let subject = peers::named("tidegate").unwrap();
        for case in ALL.iter().flat_map(|scenario| scenario.cases) {
            let has_server = case.serve != Serve::AppLoop;
            assert!(!has_server || case.is_for(subject, 1), "{}", case.name);
        }
    }

    #[test]
    fn cases_are_distinct_and_begin_with_their_scenario() {
        let mut names = Vec::new();
        for scenario in ALL {
            for case in scenario.cases {
                assert!(case.name.starts_with(scenario.name), "{}", case.name);
                names.push(case.name);
            }
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
