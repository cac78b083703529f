//! What a connection of HTTP/1.1 does after an exchange, or instead of one.

use telemetry::CloseReason;

use crate::connection::End;
use message::Takeover;

/// What a connection does next.
pub(super) enum NextStep {
    /// It serves the next request, or waits for one.
    Continue,
    /// What was upgraded to uses it; the 101 is out.
    Tunnel(Takeover),
    /// The client speaks HTTP/2; what it has sent was not consumed.
    Http2,
    End(End),
}

impl NextStep {
    pub(super) fn close(reason: CloseReason) -> NextStep {
        NextStep::End(End::Close(reason))
    }

    pub(super) fn linger(reason: CloseReason) -> NextStep {
        NextStep::End(End::Linger(reason))
    }
}
