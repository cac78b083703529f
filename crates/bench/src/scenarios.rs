//! What servers are asked to do: the scenarios, each with the cases it is made of.
//!
//! Owns the list, and what stands around a server in a case: its backend, its files, the request
//! and the right answer. Promises that a case that was set up was answered rightly once before any
//! load is put on it, and that it lists only what the product can do.
//! Never measures: that is `run`.

mod connections;
mod files;
mod filters;
mod gateway;
mod hello;
mod probe;
mod reload;
mod routes;
mod stage;

pub(crate) use connections::{DESCRIPTORS_KEPT, Idle, room_for};
pub(crate) use probe::{WAIT, probe, request};
pub(crate) use reload::reloading;
pub(crate) use stage::Stage;

use crate::peers::Role;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A subject with all its cases.
#[derive(Debug)]
pub struct Scenario {
    pub name: &'static str,
    /// One line for the list of scenarios.
    pub about: &'static str,
    pub cases: &'static [Case],
    /// It is run when none is named.
    pub by_default: bool,
}

/// One row of the results.
#[derive(Debug, PartialEq)]
pub struct Case {
    /// As in `Record::scenario`.
    pub name: &'static str,
    /// What is asked, what is answered.
    pub about: &'static str,
    /// The published page it replays.
    pub replays: Option<&'static str>,
    pub(crate) serve: Serve,
    pub(crate) kind: Kind,
}

/// What a server serves in a case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Serve {
    Hello,
    Gateway { delay: Duration, keep: bool },
    Guarded,
    Routes { count: usize },
    File { name: &'static str, bytes: usize },
}

impl Serve {
    /// What a server has to be for that, with this backend and these files, if it has any.
    pub(crate) fn role(self, backend: SocketAddr, root: PathBuf) -> Role {
        match self {
            Self::Hello => Role::Hello,
            Self::Gateway { keep, .. } => Role::Gateway { backend, keep },
            Self::Guarded => Role::Guarded { backend },
            Self::Routes { count } => Role::Routes { count },
            Self::File { .. } => Role::Files { root },
        }
    }
}

/// What is done to a server in a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Load,
    /// Load while the configuration is changed over and over.
    Reload,
    /// Load beside many idle connections.
    Idle,
}

/// Every scenario there is.
pub const ALL: &[&Scenario] = &[
    &hello::SCENARIO,
    &gateway::SCENARIO,
    &filters::SCENARIO,
    &routes::SCENARIO,
    &files::SCENARIO,
    &reload::SCENARIO,
    &connections::SCENARIO,
];

/// The scenario of that name.
pub fn named(name: &str) -> Option<&'static Scenario> {
    ALL.iter().copied().find(|scenario| scenario.name == name)
}

#[cfg(test)]
mod tests {
    use super::ALL;

    #[test]
    fn cases_are_told_apart_and_begin_with_their_scenario() {
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
