//! The settings of a group of worker processes.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use net::ChildCommand;
use serde_json::Value;

use super::policy::Policy;

/// The settings of a group's processes. Processes are replaced only if these differ.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct GroupSettings {
    pub(crate) launch: ChildCommand,
    pub(crate) python: Value,
    /// The configuration of each process; role `http` only.
    pub(crate) config: Option<String>,
    pub(crate) store: Option<PathBuf>,
    pub(crate) policy: Policy,
    pub(crate) log_level: String,
    pub(crate) log_format: String,
    pub(crate) on_exit: Option<OnExit>,
}

/// Called with the index of a worker and the id of its process after the process has ended.
#[derive(Clone)]
pub struct OnExit(pub Arc<dyn Fn(usize, u32) + Send + Sync>);

impl fmt::Debug for OnExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnExit")
    }
}

impl PartialEq for OnExit {
    fn eq(&self, other: &OnExit) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
