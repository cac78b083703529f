//! The servers that share their configuration in etcd, as each of them reports.

/// Which nodes of a fleet are requested, in the order of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodesWanted {
    /// The last name of the previous page; empty for the first.
    pub after: String,
    pub limit: usize,
}

/// A page of the nodes of a fleet.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FleetNodes {
    /// Where the configuration of all is: `etcd://HOST,…/PREFIX`.
    pub source: String,
    /// The name of this server among them.
    pub node: String,
    pub nodes: Vec<NodeReport>,
    /// True if there are more after the last.
    pub has_more: bool,
}

/// What a server reports about the configuration that it serves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeReport {
    pub name: String,
    /// The version that it serves, and the revision of etcd that it is from.
    pub version: String,
    pub revision: i64,
    /// The configuration that it rejected last, unless a later one serves.
    pub refused: Option<RefusedRevision>,
    /// Set while it serves a configuration on trial.
    pub canary: Option<CanaryResponses>,
    /// When it reported, Unix time in milliseconds.
    pub at_ms: u64,
    /// The build of the program.
    pub build: String,
    pub process: u64,
}

/// A configuration that a server rejected, and why.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RefusedRevision {
    pub revision: i64,
    pub errors: Vec<String>,
}

/// The responses that a server has sent with a configuration on trial.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CanaryResponses {
    pub requests: u64,
    /// Those of the class 5xx.
    pub errors: u64,
}
