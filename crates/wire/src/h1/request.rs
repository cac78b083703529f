//! Request heads (RFC 9112 3, 5, 6): the fast path, the strict fallback, and the meaning of a head.
//!
//! An accepted head has one valid Host (or none in HTTP/1.0), a target in a form that its method
//! allows, at most one way to frame its body, and CR and LF at line ends only.

use super::field::{Expectation, FieldSpan, HeadFacts, HeadLimits, Span};
use super::quick;
use super::strict::{self, RequestLine};
use crate::{Method, Reject, Version, authority};

/// The form of the target (RFC 9112 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetForm {
    Origin,
    Absolute,
    Asterisk,
    /// Of CONNECT only, and of no other form it is: `path` and `authority` are the whole target.
    Authority,
}

/// How the body of a request ends (RFC 9112 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    None,
    Length(u64),
    Chunked,
}

/// A request head; spans are offsets into the bytes it was parsed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    pub method: Method,
    pub target: Span,
    pub form: TargetForm,
    /// The authority of an absolute-form target, which takes precedence (RFC 9112 3.2.2), or the
    /// value of Host.
    pub authority: Option<Span>,
    /// The path; empty for an absolute-form target without one (see `path_bytes`), `*` for
    /// asterisk-form.
    pub path: Span,
    /// The part after `?`, if there is one.
    pub query: Option<Span>,
    pub version: Version,
    pub framing: Framing,
    /// True if the connection may carry another request after this one.
    pub keep_alive: bool,
    /// The client waits for 100 before it sends its body (HTTP/1.1 with a body only, RFC 9110
    /// 10.1.1).
    pub expect_continue: bool,
    /// The client offers to switch protocols (HTTP/1.1 only, RFC 9110 7.8).
    pub upgrade: bool,
    /// Connection names something other than `keep-alive`, `close`, `upgrade` and `te` (RFC 9110
    /// 7.6.1).
    pub names_fields: bool,
    /// A field, in any spelling, states something about the client or its request that only a
    /// trusted proxy may state.
    pub forwarding: bool,
    /// Bytes of the head, including a leading empty line and the final one.
    pub len: usize,
}

impl RequestHead {
    /// The path, `/` if the target omits it (RFC 9110 4.2.3).
    pub fn path_bytes<'b>(&self, head: &'b [u8]) -> &'b [u8] {
        if self.path.len == 0 { b"/" } else { self.path.of(head) }
    }
}

/// Parses one request head at the start of `buf`. `Ok(None)` requests more bytes. `fields` is
/// cleared first and contains the field lines, in order, once a head is returned.
pub fn parse_request(
    buf: &[u8],
    limits: &HeadLimits,
    fields: &mut Vec<FieldSpan>,
) -> Result<Option<RequestHead>, Reject> {
    fields.clear();
    let skip = match leading_line(buf)? {
        Some(skip) => skip,
        None => return Ok(None),
    };
    let mut facts = HeadFacts::default();
    match parse_fast(buf, skip, limits, fields, &mut facts) {
        Some((method, line, end)) => finish(buf, method, &line, &facts, end),
        None => parse_strictly(buf, skip, limits, fields),
    }
}

/// Parses a usual head; `None` leaves it to the strict parser.
#[inline(always)]
fn parse_fast(
    buf: &[u8],
    skip: usize,
    limits: &HeadLimits,
    fields: &mut Vec<FieldSpan>,
    facts: &mut HeadFacts,
) -> Option<(Method, RequestLine, usize)> {
    let (method, line) = quick::request_line(buf.get(skip..)?, skip)?;
    let at = skip + line.len;
    let end = quick::field_section(buf, at, limits.count(), fields, facts)?;
    limits.admit(line.len, end - at).then_some((method, line, end))
}

/// RFC 9112 2.2: one empty line before the request line is tolerated.
#[inline]
fn leading_line(buf: &[u8]) -> Result<Option<usize>, Reject> {
    match buf {
        // Nearly always, so it is tested first.
        [b'!'..=0xff, ..] => Ok(Some(0)),
        [] | [b'\r'] | [b'\r', b'\n'] => Ok(None),
        [b'\r', b'\n', b'\r' | b'\n', ..] => Err(Reject::EmptyLine),
        [b'\r', b'\n', ..] => Ok(Some(2)),
        [b'\r', ..] => Err(Reject::BareCr),
        [b'\n', ..] => Err(Reject::BareLf),
        _ => Ok(Some(0)),
    }
}

/// Applies the strict parser within the limits: each limit bounds what it may examine.
#[cold]
#[inline(never)]
fn parse_strictly(
    buf: &[u8],
    skip: usize,
    limits: &HeadLimits,
    fields: &mut Vec<FieldSpan>,
) -> Result<Option<RequestHead>, Reject> {
    let head = &buf[skip..];
    let window = &head[..head.len().min(limits.request_line)];
    let Some(line) = strict::request_line(window, skip)? else {
        let full = head.len() >= limits.request_line;
        return if full { Err(Reject::RequestLineTooLong) } else { Ok(None) };
    };
    let at = skip + line.len;
    let mut facts = HeadFacts::default();
    let Some(end) = strict_fields(buf, at, limits, fields, &mut facts)? else {
        return Ok(None);
    };
    let method = Method::from_bytes(line.method.of(buf));
    finish(buf, method, &line, &facts, end)
}

/// Parses the field section at `at` by the strict parser.
pub(super) fn strict_fields(
    buf: &[u8],
    at: usize,
    limits: &HeadLimits,
    fields: &mut Vec<FieldSpan>,
    facts: &mut HeadFacts,
) -> Result<Option<usize>, Reject> {
    let section = &buf[at..];
    let window = &section[..section.len().min(limits.headers)];
    let Some(len) = strict::field_section(window, at, limits.count(), fields)? else {
        let full = section.len() >= limits.headers;
        return if full { Err(Reject::HeadersTooLarge) } else { Ok(None) };
    };
    for field in fields.iter() {
        match field.known {
            Some(known) => facts.note(known, field.value().of(buf), field.value()),
            None => facts.note_unknown(field.name().of(buf)),
        }
    }
    Ok(Some(at + len))
}

/// Interprets a head whose syntax is valid.
#[inline(always)]
fn finish(
    buf: &[u8],
    method: Method,
    line: &RequestLine,
    facts: &HeadFacts,
    end: usize,
) -> Result<Option<RequestHead>, Reject> {
    let RequestLine { target, path_len, version, .. } = *line;
    facts.check(version)?;
    if facts.framing_alias {
        return Err(Reject::AliasOfFramingField);
    }
    if method.is_case_variant() {
        return Err(Reject::MethodCase);
    }
    let text = target.of(buf);
    let parts = match text {
        [b'/', ..] if method != Method::Connect => {
            let (path, query) = split_query(target, path_len);
            TargetParts { form: TargetForm::Origin, authority: None, path, query }
        }
        _ => other_parts(text, &method, target)?,
    };
    check_host(buf, version, facts.host)?;
    let framing = match facts.content_length {
        _ if facts.chunked => Framing::Chunked,
        Some(length) => Framing::Length(length),
        None => Framing::None,
    };
    let modern = version == Version::Http11;
    // An expectation in HTTP/1.0 has no meaning (RFC 9110 10.1.1).
    if modern && facts.expect == Expectation::Unknown {
        return Err(Reject::UnknownExpectation);
    }
    let has_body = !matches!(framing, Framing::None | Framing::Length(0));
    Ok(Some(RequestHead {
        method,
        target,
        form: parts.form,
        authority: parts.authority.or(facts.host),
        path: parts.path,
        query: parts.query,
        version,
        framing,
        keep_alive: facts.persists(version),
        expect_continue: modern && has_body && facts.expect == Expectation::Continue,
        upgrade: modern && facts.has_upgrade && facts.names_upgrade,
        names_fields: facts.names_fields,
        forwarding: facts.forwarding,
        len: end,
    }))
}

struct TargetParts {
    form: TargetForm,
    authority: Option<Span>,
    path: Span,
    query: Option<Span>,
}

/// RFC 9112 3.2: exactly one valid Host in HTTP/1.1, also along with an absolute-form target. An
/// empty Host is rejected, as by nginx.
#[inline(always)]
fn check_host(buf: &[u8], version: Version, host: Option<Span>) -> Result<(), Reject> {
    match host {
        None if version == Version::Http11 => Err(Reject::MissingHost),
        Some(host) if !authority::is_valid(host.of(buf)) => Err(Reject::InvalidHost),
        _ => Ok(()),
    }
}

/// Parses asterisk-form, for OPTIONS only (RFC 9112 3.2.4), or absolute-form.
#[cold]
fn other_parts(text: &[u8], method: &Method, target: Span) -> Result<TargetParts, Reject> {
    if *method == Method::Connect {
        if !authority::is_valid_with_port(text) {
            return Err(Reject::InvalidTarget);
        }
        let form = TargetForm::Authority;
        return Ok(TargetParts { form, authority: Some(target), path: target, query: None });
    }
    if text != b"*" {
        return absolute_parts(text, target.at as usize);
    }
    if *method != Method::Options {
        return Err(Reject::InvalidTarget);
    }
    let form = TargetForm::Asterisk;
    Ok(TargetParts { form, authority: None, path: target, query: None })
}

/// Parses `http://authority[/path][?query]`, the form sent to proxies (RFC 9112 3.2.2).
fn absolute_parts(text: &[u8], at: usize) -> Result<TargetParts, Reject> {
    let colon = text.iter().position(|&b| b == b':').ok_or(Reject::InvalidTarget)?;
    let scheme = &text[..colon];
    let after = text[colon..].strip_prefix(b"://").ok_or(Reject::InvalidTarget)?;
    if !scheme.eq_ignore_ascii_case(b"http") && !scheme.eq_ignore_ascii_case(b"https") {
        return Err(Reject::UnsupportedScheme);
    }
    let host_at = text.len() - after.len();
    let host_len = after.iter().position(|&b| b == b'/' || b == b'?').unwrap_or(after.len());
    let host = &after[..host_len];
    if host.contains(&b'@') {
        return Err(Reject::UserInfoInTarget);
    }
    if !authority::is_valid(host) {
        return Err(Reject::InvalidTarget);
    }
    let rest = Span::new(at + host_at + host_len, after.len() - host_len);
    let path_len = after[host_len..].iter().position(|&b| b == b'?');
    let (path, query) = split_query(rest, path_len.unwrap_or(after.len() - host_len));
    let authority = Some(Span::new(at + host_at, host_len));
    Ok(TargetParts { form: TargetForm::Absolute, authority, path, query })
}

/// Splits a target into path and query; its first `?`, or its end, is at `path_len`.
#[inline]
fn split_query(target: Span, path_len: usize) -> (Span, Option<Span>) {
    let at = target.at as usize;
    let query = (target.len as usize).checked_sub(path_len + 1);
    (Span::new(at, path_len), query.map(|len| Span::new(at + path_len + 1, len)))
}
