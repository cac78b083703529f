//! Validation with the origin (RFC 9111 4.3.1), and the meaning of its response (4.3.3).

use message::Headers;
use wire::Known;

/// Adds the conditions of a stored response to a request that has no conditions of its own.
pub fn add_conditions(stored: &Headers, request: &mut Headers) {
    let pairs = [(Known::Etag, Known::IfNoneMatch), (Known::LastModified, Known::IfModifiedSince)];
    for (validator, condition) in pairs {
        if let Some(value) = stored.get(validator) {
            request.append(condition, value);
        }
    }
}

/// The meaning of the response to a validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValidationResponse {
    /// 304 for the stored response: it is updated and used.
    Revalidated,
    /// 304 for another representation: the request is sent again without conditions.
    OtherRepresentation,
    /// A server error (RFC 5861 4 lists the statuses): the stored response may be used if it may be
    /// stale ([`super::reuse::may_serve_on_error`]), or the error is forwarded.
    ServerError,
    /// A full response, which replaces the stored one if it may be stored.
    Full,
}

/// Classifies the response to a validation.
pub fn classify(stored: &Headers, status: u16, headers: &Headers) -> ValidationResponse {
    match status {
        304 if super::merge::confirms(stored, headers) => ValidationResponse::Revalidated,
        304 => ValidationResponse::OtherRepresentation,
        500 | 502 | 503 | 504 => ValidationResponse::ServerError,
        _ => ValidationResponse::Full,
    }
}
