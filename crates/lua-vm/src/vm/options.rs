//! Options of a VM, set by its creator.

use std::sync::Arc;

use net::{Bind, BindError, BoundSocket, ListenOptions};

/// Options of a new VM.
#[derive(Clone, Default)]
pub struct VmOptions {
    /// The values of `env.get`: `--key=value` of the command line.
    pub arguments: Vec<(String, String)>,
    /// Searched for Lua modules before Lua's own places, after `lualib`.
    pub path: Option<String>,
    /// Searched for C modules in the same way.
    pub cpath: Option<String>,
    /// Returns the VM's listening sockets; without it each socket is bound for this VM alone.
    pub bind: Option<BindSocket>,
}

/// Returns a VM's socket for an address; `None` if none is left.
pub type BindSocket =
    Arc<dyn Fn(&Bind, &ListenOptions) -> Result<Option<BoundSocket>, BindError> + Send + Sync>;
