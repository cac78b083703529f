//! The pause before a worker that ended early is started again.

use std::time::Duration;

use super::limits::{BACK_OFF_MAX, BACK_OFF_MIN, LIVED};

/// Doubles after each failure, until a worker has run for [`LIVED`](super::limits::LIVED).
#[derive(Debug, Default)]
pub(crate) struct BackOff {
    failures: u32,
}

impl BackOff {
    /// Returns the pause after a worker of this age has ended; none if it has run long enough.
    pub(crate) fn after(&mut self, age: Duration) -> Duration {
        if age >= LIVED {
            self.failures = 0;
            return Duration::ZERO;
        }
        let doubled = BACK_OFF_MIN.saturating_mul(1 << self.failures.min(16));
        self.failures += 1;
        doubled.min(BACK_OFF_MAX)
    }

    /// Forgets earlier failures: the next start has no pause.
    pub(crate) fn forget(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound_and_end_with_a_life() {
        let mut back_off = BackOff::default();
        let pauses: Vec<u128> =
            (0..11).map(|_| back_off.after(Duration::from_secs(1)).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600, 30000, 30000]);
        assert_eq!(back_off.after(LIVED), Duration::ZERO);
        assert_eq!(back_off.after(Duration::ZERO), BACK_OFF_MIN);
        back_off.after(Duration::ZERO);
        back_off.forget();
        assert_eq!(back_off.after(Duration::ZERO), BACK_OFF_MIN);
    }
}
