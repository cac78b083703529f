//! Decodes responses for clients that do not accept the content coding requested from the origin.

use std::sync::Arc;

use coding::{Coding, DecodeError};
use message::{Body, Fault, Headers, Request, Response};
use wire::Known;
use wire::negotiate::accepts_coding;

use super::StreamingResponse;
use super::decoding_body::DecodingBody;
use crate::{Cache, Object};

/// What is decoded, and within which bound.
#[derive(Clone)]
pub(crate) struct DecodeContext {
    pub(crate) cache: Arc<Cache>,
    pub(crate) whose: DecodeSource,
    /// The longest decoded content.
    pub(crate) bytes_max: u64,
}

/// The response whose body is decoded.
#[derive(Clone)]
pub(crate) enum DecodeSource {
    Stored(Arc<Object>),
    Streaming(Arc<StreamingResponse>),
    /// A response that is not stored.
    Unstored,
}

impl DecodeContext {
    /// Handles a body that is damaged, or decodes to more than `bytes_max`.
    pub(super) fn failed(&self, error: DecodeError) {
        let is_damaged = matches!(error, DecodeError::Corrupt | DecodeError::Truncated);
        match &self.whose {
            DecodeSource::Stored(object) if is_damaged => self.cache.remove_damaged(object),
            DecodeSource::Stored(object) => object.state.set_too_long_decoded(),
            DecodeSource::Streaming(streaming) if is_damaged => {
                streaming.set_damaged();
                let store = self.cache.store();
                let key = &streaming.key;
                let stored = store.peek(key.hash(), key.text());
                let is_it = |object: &Arc<Object>| {
                    object.response().is_some_and(|it| it.version == streaming.stored.version)
                };
                if let Some(object) = stored.filter(is_it) {
                    self.cache.remove_damaged(&object);
                }
            }
            DecodeSource::Streaming(_) | DecodeSource::Unstored => {}
        }
    }
}

/// The content coding of a response, if it is a supported one.
pub(super) fn content_coding(head: &Headers) -> Option<Coding> {
    head.get_str(Known::ContentEncoding).and_then(|token| Coding::parse(token.trim()))
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
