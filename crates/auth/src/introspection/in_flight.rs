//! A call of the end point that several requests of clients wait for.

use std::cell::OnceCell;
use std::rc::Rc;

use tokio::sync::Notify;

use super::{Introspected, Introspector};
use crate::credential::CredentialId;

#[derive(Default)]
pub(super) struct InFlightCall {
    result: OnceCell<Introspected>,
    has_ended: Notify,
}

impl InFlightCall {
    /// Waits for the result; `None` if the request ended without one.
    pub(super) async fn result(&self) -> Option<Introspected> {
        // Created before the check: a notification in between is not lost.
        let ended = self.has_ended.notified();
        if self.result.get().is_none() {
            ended.await;
        }
        self.result.get().cloned()
    }

    pub(super) fn finish(&self, introspected: Introspected) {
        // The task of the request is the only caller.
        let _ = self.result.set(introspected);
    }
}

/// Ends the call when its task ends, also if the task fails.
pub(super) struct Running {
    pub(super) introspector: Rc<Introspector>,
    pub(super) id: CredentialId,
    pub(super) call: Rc<InFlightCall>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.introspector.running.borrow_mut().remove(&self.id);
        self.call.has_ended.notify_waiters();
    }
}
