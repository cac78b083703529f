//! The memory that all fetches in flight of one cache may take together.
//!
//! A fetch takes its share as its content grows, and returns it when the content has no reader
//! left. Content that gets no share is not stored: it passes through a bounded window.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::{FILLS_BYTES_MAX, FILLS_BYTES_MIN};

/// Taken at once, so that a body in small pieces does not need an atomic operation for each.
const STEP_BYTES: u64 = 64 * 1024;

#[derive(Debug)]
pub(crate) struct FillBudget {
    bytes_max: AtomicU64,
    taken: AtomicU64,
}

/// The share of one fetch.
#[derive(Debug)]
pub(crate) struct BudgetShare {
    budget: Arc<FillBudget>,
    taken: AtomicU64,
    used: AtomicU64,
}

impl FillBudget {
    /// A budget for a store of that much memory: the same again, within bounds.
    pub(crate) fn new(memory_bytes: u64) -> FillBudget {
        let budget = FillBudget { bytes_max: AtomicU64::new(0), taken: AtomicU64::new(0) };
        budget.set(memory_bytes);
        budget
    }

    pub(crate) fn set(&self, memory_bytes: u64) {
        let bytes_max = memory_bytes.clamp(FILLS_BYTES_MIN, FILLS_BYTES_MAX);
        self.bytes_max.store(bytes_max, Ordering::Relaxed);
    }

    /// Bytes that fetches in flight hold.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Takes a share with that many bytes; `None` if the budget has no room for them.
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

    /// Takes room for so many more bytes; false if there is none. To be called by one writer.
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
