//! The last failures of a group's processes, for the admin API.

use std::cell::RefCell;
use std::collections::VecDeque;

use telemetry::timestamp;

use super::limits::{FAILURE_BYTES, FAILURES};

/// A process that could not be started, has ended by itself, or was killed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProcessFailure {
    /// When it happened last, Unix time in milliseconds.
    pub(crate) at_ms: u64,
    pub(crate) times: u64,
    pub(crate) worker: usize,
    /// What happened, with the stack where it is known.
    pub(crate) text: String,
}

/// A limited number of failures; one that is repeated is counted.
#[derive(Default)]
pub(crate) struct ProcessFailures(RefCell<VecDeque<ProcessFailure>>);

impl ProcessFailures {
    pub(super) fn add(&self, worker: usize, text: &str) {
        let text = text[..text.floor_char_boundary(FAILURE_BYTES)].to_owned();
        let at_ms = timestamp::now_ms();
        let mut failure = ProcessFailure { at_ms, times: 1, worker, text };
        let mut failures = self.0.borrow_mut();
        let is_same = |known: &ProcessFailure| known.worker == worker && known.text == failure.text;
        if let Some(known) = failures.iter().position(is_same).and_then(|at| failures.remove(at)) {
            failure.times += known.times;
        } else if failures.len() >= FAILURES {
            failures.pop_front();
        }
        failures.push_back(failure);
    }

    /// Returns the failures, the latest first.
    pub(crate) fn latest(&self) -> Vec<ProcessFailure> {
        self.0.borrow().iter().rev().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::{FAILURE_BYTES, FAILURES};
    use super::ProcessFailures;

    #[test]
    fn the_last_failures_are_stored_once_each() {
        let failures = ProcessFailures::default();
        let shown = || -> Vec<(usize, String, u64)> {
            let latest = failures.latest().into_iter();
            latest.map(|one| (one.worker, one.text, one.times)).collect()
        };
        for (worker, text) in [(0, "a"), (1, "a"), (0, "b"), (0, "a")] {
            failures.add(worker, text);
        }
        let expected = [(0, "a", 2), (0, "b", 1), (1, "a", 1)];
        assert_eq!(shown(), expected.map(|(worker, text, n)| (worker, text.to_owned(), n)));
        for n in 0..FAILURES {
            failures.add(0, &format!("{n} {}", "é".repeat(FAILURE_BYTES)));
        }
        let all = shown();
        assert_eq!(all.len(), FAILURES);
        assert!(all.iter().all(|(_, text, _)| text.len() <= FAILURE_BYTES && text.contains('é')));
    }
}
