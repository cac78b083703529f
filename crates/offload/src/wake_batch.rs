//! Wakes of the worker that are kept back for a moment, to be one wake for many answers.
//!
//! A thread that answers a queue of exchanges would wake the worker for each: a system call, and on
//! a shared core a change of threads. While a thread [`hold`]s, what it would wake is remembered,
//! and [`release`] wakes it all. The holder is responsible for the delay: hold for no longer than
//! a few responses take, or let another thread release it ([`mine`]).

use std::cell::Cell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// The wakes that one thread has deferred.
#[derive(Default)]
pub struct WakeBatch(Mutex<Vec<Waker>>);

thread_local! {
    static HOLDING: Cell<bool> = const { Cell::new(false) };
    static HELD: Arc<WakeBatch> = Arc::default();
}

impl WakeBatch {
    fn wakers(&self) -> MutexGuard<'_, Vec<Waker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Performs the deferred wakes. Any thread may call it.
    pub fn flush(&self) {
        // Taken out first: a waker may be anything.
        let mut wakers = std::mem::take(&mut *self.wakers());
        net::task::wake_all(&mut wakers);
        let mut held = self.wakers();
        if held.capacity() == 0 {
            *held = wakers; // its memory serves the next ones
        }
    }
}

/// Keeps back what this thread wakes from now on.
pub fn hold() {
    HOLDING.set(true);
}

/// Returns the batch of this thread, for a thread that monitors it.
pub fn mine() -> Arc<WakeBatch> {
    HELD.with(Arc::clone)
}

/// Returns the number of deferred wakes.
pub fn deferred_count() -> usize {
    HELD.with(|held| held.wakers().len())
}

/// Wakes what was held back; continues to hold if it did.
pub fn flush() {
    HELD.with(|held| held.flush());
}

/// Performs the deferred wakes and stops deferring.
pub fn release() {
    HOLDING.set(false);
    flush();
}

pub(super) fn wake(waker: Option<Waker>) {
    let Some(waker) = waker else { return };
    if HOLDING.get() {
        HELD.with(|held| held.wakers().push(waker));
    } else {
        waker.wake();
    }
}
