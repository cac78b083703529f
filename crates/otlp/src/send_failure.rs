//! Why a batch was not accepted, and whether it may be sent again.

use std::time::Duration;

use message::Fault;

/// The reason why a batch was not accepted.
pub(crate) struct SendFailure {
    pub(crate) why: String,
    /// False if the collector would reject it again.
    pub(crate) may_repeat: bool,
    /// The pause that the collector demands.
    pub(crate) pause: Option<Duration>,
}

impl From<Fault> for SendFailure {
    fn from(fault: Fault) -> SendFailure {
        SendFailure { why: fault.detail.into_owned(), may_repeat: true, pause: None }
    }
}
