//! The exceptions that requests and jobs raise in a worker process: as its messages have them, and
//! the list of its group that they are added to.

use std::sync::Arc;

use serde_json::{Value, json};
use telemetry::{ErrorRecord, RecentErrors};

/// Where the exceptions of a worker process are recorded.
pub(super) struct RequestErrors {
    /// Those of all processes of the group.
    pub(super) errors: Arc<RecentErrors>,
    pub(super) worker: usize,
}

impl RequestErrors {
    /// Adds what a message of the process has.
    pub(super) fn add(&self, errors: Vec<ErrorRecord>) {
        for error in errors {
            self.errors.merge(ErrorRecord { worker: self.worker, ..error });
        }
    }
}

pub(super) fn to_json(errors: &[ErrorRecord]) -> Value {
    let one = |error: &ErrorRecord| {
        json!({
            "at_ms": error.at_ms,
            "first_ms": error.first_ms,
            "times": error.times,
            "request": error.request,
            "message": error.message,
            "traceback": error.traceback,
            "trace_id": error.trace_id,
        })
    };
    errors.iter().map(one).collect()
}

pub(super) fn from_json(value: &Value) -> Option<Vec<ErrorRecord>> {
    let one = |value: &Value| {
        let number = |key: &str| value[key].as_u64();
        let text = |key: &str| value[key].as_str().map(str::to_owned);
        Some(ErrorRecord {
            at_ms: number("at_ms")?,
            first_ms: number("first_ms")?,
            times: number("times")?,
            request: text("request"),
            message: text("message")?,
            traceback: text("traceback")?,
            trace_id: text("trace_id"),
            ..ErrorRecord::default()
        })
    };
    value.as_array()?.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_arrive_as_they_were_sent_with_the_worker_of_the_slot() {
        let sent = ErrorRecord {
            at_ms: 2_000,
            first_ms: 1_000,
            times: 3,
            request: Some("GET /<b>".to_owned()),
            message: "ValueError: \u{fffd}\0".to_owned(),
            traceback: "Traceback\n  File \"shop.py\", line 3\n".to_owned(),
            trace_id: Some("0af7651916cd43dd8448eb211c80319c".to_owned()),
            ..ErrorRecord::default()
        };
        let received = from_json(&to_json(std::slice::from_ref(&sent))).expect("a message");
        assert_eq!(received, std::slice::from_ref(&sent));
        let errors = RequestErrors { errors: Arc::default(), worker: 4 };
        errors.add(received);
        assert_eq!(errors.errors.latest(), [ErrorRecord { worker: 4, ..sent }]);
        assert_eq!(from_json(&json!([{ "at_ms": 1 }])), None);
    }
}
