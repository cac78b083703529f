//! Response heads (RFC 9112 4, 6.3) of upstreams, and how their bodies end.
//!
//! The syntax is as strict as for requests, and a response that cannot have a body does not
//! announce one on the connection. Nothing may precede the status line: stray bytes of an upstream
//! are malformed.

use super::field::{FieldSpan, HeadFacts, HeadLimits, Span};
use super::quick;
use super::request::strict_fields;
use super::strict::{self, StatusLine};
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
    /// True if the connection may carry another exchange after this one.
    pub keep_alive: bool,
    /// Status 101: the connection switches to another protocol (RFC 9110 15.2.2).
    pub upgrade: bool,
    /// Bytes of the head, including the final empty line.
    pub len: usize,
}

impl ResponseHead {
    /// True for an interim response, before the final one (RFC 9110 15.2). 101 is final in that
    /// sense.
    pub fn is_interim(&self) -> bool {
        self.status < 200 && self.status != 101
    }
}

/// Parses one response head at the start of `buf`; `to_head` is true for a response to HEAD. Limits
/// and `fields` as for requests; `request_line` bounds the status line.
pub fn parse_response(
    buf: &[u8],
    limits: &HeadLimits,
    fields: &mut Vec<FieldSpan>,
    to_head: bool,
) -> Result<Option<ResponseHead>, Reject> {
    fields.clear();
    let mut facts = HeadFacts::default();
    match parse_fast(buf, limits, fields, &mut facts) {
        Some((line, end)) => finish(&line, &facts, to_head, end),
        None => parse_strictly(buf, limits, fields, to_head),
    }
}

/// Parses a usual head; `None` leaves it to the strict parser.
#[inline(always)]
fn parse_fast(
    buf: &[u8],
    limits: &HeadLimits,
    fields: &mut Vec<FieldSpan>,
    facts: &mut HeadFacts,
) -> Option<(StatusLine, usize)> {
    let line = quick::status_line(buf)?;
    let end = quick::field_section(buf, line.len, limits.count(), fields, facts)?;
    limits.admit(line.len, end - line.len).then_some((line, end))
}

#[cold]
#[inline(never)]
fn parse_strictly(
    buf: &[u8],
    limits: &HeadLimits,
    fields: &mut Vec<FieldSpan>,
    to_head: bool,
) -> Result<Option<ResponseHead>, Reject> {
    let Some(line) = strict::status_line(&buf[..buf.len().min(limits.request_line)])? else {
        let full = buf.len() >= limits.request_line;
        return if full { Err(Reject::StatusLineTooLong) } else { Ok(None) };
    };
    let mut facts = HeadFacts::default();
    let Some(end) = strict_fields(buf, line.len, limits, fields, &mut facts)? else {
        return Ok(None);
    };
    finish(&line, &facts, to_head, end)
}

/// Applies RFC 9112 6.3, rule by rule.
#[inline(always)]
fn finish(
    line: &StatusLine,
    facts: &HeadFacts,
    to_head: bool,
    end: usize,
) -> Result<Option<ResponseHead>, Reject> {
    let StatusLine { status, reason, version, .. } = *line;
    facts.check(version)?;
    let bodiless = status < 200 || status == 204;
    // RFC 9110 8.6, RFC 9112 6.1: neither field is allowed in 1xx and 204. A length of zero is
    // common and harmless; with anything else, bytes may follow that would be parsed as the next
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
