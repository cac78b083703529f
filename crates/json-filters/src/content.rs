//! The content of a message as bytes: collected up to a limit and decoded.

use std::sync::Arc;

use bytes::Bytes;
use coding::{Coding, Decode, DecodeError, decode_all};
use message::{Body, Fault, FaultKind, Headers, Request};
use plugin::{MediaPattern, WorkerContext};
use telemetry::{CachePadded, Counter};
use wire::Known;

/// A longer body is parsed on the blocking pool, so that it does not delay the worker.
pub(crate) const ON_WORKER_BYTES: usize = 64 * 1024;

/// Runs a function that reads so many bytes, on the blocking pool if it would delay the worker;
/// `None` if it panics.
pub async fn on_worker_or_pool<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    if bytes <= ON_WORKER_BYTES { Some(work()) } else { net::blocking(work).await.ok() }
}

/// The names of UTF-8, and of what is a part of it.
const UTF8_NAMES: [&[u8]; 3] = [b"utf-8", b"utf8", b"us-ascii"];

/// Decoded bytes per received byte, above the first mebibyte.
const DECODED_RATIO_MAX: u64 = 100;

/// Why a content cannot be read.
#[derive(Debug)]
pub(crate) enum ContentError {
    TooLarge,
    /// Several media types: which of them would the recipient believe?
    SeveralTypes,
    /// A media type that the filter does not read.
    OtherType,
    /// A character encoding other than UTF-8: the recipient would read another text.
    NotUtf8,
    /// A content coding that is not supported, or several.
    UnknownCoding,
    /// The coding is not the declared one, or its stream is damaged.
    Damaged,
    /// The body broke off.
    Fault(Fault),
}

impl ContentError {
    /// The word for counters and logs.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            ContentError::TooLarge => "too_large",
            ContentError::SeveralTypes | ContentError::OtherType | ContentError::NotUtf8 => {
                "content_type"
            }
            ContentError::UnknownCoding => "content_coding",
            ContentError::Damaged => "invalid",
            ContentError::Fault(_) => "incomplete",
        }
    }

    /// The fault of a request with such a content.
    pub(crate) fn of_request(self) -> Fault {
        match self {
            ContentError::TooLarge => Fault::body_too_large(),
            ContentError::SeveralTypes => {
                Fault::new(FaultKind::UnsupportedContent, "the request has several media types")
            }
            ContentError::OtherType => Fault::new(
                FaultKind::UnsupportedContent,
                "the media type of the request is not one that its filter reads",
            ),
            ContentError::NotUtf8 => Fault::new(
                FaultKind::UnsupportedContent,
                "the character encoding of the request is not UTF-8",
            ),
            ContentError::UnknownCoding => Fault::new(
                FaultKind::UnsupportedContent,
                "the content coding of the request is not supported",
            )
            // RFC 9110 12.5.3: in a response, the codings that requests may have.
            .with_field(Known::AcceptEncoding, "gzip, br, zstd"),
            ContentError::Damaged => {
                Fault::new(FaultKind::InvalidContent, "the compressed request body is damaged")
            }
            ContentError::Fault(fault) => fault,
        }
    }

    /// The fault of a response with such a content.
    pub(crate) fn of_response(self) -> Fault {
        match self {
            ContentError::TooLarge => Fault::new(
                FaultKind::ResponseBodySize,
                "the response is larger than max_size of its filter",
            ),
            ContentError::SeveralTypes => {
                Fault::new(FaultKind::ProtocolError, "the response has several media types")
            }
            ContentError::OtherType | ContentError::NotUtf8 => {
                Fault::new(FaultKind::ProtocolError, "the response is not of a type that is read")
            }
            ContentError::UnknownCoding => Fault::new(
                FaultKind::ResponseContentCoding,
                "the content coding of the response is not supported",
            ),
            ContentError::Damaged => {
                Fault::new(FaultKind::ResponseContentCoding, "the compressed response is damaged")
            }
            ContentError::Fault(fault) => fault,
        }
    }
}

/// The counters of one filter for requests that it rejects, by reason.
pub(crate) struct Rejections(Vec<(&'static str, Arc<CachePadded<Counter>>)>);

impl Rejections {
    pub(crate) fn new(worker: &WorkerContext, filter: &str, reasons: &[&'static str]) -> Self {
        let counter = |reason: &&'static str| (*reason, worker.policy_rejections(filter, reason));
        Rejections(reasons.iter().map(counter).collect())
    }

    /// Counts a rejection. A reason that the filter does not count, such as a body that broke off,
    /// is not a decision of the filter.
    pub(crate) fn count(&self, reason: &str) {
        if let Some((_, counter)) = self.0.iter().find(|(known, _)| *known == reason) {
            counter.add(1);
        }
    }
}

/// True if the media type, or one of several, is one of these.
pub(crate) fn has_type(headers: &Headers, types: &[MediaPattern]) -> bool {
    let mut written = headers.get_all(Known::ContentType);
    written.any(|value| types.iter().any(|pattern| pattern.matches(value)))
}

/// [`take`] for a request of one of these media types. Its recipient has to read the text that is
/// read here, which is UTF-8 (RFC 8259 8.1). A request without a body has no type either, and an
/// empty content.
pub(crate) async fn take_request(
    request: &mut Request,
    types: &[MediaPattern],
    max: u64,
) -> Result<Bytes, ContentError> {
    if !has_type(&request.headers, types) {
        return match is_empty(&mut request.body).await? {
            true => Ok(Bytes::new()),
            false => Err(ContentError::OtherType),
        };
    }
    let media_type = request.headers.get(Known::ContentType).unwrap_or_default();
    let is_utf8 = |name: &[u8]| UTF8_NAMES.iter().any(|known| name.eq_ignore_ascii_case(known));
    if !wire::charset::declared(media_type, b"charset").is_ok_and(|name| name.is_none_or(is_utf8)) {
        return Err(ContentError::NotUtf8);
    }
    take(&request.headers, &mut request.body, max).await
}

/// Reads a body to find out whether it has a byte, if its length is not known: chunks, and HTTP/2,
/// may turn out to be no body.
async fn is_empty(body: &mut Body) -> Result<bool, ContentError> {
    if let Some(length) = body.length() {
        return Ok(length == 0);
    }
    match std::mem::take(body).collect(0).await {
        Ok(_) => Ok(true),
        Err(fault) if fault.kind == FaultKind::BodyTooLarge => Ok(false),
        Err(fault) => Err(ContentError::Fault(fault)),
    }
}

/// Takes the content out of a message: whole and without its content coding.
pub(crate) async fn take(
    headers: &Headers,
    body: &mut Body,
    max: u64,
) -> Result<Bytes, ContentError> {
    if headers.get_all(Known::ContentType).nth(1).is_some() {
        return Err(ContentError::SeveralTypes);
    }
    let coding = coding(headers)?;
    let content = std::mem::take(body).collect(max).await.map_err(|fault| match fault.kind {
        FaultKind::BodyTooLarge => ContentError::TooLarge,
        _ => ContentError::Fault(fault),
    })?;
    let Some(coding) = coding.filter(|_| !content.is_empty()) else { return Ok(content) };
    let allowed = Decode { output_bytes: max, ratio: DECODED_RATIO_MAX };
    let decoded = net::blocking(move || decode_all(coding, &content, allowed)).await;
    match decoded {
        Ok(Ok(plain)) => Ok(Bytes::from(plain)),
        Ok(Err(DecodeError::TooLarge | DecodeError::TooDense)) => Err(ContentError::TooLarge),
        Ok(Err(DecodeError::Corrupt | DecodeError::Truncated)) | Err(_) => {
            Err(ContentError::Damaged)
        }
    }
}

fn coding(headers: &Headers) -> Result<Option<Coding>, ContentError> {
    let Some(value) = headers.joined(Known::ContentEncoding) else { return Ok(None) };
    match std::str::from_utf8(&value).map(str::trim) {
        Ok("" | "identity") => Ok(None),
        Ok(token) => Coding::parse(token).map(Some).ok_or(ContentError::UnknownCoding),
        Err(_) => Err(ContentError::UnknownCoding),
    }
}

/// Removes the fields that describe the former bytes.
pub(crate) fn forget_encoding(headers: &mut Headers) {
    for name in [
        Known::ContentEncoding,
        Known::ContentLength,
        Known::ContentMd5,
        Known::ContentDigest,
        Known::ReprDigest,
    ] {
        headers.remove(name);
    }
}

/// Sets the fields of a response whose content was changed: parts of it are not parts of the
/// original one.
pub(crate) fn mark_changed(headers: &mut Headers) {
    forget_encoding(headers);
    headers.remove(Known::AcceptRanges);
    let strong = headers.get(Known::Etag).filter(|etag| !etag.starts_with(b"W/"));
    if let Some(weak) = strong.map(|etag| [b"W/", etag].concat()) {
        headers.set(Known::Etag, weak);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use message::Body;

    /// A body of unknown length that has no byte, as of chunks.
    pub(crate) fn no_chunks() -> Body {
        let (writer, pieces) = message::shared_body(1 << 10, None);
        // Trailers may follow, so the length is not announced.
        writer.finish(Some(message::Headers::new()));
        let body = pieces.body();
        assert_eq!(body.length(), None);
        body
    }
}
