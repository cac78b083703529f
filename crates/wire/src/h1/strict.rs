//! The authoritative parser: byte by byte, it accepts only the grammar of RFC 9112 for start lines
//! and field sections.
//!
//! Reports the first error in the order of the bytes, so that a prefix never gets another rejection
//! than the whole. Not on the fast path: it runs when `quick` returns nothing, for trailers, and
//! for versions above 1.1. `Ok(None)` always means "no error so far, incomplete".

use super::field::{FieldSpan, Span};
use crate::{Known, Reject, Version, token};

/// Longer method names are not worth an allocation (RFC 9112 3: SHOULD be rejected with 501).
pub(crate) const METHOD_LEN_MAX: usize = 24;

/// The parts of a request line; `len` includes its CRLF.
pub(crate) struct RequestLine {
    pub(crate) method: Span,
    pub(crate) target: Span,
    /// Bytes of the target before its first `?`.
    pub(crate) path_len: usize,
    pub(crate) version: Version,
    pub(crate) len: usize,
}

/// The parts of a status line; `len` includes its CRLF.
pub(crate) struct StatusLine {
    pub(crate) status: u16,
    pub(crate) reason: Span,
    pub(crate) version: Version,
    pub(crate) len: usize,
}

type Parsed<T> = Result<Option<T>, Reject>;

macro_rules! more {
    ($parsed:expr) => {
        match $parsed {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

/// Parses `method SP request-target SP HTTP-version CRLF` (RFC 9112 3); offsets count from `base`
/// before `buf`.
pub(crate) fn request_line(buf: &[u8], base: usize) -> Parsed<RequestLine> {
    // The method is checked first, whatever follows it.
    let method_len =
        buf.iter().take(METHOD_LEN_MAX + 1).take_while(|b| token::is_tchar(**b)).count();
    if method_len > METHOD_LEN_MAX {
        return Err(Reject::MethodTooLong);
    }
    match *more!(buf.get(method_len)) {
        b' ' if method_len > 0 => {}
        b'\r' | b'\n' => return Err(Reject::InvalidRequestLine),
        _ => return Err(Reject::InvalidMethod),
    }
    let target_at = method_len + 1;
    let rest = &buf[target_at..];
    let target_len = more!(rest.iter().position(|&b| !token::is_target_byte(b)));
    match rest[target_len] {
        b' ' if target_len > 0 => {}
        // `GET /` alone is HTTP/0.9, which is not supported.
        b'\r' | b'\n' => return Err(Reject::InvalidRequestLine),
        _ => return Err(Reject::InvalidTarget),
    }
    let version_at = target_at + target_len + 1;
    let version = more!(version(&buf[version_at..])?);
    let end = version_at + VERSION_LEN;
    more!(crlf(&buf[end..], Reject::InvalidRequestLine)?);
    let target = &rest[..target_len];
    Ok(Some(RequestLine {
        method: Span::new(base, method_len),
        target: Span::new(base + target_at, target_len),
        path_len: target.iter().position(|&b| b == b'?').unwrap_or(target_len),
        version,
        len: end + 2,
    }))
}

/// Parses `HTTP-version SP status-code [ SP [ reason-phrase ] ] CRLF`. RFC 9112 4 requires the
/// second SP; some servers leave it out with the reason, and all recipients read that alike.
pub(crate) fn status_line(buf: &[u8]) -> Parsed<StatusLine> {
    let version = more!(version(buf)?);
    let mut at = VERSION_LEN;
    let mut status = 0u16;
    for place in 0..4 {
        let byte = *more!(buf.get(at));
        match (place, byte) {
            (0, b' ') => {}
            (1..=3, b'0'..=b'9') => status = status * 10 + u16::from(byte - b'0'),
            _ => return Err(Reject::InvalidStatusLine),
        }
        at += 1;
        // Reported as soon as it is known, so that the order of errors is the order of bytes.
        if place == 3 && !(100..600).contains(&status) {
            return Err(Reject::InvalidStatus);
        }
    }
    match *more!(buf.get(at)) {
        b' ' => at += 1,
        b'\r' | b'\n' => {}
        _ => return Err(Reject::InvalidStatusLine),
    }
    let reason_len = more!(buf[at..].iter().position(|&b| !token::is_value_byte(b)));
    let end = at + reason_len;
    more!(crlf(&buf[end..], Reject::InvalidStatusLine)?);
    Ok(Some(StatusLine { status, reason: Span::new(at, reason_len), version, len: end + 2 }))
}

const VERSION_LEN: usize = 8;

/// Parses `HTTP/` DIGIT `.` DIGIT. Minor versions above 1 are treated as 1.1 (RFC 9110 2.5).
fn version(buf: &[u8]) -> Parsed<Version> {
    for (at, &byte) in buf.iter().take(VERSION_LEN).enumerate() {
        let fits = match at {
            5 | 7 => byte.is_ascii_digit(),
            6 => byte == b'.',
            _ => byte == b"HTTP/"[at],
        };
        if !fits {
            return Err(Reject::InvalidVersion);
        }
    }
    match buf.get(..VERSION_LEN) {
        None => Ok(None),
        Some([.., b'1', _, b'0']) => Ok(Some(Version::Http10)),
        Some([.., b'1', _, _]) => Ok(Some(Version::Http11)),
        Some(_) => Err(Reject::UnsupportedVersion),
    }
}

/// Parses the end of a line; `otherwise` is the rejection of anything else.
fn crlf(buf: &[u8], otherwise: Reject) -> Parsed<()> {
    match buf {
        [] | [b'\r'] => Ok(None),
        [b'\r', b'\n', ..] => Ok(Some(())),
        [b'\r', ..] => Err(Reject::BareCr),
        [b'\n', ..] => Err(Reject::BareLf),
        _ => Err(otherwise),
    }
}

/// Parses field lines up to and including the empty line; offsets count from `base` before `buf`.
/// Returns the length of the section.
pub(crate) fn field_section(
    buf: &[u8],
    base: usize,
    max_count: usize,
    fields: &mut Vec<FieldSpan>,
) -> Parsed<usize> {
    fields.clear();
    let mut at = 0;
    loop {
        match *more!(buf.get(at)) {
            b'\r' | b'\n' => {
                more!(crlf(&buf[at..], Reject::BareCr)?);
                return Ok(Some(at + 2));
            }
            b' ' | b'\t' if at == 0 => return Err(Reject::SpaceBeforeFirstField),
            // RFC 9112 5.2: obs-fold outside message/http is rejected.
            b' ' | b'\t' => return Err(Reject::ObsoleteFolding),
            b':' => return Err(Reject::EmptyFieldName),
            _ => {}
        }
        if fields.len() == max_count {
            return Err(Reject::TooManyFields);
        }
        let (field, len) = more!(field_line(&buf[at..], base + at)?);
        fields.push(field);
        at += len;
    }
}

/// Parses `field-name ":" OWS field-value OWS CRLF` (RFC 9112 5).
fn field_line(line: &[u8], base: usize) -> Parsed<(FieldSpan, usize)> {
    let name_len = more!(line.iter().position(|&b| !token::is_tchar(b)));
    match line[name_len] {
        b':' => {}
        // RFC 9112 5.1: white space before the colon has been used to smuggle requests.
        b' ' | b'\t' => return Err(Reject::SpaceInFieldName),
        _ => return Err(Reject::InvalidFieldName),
    }
    let value_at = name_len + 1;
    let raw_len = more!(line[value_at..].iter().position(|&b| !token::is_value_byte(b)));
    let end = value_at + raw_len;
    more!(crlf(&line[end..], Reject::InvalidFieldValue)?);
    let (value, lead) = trimmed(&line[value_at..end]);
    let value = Span::new(base + value_at + lead, value.len());
    let name = Span::new(base, name_len);
    let known = Known::from_bytes(&line[..name_len]);
    let field = FieldSpan::new(name, value, known).ok_or(Reject::FieldNameTooLong)?;
    Ok(Some((field, end + 2)))
}

/// Returns a value without surrounding white space, and the number of bytes before it.
#[cold]
pub(crate) fn trimmed(raw: &[u8]) -> (&[u8], usize) {
    let lead = raw.iter().position(|&b| !token::is_ows(b)).unwrap_or(raw.len());
    (token::trim(raw), lead)
}
