//! Wakes of the worker that are kept back for a moment, to be one wake for many answers.
//!
//! A thread that answers a queue of exchanges would wake the worker for each: a system call, and on
//! a shared core a change of threads. While a thread [`hold`]s, what it would wake is remembered,
//! and [`release`] wakes it all. Whoever holds answers for the delay: hold for no longer than a
//! few answers take.

use std::cell::{Cell, RefCell};
use std::task::Waker;

thread_local! {
    static HOLDING: Cell<bool> = const { Cell::new(false) };
    static HELD: RefCell<Vec<Waker>> = const { RefCell::new(Vec::new()) };
}

/// Keeps back what this thread wakes from now on.
pub fn hold() {
    HOLDING.set(true);
}

/// How many wakes are kept back.
pub fn held() -> usize {
    HELD.with_borrow(Vec::len)
}

/// Wakes what was kept back; goes on holding if it did.
pub fn flush() {
    // Taken out one by one: a waker may be anything.
    while let Some(waker) = HELD.with_borrow_mut(Vec::pop) {
        waker.wake();
    }
}

/// Wakes what was kept back, and keeps back no more.
pub fn release() {
    HOLDING.set(false);
    flush();
}

pub(super) fn wake(waker: Option<Waker>) {
    let Some(waker) = waker else { return };
    if HOLDING.get() {
        HELD.with_borrow_mut(|held| held.push(waker));
    } else {
        waker.wake();
    }
}
