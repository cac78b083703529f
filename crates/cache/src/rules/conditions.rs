//! Conditions of clients against a stored response (RFC 9111 4.3.2).

use exchange::Headers;
use wire::conditional::{EntityTag, Outcome, Preconditions, Validators, evaluate};
use wire::date::parse_http_date;
use wire::{Known, Method};

/// What a client's conditions make of a stored response: the whole of it, or 304. Its own `etag` is
/// the one that the client would be sent (of the coding that was chosen for it); `origins` is the
/// one without our suffix, which it may have from elsewhere.
///
/// Only a 200 has conditions (RFC 9110 13.2.1). If-Match and If-Unmodified-Since are not for caches
/// and never come here.
pub fn conditions(
    request: &Headers,
    status: u16,
    stored: &Headers,
    etags: [Option<&[u8]>; 2],
    received_secs: u64,
) -> Outcome {
    if status != 200 {
        return Outcome::Proceed;
    }
    let if_none_match = request.joined(Known::IfNoneMatch);
    let asked = Preconditions {
        if_none_match: if_none_match.as_deref(),
        if_modified_since: request.get(Known::IfModifiedSince),
        ..Preconditions::default()
    };
    if asked.if_none_match.is_none() && asked.if_modified_since.is_none() {
        return Outcome::Proceed;
    }
    let date = |known| stored.get(known).and_then(parse_http_date);
    let last_modified = date(Known::LastModified).or_else(|| date(Known::Date));
    let last_modified = Some(last_modified.unwrap_or(received_secs));
    let outcomes = etags.map(|etag| {
        let etag = etag.and_then(EntityTag::parse);
        evaluate(&Method::Get, &asked, &Validators { exists: true, etag, last_modified })
    });
    match outcomes.contains(&Outcome::NotModified) {
        true => Outcome::NotModified,
        false => Outcome::Proceed,
    }
}
