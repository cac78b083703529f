//! Anthropic's Messages API: requests of chat completions are translated to it, responses and
//! streams from it.
//!
//! Promises that what has no counterpart is an error and never silently left out, except for
//! sampling parameters that only nudge a model. Written from the public documentation of both APIs.

mod request;
mod response;
mod stream;

pub(crate) use request::translate as request;
pub(crate) use response::{error, translate as response};
pub(crate) use stream::TranslatedStream;

/// The version of the API that is spoken.
pub(crate) const VERSION: &str = "2023-06-01";
/// The longest response, and the longest event of a stream, that is translated.
pub(crate) const RESPONSE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Why a response ended, in the words of chat completions.
fn finish_reason(stop_reason: &str) -> &'static str {
    match stop_reason {
        "max_tokens" | "model_context_window_exceeded" => "length",
        "tool_use" => "tool_calls",
        "refusal" => "content_filter",
        // `end_turn`, `stop_sequence`, and `pause_turn`, after which the client may continue.
        _ => "stop",
    }
}
