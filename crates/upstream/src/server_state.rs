//! Whether a server is in rotation.

/// The state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerState {
    /// In rotation.
    Healthy,
    /// Active checks failed.
    Unhealthy,
    /// Ejected after failures.
    Ejected,
    /// The ejection has ended; one trial request decides.
    Trial,
    /// Taken out of rotation by an operator.
    Draining,
    /// Removed from the upstream; its requests in flight continue.
    Removed,
}

impl ServerState {
    /// True if a failure has taken the server out of rotation.
    pub(crate) fn is_out(self) -> bool {
        matches!(self, ServerState::Unhealthy | ServerState::Ejected)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            ServerState::Healthy => "healthy",
            ServerState::Unhealthy => "unhealthy",
            ServerState::Ejected => "ejected",
            ServerState::Trial => "trial",
            ServerState::Draining => "draining",
            ServerState::Removed => "removed",
        }
    }
}
