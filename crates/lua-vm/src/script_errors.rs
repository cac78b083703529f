//! The last errors of the scripts of a server, with their tracebacks, for the admin API.
//!
//! All VMs write to one list. Promises a limited number of errors of limited length, and that an
//! error that is repeated is counted and takes the place of no other.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use telemetry::{WorkerMetrics, timestamp};

use crate::limits::{SCRIPT_ERROR_BYTES, SCRIPT_ERRORS, SOURCE_PATH_BYTES, TRACEBACK_BYTES};

/// An error of a script that the script did not catch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptError {
    /// When it happened last and first, Unix time in milliseconds.
    pub at_ms: u64,
    pub first_ms: u64,
    pub times: u64,
    /// The worker on which it happened last.
    pub worker: usize,
    /// The route of the request that the coroutine handled.
    pub route: Option<String>,
    /// The file of the function that the coroutine began with.
    pub file: Option<String>,
    pub message: String,
    /// Lua's traceback, several lines.
    pub traceback: String,
    /// The identity of the last request's trace, if requests are traced.
    pub trace_id: Option<String>,
}

impl ScriptError {
    fn is_same(&self, other: &ScriptError) -> bool {
        (&self.route, &self.file, &self.message, &self.traceback)
            == (&other.route, &other.file, &other.message, &other.traceback)
    }
}

/// The last errors of all VMs.
#[derive(Debug, Default)]
pub struct ScriptErrors(Mutex<VecDeque<ScriptError>>);

impl ScriptErrors {
    /// Adds an error of this moment; its times are set here.
    fn add(&self, error: ScriptError) {
        let at_ms = timestamp::now_ms();
        let mut error = ScriptError { at_ms, first_ms: at_ms, times: 1, ..error };
        cut(&mut error.message, SCRIPT_ERROR_BYTES);
        cut(&mut error.traceback, TRACEBACK_BYTES);
        if let Some(file) = &mut error.file {
            cut(file, SOURCE_PATH_BYTES);
        }
        let mut errors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = errors.iter().position(|known| known.is_same(&error)) {
            if let Some(known) = errors.remove(at) {
                (error.first_ms, error.times) = (known.first_ms, known.times.saturating_add(1));
            }
        } else if errors.len() >= SCRIPT_ERRORS {
            errors.pop_front();
        }
        errors.push_back(error);
    }

    /// Returns the errors, the latest first.
    pub fn latest(&self) -> Vec<ScriptError> {
        let errors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        errors.iter().rev().cloned().collect()
    }
}

/// Where the VMs of a worker record errors.
#[derive(Clone, Debug)]
pub struct ErrorRecorder {
    pub errors: Arc<ScriptErrors>,
    pub worker: usize,
    pub metrics: Arc<WorkerMetrics>,
}

impl ErrorRecorder {
    /// Records an error; its worker is set here.
    pub fn record(&self, error: ScriptError) {
        self.metrics.lua.errors.inc();
        self.note(error);
    }

    /// The same for what ended no coroutine, which is not counted.
    pub fn note(&self, error: ScriptError) {
        self.errors.add(ScriptError { worker: self.worker, ..error });
    }
}

/// Shortens a text at a character boundary.
fn cut(text: &mut String, most: usize) {
    text.truncate(text.floor_char_boundary(most));
}

#[cfg(test)]
mod tests {
    use super::{ErrorRecorder, ScriptError, ScriptErrors};
    use crate::limits::{SCRIPT_ERROR_BYTES, SCRIPT_ERRORS};

    fn error(message: &str) -> ScriptError {
        ScriptError { message: message.to_owned(), ..ScriptError::default() }
    }

    #[test]
    fn the_last_errors_are_stored_once_each() {
        let errors = std::sync::Arc::new(ScriptErrors::default());
        let metrics = std::sync::Arc::default();
        let recorder = ErrorRecorder { errors: errors.clone(), worker: 3, metrics };
        let shown = || -> Vec<(String, u64)> {
            errors.latest().into_iter().map(|error| (error.message, error.times)).collect()
        };
        for message in ["a", "b", "a"] {
            recorder.record(error(message));
        }
        assert_eq!(shown(), [("a".to_owned(), 2), ("b".to_owned(), 1)]);
        assert_eq!((errors.latest()[0].worker, recorder.metrics.lua.errors.get()), (3, 3));
        recorder.note(ScriptError { route: Some("shop".to_owned()), ..error("a") });
        assert_eq!((shown().len(), recorder.metrics.lua.errors.get()), (3, 3));
        for n in 0..SCRIPT_ERRORS {
            recorder.record(error(&format!("{n} {}", "é".repeat(SCRIPT_ERROR_BYTES))));
        }
        let all = shown();
        assert_eq!(all.len(), SCRIPT_ERRORS);
        assert!(all[0].0.starts_with(&format!("{} ", SCRIPT_ERRORS - 1)));
        assert!(all.iter().all(|(message, _)| message.len() <= SCRIPT_ERROR_BYTES));
    }
}
