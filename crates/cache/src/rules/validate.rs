//! Asking the origin whether a stored response still holds (RFC 9111 4.3.1), and what its answer
//! means (4.3.3).

use exchange::Headers;
use wire::Known;

/// Makes a request, which has no conditions of its own any more, a validation of a stored response.
pub fn add_conditions(stored: &Headers, request: &mut Headers) {
    let pairs = [(Known::Etag, Known::IfNoneMatch), (Known::LastModified, Known::IfModifiedSince)];
    for (validator, condition) in pairs {
        if let Some(value) = stored.get(validator) {
            request.append(condition, value);
        }
    }
}

/// What the answer to a validation means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidationResponse {
    /// 304, about the stored response: it is merged and used.
    Revalidated,
    /// 304, about something else: the request is made again without conditions.
    OtherRepresentation,
    /// The server failed (RFC 5861 4 names the statuses): the stored response may be used if it may
    /// be stale ([`super::reuse::may_serve_on_error`]), or the answer is passed on.
    ServerError,
    /// A whole answer of its own, which takes the stored one's place if it may be stored.
    Full,
}

/// Reads the answer's status and fields.
pub fn classify(stored: &Headers, status: u16, headers: &Headers) -> ValidationResponse {
    match status {
        304 if super::merge::confirms(stored, headers) => ValidationResponse::Revalidated,
        304 => ValidationResponse::OtherRepresentation,
        500 | 502 | 503 | 504 => ValidationResponse::ServerError,
        _ => ValidationResponse::Full,
    }
}
