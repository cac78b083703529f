//! One request to the end point that several requests of clients wait for.

use std::cell::OnceCell;
use std::rc::Rc;

use tokio::sync::Notify;

use super::{Introspected, Introspector};
use crate::credential::CredentialId;

#[derive(Default)]
pub(super) struct Inquiry {
    result: OnceCell<Introspected>,
    has_ended: Notify,
}

impl Inquiry {
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

/// Ends an inquiry when its task does, also if that fails.
pub(super) struct Running {
    pub(super) introspector: Rc<Introspector>,
    pub(super) id: CredentialId,
    pub(super) inquiry: Rc<Inquiry>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.introspector.running.borrow_mut().remove(&self.id);
        self.inquiry.has_ended.notify_waiters();
    }
}
