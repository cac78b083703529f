//! Field lines of a head as offsets, and the facts about framing and connection they state.
//!
//! Owns the limits of a head and the interpretation of the fields that frame a message:
//! Content-Length, Transfer-Encoding, Connection, Upgrade, Host, Expect. The syntax of lines has
//! been checked before.

use crate::{Known, Reject, alias, token};

/// The most fields of a head, whatever the configuration allows.
pub const MAX_HEADER_COUNT: usize = 256;

/// A range of bytes within a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub at: u32,
    pub len: u32,
}

impl Span {
    #[inline]
    pub(crate) fn new(at: usize, len: usize) -> Span {
        // A head is bounded by `HeadLimits`, far below 4 GiB.
        Span { at: at as u32, len: len as u32 }
    }

    /// Returns the bytes, given the head.
    #[inline]
    pub fn of(self, head: &[u8]) -> &[u8] {
        &head[self.range()]
    }

    #[inline]
    pub fn range(self) -> std::ops::Range<usize> {
        self.at as usize..self.at as usize + self.len as usize
    }
}

/// One field line: 16 bytes, offsets into the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldSpan {
    name_at: u32,
    value_at: u32,
    value_len: u32,
    name_len: u16,
    pub known: Option<Known>,
}

impl FieldSpan {
    /// Returns `None` if the length of the name does not fit.
    #[inline]
    pub fn new(name: Span, value: Span, known: Option<Known>) -> Option<FieldSpan> {
        let name_len = u16::try_from(name.len).ok()?;
        Some(FieldSpan::with_name(name.at, name_len, value, known))
    }

    /// Like `new`, for a name whose length has been checked.
    #[inline]
    pub(super) fn with_name(at: u32, len: u16, value: Span, known: Option<Known>) -> FieldSpan {
        FieldSpan { name_at: at, value_at: value.at, value_len: value.len, name_len: len, known }
    }

    /// The same field in a text that begins `by` bytes further in.
    #[inline]
    #[must_use]
    pub fn moved(self, by: u32) -> FieldSpan {
        FieldSpan { name_at: self.name_at + by, value_at: self.value_at + by, ..self }
    }

    #[inline]
    pub fn name(&self) -> Span {
        Span { at: self.name_at, len: u32::from(self.name_len) }
    }

    #[inline]
    pub fn value(&self) -> Span {
        Span { at: self.value_at, len: self.value_len }
    }
}

/// The limits of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// Bytes of the request or status line, with its CRLF.
    pub request_line: usize,
    /// Bytes of all field lines together, with the empty line.
    pub headers: usize,
    /// Field lines, at most `MAX_HEADER_COUNT`.
    pub header_count: usize,
}

impl Default for HeadLimits {
    /// The defaults of the configuration.
    fn default() -> HeadLimits {
        HeadLimits { request_line: 8 << 10, headers: 32 << 10, header_count: 128 }
    }
}

impl HeadLimits {
    #[inline]
    pub(crate) fn count(&self) -> usize {
        self.header_count.min(MAX_HEADER_COUNT)
    }

    /// True if a complete head is within the limits.
    #[inline]
    pub(crate) fn admit(&self, line: usize, headers: usize) -> bool {
        line <= self.request_line && headers <= self.headers
    }
}

/// The facts about framing and connection that the fields of one head state.
#[derive(Default)]
pub(crate) struct HeadFacts {
    pub(crate) content_length: Option<u64>,
    pub(crate) chunked: bool,
    pub(crate) host: Option<Span>,
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    pub(crate) names_upgrade: bool,
    /// Connection names more than this connection's own options: fields, perhaps.
    pub(crate) names_fields: bool,
    pub(crate) has_upgrade: bool,
    pub(crate) expect: Expectation,
    /// A field states something that only a trusted proxy may state.
    pub(crate) forwarding: bool,
    /// A field that frames the message has an unusual spelling.
    pub(crate) framing_alias: bool,
    /// The body has a transfer coding before `chunked`.
    other_coding: bool,
    /// The first invalid field. Stored instead of returned: errors of syntax and size take
    /// precedence, wherever they occur.
    error: Option<Reject>,
}

#[derive(Default, PartialEq, Eq)]
pub(crate) enum Expectation {
    #[default]
    None,
    Continue,
    Unknown,
}

impl HeadFacts {
    /// Records one known field.
    #[inline(always)]
    pub(crate) fn note(&mut self, known: Known, value: &[u8], at: Span) {
        match known {
            Known::Host => self.host(at),
            Known::ContentLength => self.length(value),
            Known::Connection => self.connection(value),
            Known::TransferEncoding => self.coding(value),
            Known::Upgrade => self.has_upgrade = true,
            Known::Expect => self.expect(value),
            known => self.forwarding |= known.is_forwarding(),
        }
    }

    /// Records one unknown field, which may be another spelling of a known one.
    #[inline(never)]
    pub(crate) fn note_unknown(&mut self, name: &[u8]) {
        match alias::alias_of(name) {
            Some(known) if known.is_framing() => self.framing_alias = true,
            Some(known) => self.forwarding |= known.is_forwarding(),
            None => self.forwarding |= alias::is_x_forwarded(name),
        }
    }

    fn expect(&mut self, value: &[u8]) {
        let continues = value.eq_ignore_ascii_case(b"100-continue");
        self.expect = match self.expect {
            Expectation::None | Expectation::Continue if continues => Expectation::Continue,
            _ => Expectation::Unknown,
        };
    }

    #[inline(always)]
    fn host(&mut self, at: Span) {
        if self.host.replace(at).is_some() {
            self.record_error(Reject::RepeatedHost);
        }
    }

    #[cold]
    #[inline(never)]
    fn record_error(&mut self, reject: Reject) {
        self.error = self.error.or(Some(reject));
    }

    /// RFC 9112 6.3 lets a recipient repair "5, 5"; this one does not: two lengths are ambiguous.
    fn length(&mut self, value: &[u8]) {
        match token::decimal(value) {
            None => self.record_error(Reject::InvalidContentLength),
            Some(length) => {
                if self.content_length.replace(length).is_some() {
                    self.record_error(Reject::RepeatedContentLength);
                }
            }
        }
    }

    /// Only `chunked` alone is supported; the other coding is distinguished for the log only.
    #[inline(never)]
    fn coding(&mut self, value: &[u8]) {
        if value == b"chunked" && !self.chunked {
            self.chunked = true;
            return;
        }
        let chunked = token::list(value).filter(|c| c.eq_ignore_ascii_case(b"chunked")).count();
        if self.chunked || chunked > 1 {
            self.record_error(Reject::RepeatedTransferCoding);
        } else if ends_with_chunked(value) {
            self.other_coding = true;
        } else if !value.eq_ignore_ascii_case(b"chunked") {
            self.record_error(Reject::UnknownTransferCoding);
        }
        self.chunked = true;
    }

    /// RFC 9110 7.6.1: a list of options, of which three matter here, and of fields.
    #[inline]
    fn connection(&mut self, value: &[u8]) {
        if value == b"keep-alive" {
            self.keep_alive = true;
        } else if value == b"close" {
            self.close = true;
        } else {
            self.connection_options(value);
        }
    }

    #[inline(never)]
    fn connection_options(&mut self, value: &[u8]) {
        for option in token::list(value) {
            if option.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else if option.eq_ignore_ascii_case(b"close") {
                self.close = true;
            } else if option.eq_ignore_ascii_case(b"upgrade") {
                self.names_upgrade = true;
            } else if !option.eq_ignore_ascii_case(b"te") {
                self.names_fields = true;
            }
        }
    }

    /// True if the connection persists after this message (RFC 9112 9.3).
    #[inline]
    pub(crate) fn persists(&self, version: crate::Version) -> bool {
        match version {
            crate::Version::Http10 => self.keep_alive && !self.close,
            crate::Version::Http11 | crate::Version::Http2 => !self.close,
        }
    }

    /// Rejects fields that are invalid, or that contradict each other or the version (RFC 9112 6.1,
    /// 6.3).
    #[inline]
    pub(crate) fn check(&self, version: crate::Version) -> Result<(), Reject> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if self.chunked && self.content_length.is_some() {
            return Err(Reject::LengthAndCoding);
        }
        if self.chunked && version == crate::Version::Http10 {
            return Err(Reject::TransferCodingInHttp10);
        }
        if self.other_coding {
            return Err(Reject::UnsupportedTransferCoding);
        }
        Ok(())
    }
}

/// True if a list of at least two codings ends with `chunked`, so that the end of the body is known
/// and only its content is not understood (RFC 9112 6.1). Parameters may contain commas in quotes:
/// with a quote, the end is not known.
fn ends_with_chunked(value: &[u8]) -> bool {
    let mut codings = value.rsplit(|byte| *byte == b',').map(token::trim);
    let last = codings.next().unwrap_or_default();
    // The name without parameters.
    let is_coding = |coding: &[u8]| {
        let name = coding.split(|byte| *byte == b';').next().unwrap_or_default();
        token::is_token(token::trim(name))
    };
    let listed = value.contains(&b',') && !value.contains(&b'"');
    listed && last.eq_ignore_ascii_case(b"chunked") && codings.all(is_coding)
}

#[cfg(test)]
mod tests {
    use super::{FieldSpan, Span};

    #[test]
    fn a_field_is_sixteen_bytes() {
        assert_eq!(size_of::<FieldSpan>(), 16);
        assert_eq!(size_of::<Span>(), 8);
    }

    #[test]
    fn a_name_that_is_too_long_is_not_a_field() {
        let long = Span { at: 0, len: 70_000 };
        assert!(FieldSpan::new(long, Span::default(), None).is_none());
    }
}
