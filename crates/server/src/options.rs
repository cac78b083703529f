//! What a server is started with besides its configuration.

use net::Bind;
use telemetry::log::{Format, Level};

/// Settings of the command line; they win over the configuration's, across reloads.
#[derive(Default)]
pub struct Options {
    pub workers: Option<config::Workers>,
    /// Bind each worker to a core of its own.
    pub cpu_affinity: bool,
    pub log_level: Option<Level>,
    pub log_format: Option<Format>,
    /// Called once, when every worker accepts.
    pub on_ready: Option<OnReady>,
}

/// Told where the server listens.
pub type OnReady = Box<dyn FnOnce(&[Bound])>;

/// A listener and the address it really has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    pub name: String,
    pub address: Bind,
}

/// Why a server did not start.
#[derive(Debug)]
pub enum Failure {
    /// The configuration is wrong: every error, rendered.
    Configuration(String),
    /// Something else is: one sentence.
    Start(String),
}
