//! The retry budget: retries as a share of requests, so that a failing upstream does not get a
//! multiple of its load.
//!
//! One token bucket per worker and upstream. A request adds a share of a token, a retry takes one;
//! a few are there from the start and return with time, so that a quiet site may retry as well.

use std::cell::Cell;

use net::clock;

use crate::limits::{RETRIES_FLOOR, RETRIES_PER_SECOND, RETRIES_SAVED};

pub(crate) struct Budget {
    tokens: Cell<f64>,
    refilled_ms: Cell<u64>,
}

impl Budget {
    pub(crate) fn new() -> Budget {
        Budget { tokens: Cell::new(RETRIES_FLOOR), refilled_ms: Cell::new(clock::now().as_ms()) }
    }

    /// Counts a request, `share` of which may be retried.
    pub(crate) fn deposit(&self, share: f64) {
        self.tokens.set((self.tokens.get() + share).min(RETRIES_SAVED));
    }

    /// Takes a retry; false if there is none.
    pub(crate) fn withdraw(&self, now_ms: u64) -> bool {
        let elapsed_ms = now_ms.saturating_sub(self.refilled_ms.replace(now_ms));
        let mut tokens = self.tokens.get();
        if tokens < RETRIES_FLOOR {
            let refill = elapsed_ms as f64 / 1000.0 * RETRIES_PER_SECOND;
            tokens = (tokens + refill).min(RETRIES_FLOOR);
        }
        let granted = tokens >= 1.0;
        self.tokens.set(if granted { tokens - 1.0 } else { tokens });
        granted
    }
}

#[cfg(test)]
mod tests {
    use super::Budget;

    #[test]
    fn retries_are_a_share_of_requests() {
        let budget = Budget::new();
        let now_ms = budget.refilled_ms.get();
        let mut granted = 0;
        for _ in 0..1000 {
            budget.deposit(0.2);
            granted += usize::from(budget.withdraw(now_ms));
        }
        assert!((195..=205).contains(&granted), "{granted}");
    }

    #[test]
    fn a_few_return_with_time() {
        let budget = Budget::new();
        let now_ms = budget.refilled_ms.get();
        let spent = (0..10).filter(|_| budget.withdraw(now_ms)).count();
        assert_eq!(spent, 3);
        assert!(!budget.withdraw(now_ms + 500));
        assert!(budget.withdraw(now_ms + 1000));
        assert!(!budget.withdraw(now_ms + 1000));
        let later = (0..10).filter(|_| budget.withdraw(now_ms + 60_000)).count();
        assert_eq!(later, 3);
    }
}
