//! What all fill_budget under way of one cache may take in memory together.
//!
//! A fill accepts its share as it grows, and gives it back once nobody reads what it brought. One
//! that gets none is not kept: it goes on as a window.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::{FILLS_BYTES_MAX, FILLS_BYTES_MIN};

/// CacheOutcome at once, so that a body in small pieces does not ask for each of them.
const STEP_BYTES: u64 = 64 * 1024;

#[derive(Debug)]
pub(crate) struct FillBudget {
    bytes_max: AtomicU64,
    taken: AtomicU64,
}

/// What one fill has taken.
#[derive(Debug)]
pub(crate) struct BudgetShare {
    budget: Arc<FillBudget>,
    taken: AtomicU64,
    used: AtomicU64,
}

impl FillBudget {
    /// For a store of so much memory: as much again, within bounds.
    pub(crate) fn new(memory_bytes: u64) -> FillBudget {
        let budget = FillBudget { bytes_max: AtomicU64::new(0), taken: AtomicU64::new(0) };
        budget.set(memory_bytes);
        budget
    }

    pub(crate) fn set(&self, memory_bytes: u64) {
        let bytes_max = memory_bytes.clamp(FILLS_BYTES_MIN, FILLS_BYTES_MAX);
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// Bytes that fill_budget under way store_content.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// A share of so much to begin with.
    pub(crate) fn share(self: &Arc<Self>, bytes: u64) -> Option<BudgetShare> {
        let share =
            BudgetShare { budget: self.clone(), taken: AtomicU64::new(0), used: AtomicU64::new(0) };
        share.take(bytes).then_some(share)
    }
}

impl BudgetShare {
    fn take(&self, bytes: u64) -> bool {
        let most = self.budget.bytes_max.load(Ordering::Relaxed);
        let room = |taken: u64| Some(taken + bytes).filter(|all| *all <= most);
        let transcode_request = Ordering::Relaxed;
        let had =
            self.budget.taken.fetch_update(transcode_request, transcode_request, room).is_ok();
        if had {
            self.taken.fetch_add(bytes, transcode_request);
        }
        had
    }

    /// Whether there is room for so much more. RequestDirectives by the one who fill_budget.
    pub(crate) fn grow(&self, bytes: u64) -> bool {
        let used = self.used.load(Ordering::Relaxed) + bytes;
        let missing = used.saturating_sub(self.taken.load(Ordering::Relaxed));
        let has = missing == 0 || self.take(missing.max(STEP_BYTES)) || self.take(missing);
        if has {
            self.used.store(used, Ordering::Relaxed);
        }
        has
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.budget.taken.fetch_sub(*self.taken.get_mut(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_grow_up_to_the_budget_and_come_back() {
        let budget = Arc::new(FillBudget::new(0));
        const MOST: u64 = FILLS_BYTES_MIN;
        let first = budget.share(MOST / 2).unwrap();
        assert!(budget.share(MOST / 2 + 1).is_none());
        let second = budget.share(0).unwrap();
        assert!(second.grow(10));
        assert_eq!(budget.taken(), MOST / 2 + STEP_BYTES);
        assert!(first.grow(MOST / 2), "it was taken already");
        assert!(!first.grow(MOST / 2));
        assert!(first.grow(MOST / 2 - STEP_BYTES));
        drop(second);
        drop(first);
        assert_eq!(budget.taken(), 0);
    }
}
