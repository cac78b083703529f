//! `tidegate run MODULE:APP`: a supervisor of worker processes that serve HTTP themselves.

use std::ffi::OsString;
use std::path::PathBuf;

use net::{Bind, ListenOptions};
use serde_json::Value;
use telemetry::log::{Format, Level};

use crate::options::{Failure, OnReady};
use crate::supervise::{DevReload, Policy};

/// What is run.
pub struct RunSpec {
    /// What starts a worker: the interpreter, `-m`, `tidegate`.
    pub command: Vec<OsString>,
    /// Added to the workers' environment.
    pub environment: Vec<(String, String)>,
    /// Where workers start; here without one.
    pub folder: Option<PathBuf>,
    /// What the application's language needs to know; workers are given it as it is.
    pub python: Value,
    /// The configuration that each worker serves, its routes with `handler: { app: main }`. The
    /// application itself is declared in it (`apps`), its listeners are those below.
    pub configuration: Value,
    /// By the names that the configuration has for them.
    pub listeners: Vec<(String, Door)>,
    pub workers: usize,
    pub policy: Policy,
    pub reload: Option<DevReload>,
    /// Where the admin API answers besides its Unix socket.
    pub admin: Option<Bind>,
    /// Words of the command line; the configuration says nothing of it.
    pub log_level: Option<Level>,
    pub log_format: Option<Format>,
    /// Called once, when the first worker is ready.
    pub on_ready: Option<OnReady>,
}

/// A place that clients come in at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Door {
    Bind(Bind, ListenOptions),
    /// A listening socket that this process was started with.
    Descriptor(i32),
}

/// The application's name in configurations, in logs and in metrics.
pub const APPLICATION: &str = "main";

/// Serves until it is told to stop. A first start that fails is a failure; later ones are tried
/// again.
pub fn run_application(spec: RunSpec) -> Result<(), Failure> {
    drop(spec);
    Err(Failure::Start("this build runs no applications".to_owned()))
}
