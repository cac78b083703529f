//! The last errors of programs as JSON: of Lua code, and of applications and their processes.

use serde_json::{Value as Json, json};
use telemetry::ErrorRecord;

use crate::messages::time;

pub(crate) fn errors(errors: &[ErrorRecord]) -> Json {
    errors.iter().map(error).collect()
}

pub(crate) fn error(error: &ErrorRecord) -> Json {
    json!({
        "at": time(error.at_ms),
        "first": time(error.first_ms),
        "times": error.times,
        "worker": error.worker,
        "route": error.route,
        "request": error.request,
        "file": error.file,
        "message": error.message,
        "traceback": error.traceback,
        "trace_id": error.trace_id,
    })
}
