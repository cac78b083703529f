//! The metrics of a connection that ends by a violation of the protocol.

use telemetry::{CloseReason, LimitHit};
use wire::h2::Violation;

/// The limit that the client ran into, if the violation is one.
fn limit(violation: Violation) -> Option<LimitHit> {
    Some(match violation {
        Violation::FieldBlockTooLarge => LimitHit::Headers,
        Violation::ContinuationFlood => LimitHit::ContinuationFlood,
        Violation::RapidReset => LimitHit::RapidReset,
        Violation::ProvokedResets => LimitHit::ProvokedResets,
        Violation::SettingsFlood
        | Violation::PingFlood
        | Violation::PriorityFlood
        | Violation::WindowFlood
        | Violation::ResetFlood
        | Violation::GoawayFlood
        | Violation::UnknownFrames => LimitHit::ControlFrames,
        Violation::EmptyFrames => LimitHit::EmptyFrames,
        _ => return None,
    })
}

/// Returns the close reason, and the limit if the violation is a flood.
pub(super) fn close_reason(violation: Violation) -> (CloseReason, Option<LimitHit>) {
    match limit(violation) {
        Some(limit) => (CloseReason::Http2Flood, Some(limit)),
        None => (CloseReason::Http2Error, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::h2::ErrorCode;

    #[test]
    fn what_is_a_flood_to_the_protocol_is_counted_as_a_limit() {
        for violation in Violation::ALL {
            let is_flood = violation.code() == ErrorCode::ENHANCE_YOUR_CALM;
            let (reason, limit) = close_reason(*violation);
            assert_eq!(limit.is_some(), is_flood, "{violation:?}");
            assert_eq!(reason == CloseReason::Http2Flood, is_flood, "{violation:?}");
        }
    }
}
