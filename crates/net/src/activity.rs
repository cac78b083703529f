//! Counts what the event loop of this thread does, so that a test knows when it is idle.
//!
//! Exists in builds with debug assertions only.

use std::cell::Cell;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Counts a poll of a task or an event of a socket.
pub(crate) fn add() {
    COUNT.set(COUNT.get() + 1);
}

pub(crate) fn count() -> u64 {
    COUNT.get()
}
