//! Errors in the format of OpenAI's API, which its client libraries read.

use message::{Headers, Response};
use serde_json::json;

/// An error that the client gets.
#[derive(Debug)]
pub(crate) struct ApiError {
    pub(crate) status: u16,
    /// A word of a fixed vocabulary: `code` of the error, and the reason in counters and logs.
    pub(crate) code: &'static str,
    /// A sentence for the client. It names nothing of a provider but what the client sent.
    pub(crate) message: String,
    /// The member of the request that is wrong.
    pub(crate) param: Option<&'static str>,
    /// Fields of the response.
    pub(crate) headers: Headers,
}

impl ApiError {
    pub(crate) fn new(status: u16, code: &'static str, message: impl Into<String>) -> ApiError {
        ApiError { status, code, message: message.into(), param: None, headers: Headers::new() }
    }

    /// A request without a valid `model`.
    pub(crate) fn of_model(status: u16, code: &'static str, message: String) -> ApiError {
        ApiError { param: Some("model"), ..ApiError::new(status, code, message) }
    }

    pub(crate) fn response(self) -> Response {
        let kind = match self.status {
            429 => "tokens",
            500.. => "server_error",
            _ => "invalid_request_error",
        };
        let ApiError { code, message, param, .. } = &self;
        let error = json!({
            "error": { "message": message, "type": kind, "param": param, "code": code }
        });
        let mut response = Response::json(self.status, error.to_string());
        for field in self.headers.iter() {
            response.headers.append(field.name, field.value);
        }
        response
    }
}
