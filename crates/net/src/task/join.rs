//! Waiting for a task's result, and cancelling the task.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::key::AbortHandle;

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

/// State shared by a task and its handle.
pub(super) struct Shared<T> {
    result: Cell<Option<Result<T, JoinError>>>,
    ended: Cell<bool>,
    waiter: Cell<Option<Waker>>,
}

impl<T> Shared<T> {
    fn end(&self, result: Result<T, JoinError>) {
        if self.ended.replace(true) {
            return;
        }
        self.result.set(Some(result));
        if let Some(waiter) = self.waiter.take() {
            waiter.wake();
        }
    }
}

/// A future that stores its result for its handle.
pub(super) struct Joined<F: Future> {
    future: F,
    shared: Rc<Shared<F::Output>>,
}

impl<F: Future> Joined<F> {
    pub(super) fn new(future: F) -> (Joined<F>, Rc<Shared<F::Output>>) {
        let shared = Rc::new(Shared {
            result: Cell::new(None),
            ended: Cell::new(false),
            waiter: Cell::new(None),
        });
        (Joined { future, shared: shared.clone() }, shared)
    }
}

impl<F: Future> Future for Joined<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // SAFETY: `future` is structurally pinned: it is only reached through this, never moved
        // out, and `Joined` has neither `Unpin` nor a `Drop` that moves it. `shared` is not pinned.
        let (future, shared) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.future), &this.shared)
        };
        let result = match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(payload) => {
                drop_payload(payload);
                Err(JoinError::Panicked)
            }
        };
        shared.end(result);
        Poll::Ready(())
    }
}

impl<F: Future> Drop for Joined<F> {
    fn drop(&mut self) {
        // A cancelled task ends here; no effect on a finished one.
        self.shared.end(Err(JoinError::Cancelled));
    }
}

/// Drops a panic's payload, whose destructor may panic again; the panic itself was reported when it
/// was thrown.
pub(super) fn drop_payload(payload: Box<dyn Any + Send>) {
    if let Err(again) = catch_unwind(AssertUnwindSafe(move || drop(payload))) {
        std::mem::forget(again);
    }
}

/// A handle to a task's future result. Dropping it does not end the task.
pub struct JoinHandle<T> {
    shared: Rc<Shared<T>>,
    task: AbortHandle,
}

impl<T> JoinHandle<T> {
    pub(super) fn new(shared: Rc<Shared<T>>, task: AbortHandle) -> JoinHandle<T> {
        JoinHandle { shared, task }
    }

    /// Cancels the task: its future is dropped soon, but not within this call. No effect on a
    /// finished task.
    pub fn abort(&self) {
        self.task.abort();
    }

    /// Returns a handle that can cancel the task but does not give its result.
    pub fn abort_handle(&self) -> AbortHandle {
        self.task
    }

    /// True if the task has ended, normally or not.
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

    /// Pending for ever once the result has been taken.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T, JoinError>> {
        match self.shared.result.take() {
            Some(result) => Poll::Ready(result),
            None => {
                self.shared.waiter.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        }
    }
}
