//! The last errors of the code that a server runs, with their tracebacks, for the admin API: of Lua
//! scripts, and of an application and its processes.
//!
//! Promises a limited number of errors of limited length, and that an error that is repeated is
//! counted and takes the place of no other.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::escape::cut;
use crate::limits::{ERROR_BYTES, ERROR_ORIGIN_BYTES, ERROR_TRACEBACK_BYTES, RECENT_ERRORS};
use crate::timestamp;

/// An error that the code did not handle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ErrorRecord {
    /// When it happened last and first, Unix time in milliseconds.
    pub at_ms: u64,
    pub first_ms: u64,
    pub times: u64,
    /// The worker on which it happened last.
    pub worker: usize,
    /// The route of the request that was handled.
    pub route: Option<String>,
    /// Method and path of the last request, where its route is not known.
    pub request: Option<String>,
    /// The file of the function that the coroutine began with.
    pub file: Option<String>,
    pub message: String,
    /// The traceback, several lines; empty if there is none.
    pub traceback: String,
    /// The identity of the last request's trace, if requests are traced.
    pub trace_id: Option<String>,
}

impl ErrorRecord {
    fn is_same(&self, other: &ErrorRecord) -> bool {
        (&self.route, &self.file, &self.message, &self.traceback)
            == (&other.route, &other.file, &other.message, &other.traceback)
    }
}

/// The last errors.
#[derive(Debug, Default)]
pub struct RecentErrors(Mutex<VecDeque<ErrorRecord>>);

impl RecentErrors {
    fn errors(&self) -> MutexGuard<'_, VecDeque<ErrorRecord>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an error of this moment; its times are set here.
    pub fn add(&self, error: ErrorRecord) {
        let at_ms = timestamp::now_ms();
        self.merge(ErrorRecord { at_ms, first_ms: at_ms, times: 1, ..error });
    }

    /// Adds an error of another list, as often as it happened there.
    pub fn merge(&self, mut error: ErrorRecord) {
        shorten(&mut error.message, ERROR_BYTES);
        shorten(&mut error.traceback, ERROR_TRACEBACK_BYTES);
        for origin in [&mut error.file, &mut error.request].into_iter().flatten() {
            shorten(origin, ERROR_ORIGIN_BYTES);
        }
        let mut errors = self.errors();
        let known = errors.iter().position(|known| known.is_same(&error));
        if let Some(known) = known.and_then(|at| errors.remove(at)) {
            error.first_ms = known.first_ms.min(error.first_ms);
            error.times = known.times.saturating_add(error.times);
        } else if errors.len() >= RECENT_ERRORS {
            errors.pop_front();
        }
        errors.push_back(error);
    }

    /// Returns the errors, the latest first.
    pub fn latest(&self) -> Vec<ErrorRecord> {
        self.errors().iter().rev().cloned().collect()
    }

    /// Removes the errors and returns them, the latest last.
    pub fn take(&self) -> Vec<ErrorRecord> {
        std::mem::take(&mut *self.errors()).into()
    }
}

/// Shortens a text at a character boundary.
fn shorten(text: &mut String, most: usize) {
    let end = cut(text, most).len();
    text.truncate(end);
}

#[cfg(test)]
mod tests {
    use super::{ErrorRecord, RecentErrors};
    use crate::limits::{ERROR_BYTES, ERROR_ORIGIN_BYTES, ERROR_TRACEBACK_BYTES, RECENT_ERRORS};

    fn error(message: &str) -> ErrorRecord {
        ErrorRecord { message: message.to_owned(), ..ErrorRecord::default() }
    }

    fn shown(errors: &RecentErrors) -> Vec<(String, u64)> {
        errors.latest().into_iter().map(|error| (error.message, error.times)).collect()
    }

    #[test]
    fn the_last_errors_are_stored_once_each() {
        let errors = RecentErrors::default();
        for message in ["a", "b", "a"] {
            errors.add(error(message));
        }
        assert_eq!(shown(&errors), [("a".to_owned(), 2), ("b".to_owned(), 1)]);
        errors.add(ErrorRecord { route: Some("shop".to_owned()), ..error("a") });
        assert_eq!(shown(&errors).len(), 3, "another route");
        let request = |path: &str| Some(format!("GET {path}"));
        for (worker, path) in [(4, "/a"), (5, "/b")] {
            errors.add(ErrorRecord { worker, request: request(path), ..error("c") });
        }
        let last = &errors.latest()[0];
        assert_eq!((last.times, last.worker, &last.request), (2, 5, &request("/b")));
    }

    #[test]
    fn number_and_length_are_limited() {
        let errors = RecentErrors::default();
        for n in 0..=RECENT_ERRORS {
            errors.add(ErrorRecord {
                request: Some("é".repeat(ERROR_ORIGIN_BYTES)),
                traceback: "é".repeat(ERROR_TRACEBACK_BYTES),
                ..error(&format!("{n} {}", "é".repeat(ERROR_BYTES)))
            });
        }
        let all = errors.take();
        assert_eq!((all.len(), errors.take()), (RECENT_ERRORS, Vec::new()));
        assert!(all[0].message.starts_with("1 é"), "{}", all[0].message);
        for error in &all {
            assert!(error.message.len() <= ERROR_BYTES);
            assert!(error.traceback.len() <= ERROR_TRACEBACK_BYTES);
            assert!(error.request.as_ref().is_some_and(|text| text.len() <= ERROR_ORIGIN_BYTES));
        }
    }

    #[test]
    fn lists_are_added_up() {
        let errors = RecentErrors::default();
        let of = |at_ms, times| ErrorRecord { at_ms, first_ms: at_ms - 5, times, ..error("a") };
        errors.merge(of(1_000, 3));
        errors.merge(of(2_000, 4));
        let last = &errors.latest()[0];
        assert_eq!((last.first_ms, last.at_ms, last.times), (995, 2_000, 7));
    }
}
