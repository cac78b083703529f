//! Waiting for a task's result, and cancelling it.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::executor;
use super::key::Key;
use super::remote_wake;

/// Why a task has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinError {
    Cancelled,
    Panicked,
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            JoinError::Cancelled => "the task was cancelled",
            JoinError::Panicked => "the task panicked",
        })
    }
}

impl std::error::Error for JoinError {}

/// What a task and its handle share.
pub(super) struct Shared<T> {
    outcome: Cell<Option<Result<T, JoinError>>>,
    ended: Cell<bool>,
    waiter: Cell<Option<Waker>>,
}

impl<T> Shared<T> {
    fn end(&self, outcome: Result<T, JoinError>) {
        if self.ended.replace(true) {
            return;
        }
        self.outcome.set(Some(outcome));
        if let Some(waiter) = self.waiter.take() {
            waiter.wake();
        }
    }
}

/// A future that leaves its result to its handle.
pub(super) struct Joined<F: Future> {
    future: F,
    shared: Rc<Shared<F::Output>>,
}

impl<F: Future> Joined<F> {
    pub(super) fn new(future: F) -> (Joined<F>, Rc<Shared<F::Output>>) {
        let shared = Rc::new(Shared {
            outcome: Cell::new(None),
            ended: Cell::new(false),
            waiter: Cell::new(None),
        });
        (Joined { future, shared: shared.clone() }, shared)
    }
}

impl<F: Future> Future for Joined<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: `future` is pinned with the whole: it is reached through this alone, never moved
        // out, and `Joined` has neither `Unpin` nor a `Drop` that could touch it pinned. `shared`
        // is not pinned.
        let (future, shared) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.future), &this.shared)
        };
        let outcome = match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(payload) => {
                drop_payload(payload);
                Err(JoinError::Panicked)
            }
        };
        shared.end(outcome);
        Poll::Ready(())
    }
}

impl<F: Future> Drop for Joined<F> {
    fn drop(&mut self) {
        // Nothing happens where it has ended: this is what a cancelled task leaves.
        self.shared.end(Err(JoinError::Cancelled));
    }
}

/// Drops what a panic was thrown with; the panic itself was reported when it was thrown.
pub(super) fn drop_payload(payload: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(move || drop(payload))) {
        std::mem::forget(again);
    }
}

/// A task's result to come. Dropping it does not end the task.
pub struct JoinHandle<T> {
    shared: Rc<Shared<T>>,
    task: AbortHandle,
}

impl<T> JoinHandle<T> {
    pub(super) fn new(shared: Rc<Shared<T>>, task: AbortHandle) -> JoinHandle<T> {
        JoinHandle { shared, task }
    }

    /// Cancels the task: its future is dropped soon, but not within this call. Nothing happens to
    /// one that has ended.
    pub fn abort(&self) {
        self.task.abort();
    }

    /// For whoever may cancel the task and is not to have its result.
    pub fn abort_handle(&self) -> AbortHandle {
        self.task
    }

    /// Whether the task has ended, in whatever way.
    pub fn is_finished(&self) -> bool {
        self.shared.ended.get()
    }
}

impl<T> fmt::Debug for JoinHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinHandle").field("task", &self.task).finish_non_exhaustive()
    }
}

impl<T> Future for JoinHandle<T> {
    type Output = Result<T, JoinError>;

    /// Pending for ever once it has given its result.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        match self.shared.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                self.shared.waiter.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }
}

/// Cancels a task, from any thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortHandle {
    pub(super) key: Key,
    /// The task's number on its worker, never used again: unlike a wake, a cancellation that comes
    /// late must not reach another task.
    pub(super) serial: u64,
}

impl AbortHandle {
    /// As [`JoinHandle::abort`].
    pub fn abort(&self) {
        if !executor::abort_here(*self) {
            remote_wake::abort(*self);
        }
    }
}
