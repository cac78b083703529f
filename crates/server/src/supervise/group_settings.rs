//! The settings of a group of worker processes.

use std::path::PathBuf;

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
}
