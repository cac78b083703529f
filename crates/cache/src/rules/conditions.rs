//! Conditions of clients against a stored response (RFC 9111 4.3.2).

use message::Headers;
use wire::conditional::{EntityTag, PreconditionResult, Preconditions, Validators, evaluate};
use wire::date::parse_http_date;
use wire::{Known, Method};

/// Evaluates a client's conditions against a stored response: the whole response or 304. The first
/// of `etags` is that of the selected coding, the second that of the origin, which the client may
/// have from elsewhere.
///
/// Only a 200 has conditions (RFC 9110 13.2.1). Requests with If-Match and If-Unmodified-Since are
/// forwarded.
pub fn conditions(
    request: &Headers,
    status: u16,
    stored: &Headers,
    etags: [Option<&[u8]>; 2],
    received_secs: u64,
) -> PreconditionResult {
    if status != 200 {
        return PreconditionResult::Proceed;
    }
    let if_none_match = request.joined(Known::IfNoneMatch);
    let preconditions = Preconditions {
        if_none_match: if_none_match.as_deref(),
        if_modified_since: request.get(Known::IfModifiedSince),
        ..Preconditions::default()
    };
    if preconditions.if_none_match.is_none() && preconditions.if_modified_since.is_none() {
        return PreconditionResult::Proceed;
    }
    let date = |known| stored.get(known).and_then(parse_http_date);
    let last_modified = date(Known::LastModified).or_else(|| date(Known::Date));
    let last_modified = Some(last_modified.unwrap_or(received_secs));
    let outcomes = etags.map(|etag| {
        let etag = etag.and_then(EntityTag::parse);
        evaluate(&Method::Get, &preconditions, &Validators { exists: true, etag, last_modified })
    });
    match outcomes.contains(&PreconditionResult::NotModified) {
        true => PreconditionResult::NotModified,
        false => PreconditionResult::Proceed,
    }
}
