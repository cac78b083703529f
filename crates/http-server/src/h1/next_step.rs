//! The next step of an HTTP/1.1 connection after an exchange, or instead of one.

use telemetry::CloseReason;

use crate::access_log::TunnelEntry;
use crate::connection::End;
use message::Takeover;

/// The next step of a connection.
pub(super) enum NextStep {
    /// The connection serves the next request, or waits for one.
    Continue,
    /// The upgraded protocol takes over; the 101 has been sent. The entry is written at its end.
    Tunnel(Takeover, Option<Box<TunnelEntry>>),
    /// The client speaks HTTP/2; its bytes were not consumed.
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
