//! The tasks of this worker that wait for one event.
//!
//! Promises that `wake_all` wakes every waiting task; a task checks the condition before it waits.

use std::cell::RefCell;
use std::task::{Context, Waker};

#[derive(Default)]
pub(crate) struct WakerSet(RefCell<Vec<Waker>>);

impl WakerSet {
    /// Wakes the task of `cx` at the next `wake_all`.
    pub(crate) fn wait(&self, cx: &Context<'_>) {
        let mut waiting = self.0.borrow_mut();
        if !waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            waiting.push(cx.waker().clone());
        }
    }

    pub(crate) fn wake_all(&self) {
        for waker in self.0.take() {
            waker.wake();
        }
    }
}
