//! Decodes responses for clients that do not accept the content coding requested from the origin.

use coding::Coding;
use message::{Body, Fault, Headers, Request, Response};
use wire::Known;
use wire::negotiate::accepts_coding;

use super::decoding_body::{DecodeContext, DecodingBody};

/// The content coding of a response, if it is a single, supported one. Lines of one name are one
/// list (RFC 9110 5.3).
pub(super) fn content_coding(head: &Headers) -> Option<Coding> {
    let codings = head.joined(Known::ContentEncoding)?;
    Coding::parse(std::str::from_utf8(&codings).ok()?.trim())
}

/// True if the client accepts a content coding.
pub(crate) fn accepts(request: &Request, coding: Option<Coding>) -> bool {
    let Some(coding) = coding else { return true };
    let accepted = request.headers.joined(Known::AcceptEncoding);
    accepts_coding(accepted.as_deref(), coding.token())
}

/// Decodes headers and body if the client does not accept the coding; the result says whether it
/// did. Fails if the memory for decoding is exhausted.
pub(crate) fn decode_for_client(
    headers: &mut Headers,
    body: Body,
    coding: Option<Coding>,
    request: &Request,
    decode_context: impl FnOnce() -> DecodeContext,
) -> Result<(Body, bool), Fault> {
    let Some(coding) = coding.filter(|_| !accepts(request, coding)) else {
        return Ok((body, false));
    };
    let body = Body::stream(DecodingBody::new(body, coding, decode_context())?);
    headers.remove(Known::ContentEncoding);
    headers.remove(Known::ContentLength);
    if let Some(tag) = headers.get(Known::Etag).and_then(suffixed) {
        headers.set(Known::Etag, tag);
    }
    Ok((body, true))
}

/// The entity tag of the decoded representation: other bytes need another tag (RFC 9110 8.8.3.3).
fn suffixed(tag: &[u8]) -> Option<Vec<u8>> {
    Some([tag.strip_suffix(b"\"")?, b"-identity\""].concat())
}

/// Decodes a response that is not stored, if the client does not accept the coding that the cache
/// had requested.
pub(crate) fn decode_unstored(
    response: &mut Response,
    request: &Request,
    decode_context: impl FnOnce() -> DecodeContext,
) -> Result<(), Fault> {
    let Some(coding) = content_coding(&response.headers) else { return Ok(()) };
    let body = std::mem::take(&mut response.body);
    (response.body, _) =
        decode_for_client(&mut response.headers, body, Some(coding), request, decode_context)?;
    add_vary_accept_encoding(&mut response.headers);
    Ok(())
}

/// Adds Accept-Encoding to Vary (RFC 9110 12.5.5).
pub(super) fn add_vary_accept_encoding(headers: &mut Headers) {
    if !headers.lists_token(Known::Vary, "accept-encoding") {
        headers.append(Known::Vary, "Accept-Encoding");
    }
}
