//! The settings of a group of worker processes.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use net::{ChildCommand, ErrorLog};
use serde_json::Value;

use super::policy::Policy;

/// The settings of a group's processes. Processes are replaced only if these differ.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GroupSettings {
    pub(crate) launch: ChildCommand,
    pub(crate) python: Value,
    /// The workers are forked from a process that has imported the application.
    pub(crate) preload: bool,
    /// The configuration of each process; role `http` only.
    pub(crate) config: Option<String>,
    pub(crate) store: Option<PathBuf>,
    pub(crate) policy: Policy,
    pub(crate) log_level: String,
    pub(crate) log_format: String,
    /// The file in which the standard streams of this process are.
    pub(crate) error_log: Option<ErrorLog>,
    pub(crate) on_event: Option<OnGroupEvent>,
}

/// What happens to the workers of a group. Workers are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupEvent {
    /// A process is about to be started.
    Starting { worker: usize },
    /// A process has ended.
    Ended { worker: usize, process: u32 },
    /// The number of workers is set; `before` is `None` at the start.
    Workers { now: usize, before: Option<usize> },
    /// Every process is to be replaced.
    Reloading,
}

/// Is called with each event, on the control thread.
#[derive(Clone)]
pub struct OnGroupEvent(pub Arc<dyn Fn(GroupEvent) + Send + Sync>);

impl fmt::Debug for OnGroupEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnGroupEvent")
    }
}

impl PartialEq for OnGroupEvent {
    fn eq(&self, other: &OnGroupEvent) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
