//! The options of a run.

use crate::load::Mode;
use crate::load::tools::Tool;
use crate::peers::Finder;
use crate::report::data::Placement;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The options of a run; [`Options::new`] has the defaults.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names of scenarios; empty: those that are run by default, or all with `full`.
    pub scenarios: Vec<String>,
    /// Names of peers; `None`: all that are found, and with `full` also those that are built.
    pub peers: Option<Vec<String>>,
    /// Everything: all scenarios, more connections, more workers.
    pub full: bool,
    /// Empty: 100, or 1, 16, 100 and 512 with `full`.
    pub connections: Vec<usize>,
    /// Empty: 1, or from 1 to the number of cores for `hello` with `full`.
    pub workers: Vec<u32>,
    pub round: Duration,
    pub rounds: u32,
    pub warm_up: Duration,
    /// What the run may take longer than planned before it leaves out rounds.
    pub slack: Duration,
    /// Threads of the load generator.
    pub threads: usize,
    pub mode: Mode,
    /// The load generator to use instead of the built-in one.
    pub tool: Option<Tool>,
    /// Everything is measured in each of these. Empty: in both, or only unpinned where there are
    /// not enough cores.
    pub placements: Vec<Placement>,
    /// Compare every body.
    pub verify: bool,
    /// Idle connections of the scenario `connections`.
    pub idle: usize,
    pub finder: Finder,
    /// The target to load instead of starting servers.
    pub external_target: Option<ExternalTarget>,
    /// The command line, for the results.
    pub command: String,
    pub stop: Arc<AtomicBool>,
}

/// A server started by another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalTarget {
    /// `http://HOST:PORT/PATH`
    pub url: String,
    /// True if the user has confirmed that it may be loaded.
    pub is_own: bool,
}

impl Options {
    pub fn new(finder: Finder) -> Self {
        Self {
            scenarios: Vec::new(),
            peers: None,
            full: false,
            connections: Vec::new(),
            workers: Vec::new(),
            round: Duration::from_secs(1),
            rounds: 4,
            warm_up: Duration::from_millis(300),
            slack: Duration::from_secs(2),
            threads: 1,
            mode: Mode::Closed,
            tool: None,
            placements: vec![Placement::Unpinned],
            verify: false,
            idle: 10_000,
            finder,
            external_target: None,
            command: String::new(),
            stop: Arc::default(),
        }
    }
}
