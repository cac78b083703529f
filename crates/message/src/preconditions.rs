//! The conditions of a request, as its fields say them (RFC 9110 13).

use wire::conditional::{PreconditionResult, Preconditions, Validators, evaluate, if_range};
use wire::{Known, Method};

use crate::{Headers, Request};

const CONDITIONS: [Known; 4] =
    [Known::IfMatch, Known::IfNoneMatch, Known::IfModifiedSince, Known::IfUnmodifiedSince];

/// What the preconditions of a request say of a representation with these validators.
pub fn preconditions(request: &Request, have: &Validators<'_>) -> PreconditionResult {
    let headers = &request.headers;
    if !headers.contains_any(&CONDITIONS) {
        return PreconditionResult::Proceed;
    }
    let (if_match, if_none_match) =
        (headers.joined(Known::IfMatch), headers.joined(Known::IfNoneMatch));
    let conditions = Preconditions {
        if_match: if_match.as_deref(),
        if_none_match: if_none_match.as_deref(),
        if_modified_since: headers.get(Known::IfModifiedSince),
        if_unmodified_since: headers.get(Known::IfUnmodifiedSince),
    };
    evaluate(&request.method, &conditions, have)
}

/// The Range to honour: only GET has one (RFC 9110 14.2), and one with an If-Range that does not
/// hold is ignored (13.1.5).
pub fn asked_range<'r>(request: &'r Request, have: &Validators<'_>) -> Option<&'r [u8]> {
    let headers: &Headers = &request.headers;
    let conditions = headers.get(Known::Range).filter(|_| request.method == Method::Get)?;
    let holds = |value| if_range(value, have, net::clock::wall_secs());
    headers.get(Known::IfRange).is_none_or(holds).then_some(conditions)
}
