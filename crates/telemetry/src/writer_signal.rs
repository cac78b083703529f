//! How workers wake the thread that writes a log.
//!
//! A wake-up costs a system call, so a worker sends one only to a thread that sleeps. Promises that
//! no line is left in a ring while the thread sleeps; `tests/models` shows it for every order of
//! the steps.

use crate::sync::{AtomicBool, Ordering, Thread, fence, park};
use std::sync::OnceLock;

/// Wakes the writer's thread, once per sleep.
#[derive(Debug, Default)]
pub(crate) struct WriterSignal {
    asleep: AtomicBool,
    thread: OnceLock<Thread>,
}

impl WriterSignal {
    /// Sets the thread to wake; only the first call has an effect.
    pub(crate) fn set_thread(&self, thread: Thread) {
        self.thread.get_or_init(|| thread);
    }

    /// Wakes the thread if it sleeps. Called after a push.
    pub(crate) fn notify(&self) {
        // Orders the push before the load of `asleep`; `sleep` does the opposite, so that one of
        // the two sees the other.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Release) {
            self.wake();
        }
    }

    /// Wakes the thread whether it sleeps or not.
    pub(crate) fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Sleeps until notified, unless there is work.
    pub(crate) fn sleep(&self, nothing_to_do: impl Fn() -> bool) {
        // A swap that acquires, for a worker which saw the previous sleep and clears the flag only
        // now: that comes before this sleep.
        self.asleep.swap(true, Ordering::Acquire);
        fence(Ordering::SeqCst);
        if nothing_to_do() {
            park();
        }
        self.asleep.store(false, Ordering::Relaxed);
    }
}
