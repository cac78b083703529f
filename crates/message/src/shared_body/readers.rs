//! The readers of a shared body: the last known position of each, and its waker.
//!
//! A reader says so when it has caught up, and for each piece once the body has become a window:
//! the writer may be waiting for the slowest.

use std::task::{Context, Waker};

use slab::Slab;

#[derive(Default)]
pub(super) struct Readers {
    places: Slab<ReaderPosition>,
    /// The writer, while it waits for the slowest.
    writer: Option<Waker>,
    /// Where the slowest was when the writer looked.
    least: usize,
}

#[derive(Default)]
struct ReaderPosition {
    /// The next piece it will read, or an earlier one.
    at: usize,
    waker: Option<Waker>,
}

impl Readers {
    pub(super) fn join(&mut self) -> usize {
        self.places.insert(ReaderPosition::default())
    }

    pub(super) fn count(&self) -> usize {
        self.places.len()
    }

    /// The next piece of the slowest, `None` without any reader; `cx` is woken when that changes.
    pub(super) fn least(&mut self, cx: &Context<'_>) -> Option<usize> {
        self.least = self.places.iter().map(|(_, place)| place.at).min()?;
        self.writer = Some(cx.waker().clone());
        Some(self.least)
    }

    /// A reader has come to the piece `at`.
    pub(super) fn come_to(&mut self, place: usize, at: usize) {
        let before = std::mem::replace(&mut self.places[place].at, at);
        if before <= self.least && at > before {
            self.wake_writer();
        }
    }

    /// A reader has caught up, and is to be woken when there is more.
    pub(super) fn sleep(&mut self, place: usize, at: usize, cx: &Context<'_>) {
        self.come_to(place, at);
        match &mut self.places[place].waker {
            Some(known) if known.will_wake(cx.waker()) => {}
            waker => *waker = Some(cx.waker().clone()),
        }
    }

    pub(super) fn leave(&mut self, place: usize) {
        self.places.remove(place);
        self.wake_writer();
    }

    /// The wakers of readers that have caught up: to be woken without the lock.
    pub(super) fn take_wakers(&mut self) -> Vec<Waker> {
        self.places.iter_mut().filter_map(|(_, place)| place.waker.take()).collect()
    }

    fn wake_writer(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }
}
