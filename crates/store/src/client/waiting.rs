//! A call whose answer a thread waits for.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use crate::client::Outcome;

#[derive(Default)]
struct Slot {
    outcome: Mutex<Option<Outcome>>,
    arrived: Condvar,
}

/// An answer to come.
pub struct Waiting {
    slot: Arc<Slot>,
}

impl Waiting {
    pub(super) fn new() -> (Waiting, impl FnOnce(Outcome) + Send + 'static) {
        let slot = Arc::new(Slot::default());
        let other = slot.clone();
        let done = move |outcome| {
            *other.outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(outcome);
            other.arrived.notify_all();
        };
        (Waiting { slot }, done)
    }

    /// The answer, once; blocks until it is there, at most `within`.
    pub fn within(&self, within: Duration) -> Option<Outcome> {
        let outcome = self.slot.outcome.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.slot.arrived.wait_timeout_while(outcome, within, |o| o.is_none());
        waited.unwrap_or_else(PoisonError::into_inner).0.take()
    }
}
