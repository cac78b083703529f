//! What became of a purge, on this server and on those that share purges with it.

/// What a purge did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Purged {
    /// The responses that this server has purged.
    pub purged: u64,
    /// What became of it on other servers, if they share purges.
    pub fleet: Option<FleetPurge>,
}

/// What a purge would remove from this server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PurgePreview {
    /// The responses that it covers.
    pub responses: u64,
    /// True if it may cover fewer: secrets are not compared.
    pub is_upper_bound: bool,
    /// Some of their URLs, with secrets masked.
    pub urls: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FleetPurge {
    /// The number of the purge, or why the others do not know of it.
    pub published: Result<u64, String>,
    /// The servers that have applied it, if that was waited for.
    pub waited: Option<WaitedPurge>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WaitedPurge {
    /// True if no server serves what was purged.
    pub is_confirmed: bool,
    /// Names of the servers that have applied it.
    pub applied: Vec<String>,
    pub missing: Vec<MissingServer>,
    /// Why it is not known which servers have applied it.
    pub problem: Option<String>,
}

/// A server that has not applied a purge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingServer {
    pub name: String,
    /// False if it was not heard of recently.
    pub is_live: bool,
}
