//! The settings of a server that are not in its configuration.

use std::sync::Arc;

use net::Bind;
use telemetry::log::{Format, Level};

use crate::etcd_source::EtcdSource;

/// Settings of the command line, which take precedence over the configuration, also after reloads.
#[derive(Default)]
pub struct Options {
    pub workers: Option<config::Workers>,
    /// Pin each worker to a core of its own.
    pub cpu_affinity: bool,
    pub log_level: Option<Level>,
    pub log_format: Option<Format>,
    /// The source, if it is etcd: it is followed.
    pub etcd: Option<Arc<EtcdSource>>,
    /// Called once, when every worker accepts.
    pub on_ready: Option<OnReady>,
}

/// Receives the bound addresses.
pub type OnReady = Box<dyn FnOnce(&[Bound])>;

/// A listener and its bound address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    pub name: String,
    pub address: Bind,
}

/// The reason why a server did not start.
#[derive(Debug)]
pub enum Failure {
    /// The configuration is invalid: all errors, rendered.
    Configuration(String),
    /// Another failure, in one sentence.
    Start(String),
}
