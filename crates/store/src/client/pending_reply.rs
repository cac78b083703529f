//! A handle to the replies of a call, for a thread that blocks.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::client::CallResult;

#[derive(Default)]
struct ReplySlot {
    outcome: Mutex<Option<CallResult>>,
    arrived: Condvar,
}

/// The replies of a call in flight.
pub struct PendingReply {
    slot: Arc<ReplySlot>,
}

impl PendingReply {
    pub(super) fn new() -> (PendingReply, impl FnOnce(CallResult) + Send + 'static) {
        let slot = Arc::new(ReplySlot::default());
        let other = slot.clone();
        let done = move |outcome| {
            *other.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            other.arrived.notify_all();
        };
        (PendingReply { slot }, done)
    }

    /// Returns the replies, once; blocks until they are there, at most `timeout`.
    pub fn wait(&self, timeout: Duration) -> Option<CallResult> {
        let outcome = self.slot.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.slot.arrived.wait_timeout_while(outcome, timeout, |o| o.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }
}
