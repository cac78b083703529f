//! A connection, and what it does after each step.

use std::rc::Rc;

use message::{ConnectionFacts, Takeover};
use telemetry::CloseReason;

use super::connection_io::ConnectionIo;
use crate::listener_snapshot::Service;

/// What a connection does next.
pub(super) enum NextStep {
    /// It serves the next request, or waits for one.
    Continue,
    Close(CloseReason),
    /// It closes, but lets the client read what was sent: it may still be sending itself.
    Linger(CloseReason),
    /// What was upgraded to uses it; the 101 is out.
    Tunnel(Takeover),
    /// It closes with a reset: what was sent must not pass for a whole response.
    Abort(CloseReason),
}

/// A connection of a client.
pub(super) struct Connection {
    pub(super) io: Rc<ConnectionIo>,
    pub(super) service: Rc<Service>,
    pub(super) facts: Rc<ConnectionFacts>,
}
