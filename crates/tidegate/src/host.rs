//! The host of the command line: the plain binary, or a Python interpreter.
//!
//! No other module of this crate depends on how it was started. Never calls Python.

use std::ffi::OsString;
use std::sync::Arc;

use server::GroupEvent;

/// The process that runs the command line.
#[derive(Clone, Default)]
pub struct Host {
    /// The command that starts another process like this one if it is a Python interpreter: the
    /// interpreter, `-m`, `tidegate`. `None` in the plain binary.
    pub python: Option<Vec<OsString>>,
    /// The name of a gunicorn.conf.py that the interpreter has executed, and its settings as
    /// options of `run`.
    pub configured: Option<(String, Vec<String>)>,
    /// Called once an application is served.
    pub on_ready: Option<Arc<dyn Fn() + Send + Sync>>,
    /// Called with what happens to the workers of an application.
    pub on_event: Option<Arc<dyn Fn(GroupEvent) + Send + Sync>>,
    /// A worker that does not respond gets SIGABRT before it is killed.
    pub aborts_first: bool,
}
