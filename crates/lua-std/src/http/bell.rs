//! Tasks of this worker that wait for something of one another.
//!
//! Promises that a ring wakes everyone who waits and is forgotten where nobody does: who waits
//! looks first.

use std::cell::RefCell;
use std::task::{Context, Waker};

#[derive(Default)]
pub(crate) struct EventFd(RefCell<Vec<Waker>>);

impl EventFd {
    /// Wakes the task of `cx` at the next ring.
    pub(crate) fn wait(&self, cx: &Context<'_>) {
        let mut waiting = self.0.borrow_mut();
        if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
    }

    pub(crate) fn ring(&self) {
        for waker in self.0.take() {
            waker.wake();
        }
    }
}
