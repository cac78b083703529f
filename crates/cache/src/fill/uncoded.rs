//! Undoing the coding that the origin was asked for, for a client that does not take it.

use std::task::{Context, Poll};

use coding::Coding;
use exchange::{Body, BodyStream, Fault, Frame, Headers, Request, Response};
use wire::Known;
use wire::negotiate::accepts_coding;

use super::decoded::Decoded;

/// The coding of a representation, if it is one that we know.
pub(super) fn coding_of(head: &Headers) -> Option<Coding> {
    head.get_str(Known::ContentEncoding).and_then(|token| Coding::parse(token.trim()))
}

/// Undoes a coding that the client does not take, in fields and body. `Err` has a body that was
/// changed.
pub(crate) fn uncode(
    headers: &mut Headers,
    body: Body,
    coding: Option<Coding>,
    request: &Request,
) -> Result<Body, Body> {
    let Some(coding) = coding else { return Ok(body) };
    let accepted = request.headers.joined(Known::AcceptEncoding);
    if accepts_coding(accepted.as_deref(), coding.token()) {
        return Ok(body);
    }
    headers.remove(Known::ContentEncoding);
    headers.remove(Known::ContentLength);
    if let Some(tag) = headers.get(Known::Etag).and_then(suffixed) {
        headers.set(Known::Etag, tag);
    }
    Err(match Decoded::new(body, coding) {
        Ok(decoded) => Body::stream(decoded),
        Err(fault) => Body::stream(Broken(Some(fault))),
    })
}

/// The tag of the same representation without its coding: other bytes, another tag (RFC 9110
/// 8.8.3.3).
fn suffixed(tag: &[u8]) -> Option<Vec<u8>> {
    Some([tag.strip_suffix(b"\"")?, b"-identity\""].concat())
}

/// Makes what came and is not stored acceptable to a client: the origin was asked for a coding of
/// our choice.
pub(crate) fn take_as_is(response: &mut Response, request: &Request) {
    let Some(coding) = coding_of(&response.headers) else { return };
    let body = std::mem::take(&mut response.body);
    response.body = match uncode(&mut response.headers, body, Some(coding), request) {
        Ok(body) | Err(body) => body,
    };
    vary_by_coding(&mut response.headers);
}

/// RFC 9110 12.5.5: what is given in several codings says so.
pub(super) fn vary_by_coding(headers: &mut Headers) {
    if !headers.lists_token(Known::Vary, "accept-encoding") {
        headers.append(Known::Vary, "Accept-Encoding");
    }
}

/// A body that cannot even begin.
struct Broken(Option<Fault>);

impl BodyStream for Broken {
    fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        Poll::Ready(self.0.take().map(Err))
    }

    fn length(&self) -> Option<u64> {
        None
    }
}
