//! How late the event loop of a worker is.
//!
//! The loop announces when it will run next and records how late it was. A loop that does not run
//! gets later from then on, which only readers on other threads notice.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Milliseconds of this module's clock.
fn now_ms() -> u64 {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    // From 1: 0 means that nothing is due.
    u64::try_from(START.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}

/// The lag of one loop, in milliseconds. Written by its thread, read by any.
#[derive(Debug, Default)]
pub struct LoopLag {
    /// When the loop is to run next; 0 while it is not measured.
    due_ms: AtomicU64,
    late_ms: AtomicU64,
}

impl LoopLag {
    /// Announces that the loop will run after this time.
    pub fn expect(&self, after: Duration) {
        self.expect_at(now_ms().saturating_add(u64::try_from(after.as_millis()).unwrap_or(0)));
    }

    /// Records that the loop runs, as announced.
    pub fn arrived(&self) {
        self.arrived_at(now_ms());
    }

    /// Ends the measurement: the lag is 0 from now on.
    pub fn end(&self) {
        self.due_ms.store(0, Relaxed);
        self.late_ms.store(0, Relaxed);
    }

    /// How late the loop was last, or how late it is if that is more.
    pub fn ms(&self) -> u64 {
        self.ms_at(now_ms())
    }

    fn expect_at(&self, due_ms: u64) {
        self.due_ms.store(due_ms, Relaxed);
    }

    fn arrived_at(&self, now_ms: u64) {
        self.late_ms.store(now_ms.saturating_sub(self.due_ms.load(Relaxed)), Relaxed);
    }

    fn ms_at(&self, now_ms: u64) -> u64 {
        let overdue_ms = match self.due_ms.load(Relaxed) {
            0 => 0,
            due_ms => now_ms.saturating_sub(due_ms),
        };
        self.late_ms.load(Relaxed).max(overdue_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::LoopLag;

    #[test]
    fn a_loop_is_as_late_as_it_was_last_or_is_now() {
        let lag = LoopLag::default();
        assert_eq!(lag.ms_at(5_000), 0, "not measured");
        lag.expect_at(1_000);
        assert_eq!((lag.ms_at(900), lag.ms_at(1_000), lag.ms_at(3_500)), (0, 0, 2_500));
        lag.arrived_at(1_007);
        lag.expect_at(2_000);
        assert_eq!((lag.ms_at(1_500), lag.ms_at(2_005), lag.ms_at(2_100)), (7, 7, 100));
        lag.arrived_at(2_000);
        lag.expect_at(3_000);
        assert_eq!(lag.ms_at(2_500), 0);
        lag.end();
        assert_eq!(lag.ms_at(9_000), 0);
    }
}
