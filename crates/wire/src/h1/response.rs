//! Response heads (RFC 9112 4, 6.3): what an upstream answered and how its body ends.
//!
//! Promises the same syntax as for requests, and that a response that cannot have a body does not
//! announce one on the connection. Nothing stands before the status line: an upstream's stray bytes
//! are malformed.

use std::mem::MaybeUninit;

use super::field::{Facts, FieldSpan, HeadLimits, MAX_HEADER_COUNT, Span};
use super::request::{law_fields, take_fields};
use super::strict;
use crate::{Reject, Version};

/// How the body of a response ends (RFC 9112 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFraming {
    None,
    Length(u64),
    Chunked,
    UntilClose,
}

/// A response head; spans are offsets into the bytes it was parsed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    pub status: u16,
    pub reason: Span,
    pub version: Version,
    pub framing: ResponseFraming,
    /// Whether the connection may carry another exchange after this one.
    pub keep_alive: bool,
    /// Status 101: the connection now speaks another protocol (RFC 9110 15.2.2).
    pub upgrade: bool,
    /// Bytes of the head, with the final empty line.
    pub len: usize,
}

impl ResponseHead {
    /// An interim response: the final one is still to come (RFC 9110 15.2). 101 is final in that
    /// sense.
    pub fn is_interim(&self) -> bool {
        self.status < 200 && self.status != 101
    }
}

/// Reads one response head from the start of `buf`; `to_head` tells that it answers a HEAD request.
/// Limits and `fields` as for requests; `request_line` bounds the status line.
pub fn parse_response(
    buf: &[u8],
    limits: &HeadLimits,
    fields: &mut Vec<FieldSpan>,
    to_head: bool,
) -> Result<Option<ResponseHead>, Reject> {
    fields.clear();
    let mut slots = [const { MaybeUninit::<httparse::Header<'_>>::uninit() }; MAX_HEADER_COUNT];
    let mut raw = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let slots = &mut slots[..limits.count()];
    match config.parse_response_with_uninit_headers(&mut raw, buf, slots) {
        Ok(httparse::Status::Complete(end)) => {
            let mut facts = Facts::default();
            if let (Some(status), Some(minor)) = (raw.code, raw.version)
                && buf[0] == b'H'
                && let Some(line_end) = take_fields(buf, end, raw.headers, fields, &mut facts)
                && limits.admit(line_end, end - line_end)
                && (100..600).contains(&status)
                && line_end >= REASON_AT + 2
                && buf[REASON_AT - 1] == b' '
            {
                let version = if minor == 0 { Version::Http10 } else { Version::Http11 };
                let reason = Span::new(REASON_AT, line_end - 2 - REASON_AT);
                return finish(status, reason, version, &facts, to_head, end);
            }
        }
        Ok(httparse::Status::Partial) if limits.may_grow(buf.len()) => return Ok(None),
        Ok(httparse::Status::Partial) | Err(_) => {}
    }
    by_the_law(buf, limits, fields, to_head)
}

const REASON_AT: usize = "HTTP/1.1 200 ".len();

#[cold]
fn by_the_law(
    buf: &[u8],
    limits: &HeadLimits,
    fields: &mut Vec<FieldSpan>,
    to_head: bool,
) -> Result<Option<ResponseHead>, Reject> {
    let Some(line) = strict::status_line(&buf[..buf.len().min(limits.request_line)])? else {
        let full = buf.len() >= limits.request_line;
        return if full { Err(Reject::StatusLineTooLong) } else { Ok(None) };
    };
    let mut facts = Facts::default();
    let Some(end) = law_fields(buf, line.len, limits, fields, &mut facts)? else {
        return Ok(None);
    };
    finish(line.status, line.reason, line.version, &facts, to_head, end)
}

/// RFC 9112 6.3, rule by rule.
#[inline]
fn finish(
    status: u16,
    reason: Span,
    version: Version,
    facts: &Facts,
    to_head: bool,
    end: usize,
) -> Result<Option<ResponseHead>, Reject> {
    facts.check(version)?;
    let bodiless = status < 200 || status == 204;
    // RFC 9110 8.6, RFC 9112 6.1: neither field may stand in 1xx and 204. A length of zero is
    // common and harmless; anything else may be followed by bytes that would be taken for the next
    // response.
    if bodiless && (facts.chunked || facts.content_length.is_some_and(|length| length > 0)) {
        return Err(Reject::ForbiddenBody);
    }
    let framing = match facts.content_length {
        _ if bodiless || to_head || status == 304 => ResponseFraming::None,
        _ if facts.chunked => ResponseFraming::Chunked,
        Some(length) => ResponseFraming::Length(length),
        None => ResponseFraming::UntilClose,
    };
    let upgrade = status == 101;
    Ok(Some(ResponseHead {
        status,
        reason,
        version,
        framing,
        keep_alive: facts.persists(version) && framing != ResponseFraming::UntilClose && !upgrade,
        upgrade,
        len: end,
    }))
}
