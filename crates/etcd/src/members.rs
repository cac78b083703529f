//! Which member is used, and how long to wait after all have failed.

use std::cell::Cell;
use std::time::Duration;

use crate::limits::PAUSE_MAX;

/// The member that all calls of a client use until it fails.
pub(crate) struct Members {
    current: Cell<usize>,
    count: usize,
}

impl Members {
    /// Begins with any of them, so that the clients of a cluster are spread over its members.
    pub(crate) fn new(count: usize) -> Members {
        Members { current: Cell::new(fastrand::usize(..count.max(1))), count: count.max(1) }
    }

    pub(crate) fn current(&self) -> usize {
        self.current.get()
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Uses the next member from now on, unless another call already has left this one.
    pub(crate) fn leave(&self, failed: usize) {
        if self.current.get() == failed {
            self.current.set((failed + 1) % self.count);
        }
    }
}

/// The pause after a number of failures: `first` doubled with each, up to a bound. Up to half of it
/// is left out at random, so that clients that failed together do not return together.
pub fn pause(first: Duration, failures: u32) -> Duration {
    let longest = first.saturating_mul(1 << failures.min(16)).min(PAUSE_MAX.max(first));
    longest.mul_f64(0.5 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_left_once() {
        let members = Members::new(3);
        let first = members.current();
        members.leave(first);
        members.leave(first);
        assert_eq!(members.current(), (first + 1) % 3);
        assert_eq!(Members::new(0).count(), 1);
    }

    #[test]
    fn pauses_grow_and_differ() {
        let first = Duration::from_millis(100);
        for failures in 0..40 {
            let longest = PAUSE_MAX.min(first * (1 << failures.min(10)));
            let one = pause(first, failures);
            assert!(one <= longest && one >= longest / 2, "{failures}: {one:?}");
        }
        let long = Duration::from_secs(60);
        assert!(pause(long, 3) >= long / 2, "a longer pause is what the user chose");
        let some: Vec<Duration> = (0..8).map(|_| pause(first, 4)).collect();
        assert!(some.iter().any(|one| *one != some[0]));
    }
}
