//! How many connections are open at once, and how many may be.
//!
//! Counted once when a connection is accepted and once when it ends, never while it is served.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A number of seats that workers share.
#[derive(Debug)]
pub(crate) struct Seats {
    taken: AtomicUsize,
    limit: AtomicUsize,
}

impl Seats {
    pub(crate) fn new(limit: usize) -> Arc<Seats> {
        Arc::new(Seats { taken: AtomicUsize::new(0), limit: AtomicUsize::new(limit) })
    }

    /// Changes how many there may be; who sits stays.
    pub(crate) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// A seat, unless all are taken.
    pub(crate) fn take(self: &Arc<Self>) -> Option<Seat> {
        let before = self.taken.fetch_add(1, Ordering::Relaxed);
        let seat = Seat { seats: self.clone() };
        (before < self.limit.load(Ordering::Relaxed)).then_some(seat)
    }
}

/// One connection's seat.
#[derive(Debug)]
pub(crate) struct Seat {
    seats: Arc<Seats>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seats_run_out_and_come_back() {
        let seats = Seats::new(1);
        let first = seats.take();
        assert!(first.is_some());
        assert!(seats.take().is_none());
        assert_eq!(seats.taken(), 1);
        drop(first);
        assert!(seats.take().is_some());
        seats.set_limit(0);
        assert!(seats.take().is_none());
        assert_eq!(seats.taken(), 0);
    }
}
