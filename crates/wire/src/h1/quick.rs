//! The fast path: parses usual heads in one pass.
//!
//! Accepts nothing that the strict parser would reject, with the same meaning, and returns `None`
//! for anything else (malformed, incomplete, too large or merely unusual): then the strict parser
//! decides. Never reports an error.

use super::field::{FieldSpan, HeadFacts, Span};
use super::scan::{colon, control, split, target_end};
use super::strict::{self, METHOD_LEN_MAX, RequestLine, StatusLine};
use crate::{Known, Method, Version, token};

/// Parses a request line at `base` before `buf`.
#[inline(always)]
pub(super) fn request_line(buf: &[u8], base: usize) -> Option<(Method, RequestLine)> {
    let (method, method_len) =
        if buf.starts_with(b"GET ") { (Method::Get, 3) } else { other_method(buf)? };
    let target_at = method_len + 1;
    let (path, mut rest) = split(buf.get(target_at..)?, target_end);
    while let [b'?', query @ ..] = rest {
        rest = split(query, target_end).1;
    }
    let target_len = buf.len() - target_at - rest.len();
    if target_len == 0 {
        return None;
    }
    let (version, rest) = match rest.strip_prefix(b" HTTP/1.1\r\n") {
        Some(rest) => (Version::Http11, rest),
        None => (Version::Http10, rest.strip_prefix(b" HTTP/1.0\r\n")?),
    };
    let line = RequestLine {
        method: Span::new(base, method_len),
        target: Span::new(base + target_at, target_len),
        path_len: path.len(),
        version,
        len: buf.len() - rest.len(),
    };
    Some((method, line))
}

/// Returns a method that is followed by a space, and its length.
#[inline(never)]
fn other_method(buf: &[u8]) -> Option<(Method, usize)> {
    let len = buf.iter().position(|&b| !token::is_tchar(b))?;
    let usual = (1..=METHOD_LEN_MAX).contains(&len) && buf[len] == b' ';
    usual.then(|| (Method::from_bytes(&buf[..len]), len))
}

/// Parses a status line, which nearly always has the same bytes.
#[inline(always)]
pub(super) fn status_line(buf: &[u8]) -> Option<StatusLine> {
    const OK: &[u8; 17] = b"HTTP/1.1 200 OK\r\n";
    if buf.first_chunk() == Some(OK) {
        let reason = Span::new(OK.len() - 4, 2);
        return Some(StatusLine { status: 200, reason, version: Version::Http11, len: OK.len() });
    }
    other_status_line(buf)
}

#[inline(never)]
fn other_status_line(buf: &[u8]) -> Option<StatusLine> {
    let (version, rest) = match buf.strip_prefix(b"HTTP/1.1 ") {
        Some(rest) => (Version::Http11, rest),
        None => (Version::Http10, buf.strip_prefix(b"HTTP/1.0 ")?),
    };
    let (&[hundreds, tens, ones, b' '], rest) = rest.split_first_chunk()? else {
        return None;
    };
    let (hundreds, tens, ones) = (hundreds ^ b'0', tens ^ b'0', ones ^ b'0');
    if !(1..=5).contains(&hundreds) || tens > 9 || ones > 9 {
        return None;
    }
    let (reason, after) = line(rest)?;
    Some(StatusLine {
        status: u16::from(hundreds) * 100 + u16::from(tens) * 10 + u16::from(ones),
        reason: Span::new(buf.len() - rest.len(), reason.len()),
        version,
        len: buf.len() - after.len(),
    })
}

/// Parses field lines from `at` up to and including the empty line, and records their facts.
/// Returns where the section ends.
pub(super) fn field_section(
    buf: &[u8],
    at: usize,
    max_count: usize,
    fields: &mut Vec<FieldSpan>,
    facts: &mut HeadFacts,
) -> Option<usize> {
    let mut rest = buf.get(at..)?;
    loop {
        if let Some(rest) = rest.strip_prefix(b"\r\n") {
            return Some(buf.len() - rest.len());
        }
        if fields.len() >= max_count {
            return None;
        }
        let name_at = buf.len() - rest.len();
        let (known, name_len, after) = match usual_name(rest) {
            Some((known, name_len, after)) => (Some(known), name_len, after),
            None => other_name(rest)?,
        };
        let mut value_at = buf.len() - after.len();
        let (mut value, following) = line(after)?;
        rest = following;
        // Below `!` a value may only contain white space.
        if let [..=b' ', ..] | [.., ..=b' '] = value {
            let trimmed = strict::trimmed(value);
            (value, value_at) = (trimmed.0, value_at + trimmed.1);
        }
        let span = Span::new(value_at, value.len());
        fields.push(FieldSpan::with_name(name_at as u32, name_len, span, known));
        match known {
            Some(known) => facts.note(known, value, span),
            None => facts.note_unknown(&buf[name_at..name_at + usize::from(name_len)]),
        }
    }
}

/// The first bytes of a line, to distinguish the usual names.
const fn start(name: &[u8; 4]) -> u32 {
    u32::from_le_bytes(*name)
}

const ACCE: u32 = start(b"Acce");
const CONN: u32 = start(b"Conn");
const CONT: u32 = start(b"Cont");
const DATE: u32 = start(b"Date");
const ETAG: u32 = start(b"ETag");
const HOST: u32 = start(b"Host");
const LAST: u32 = start(b"Last");
const SERV: u32 = start(b"Serv");
const USER: u32 = start(b"User");

/// Returns a usual name in its usual spelling, its length, and what follows its colon and a space.
/// The name is recognised without searching for the colon.
#[inline(always)]
fn usual_name(line: &[u8]) -> Option<(Known, u16, &[u8])> {
    let (start, rest) = line.split_first_chunk()?;
    let usual = match u32::from_le_bytes(*start) {
        HOST => (Known::Host, 4, rest.strip_prefix(b": ")?),
        DATE => (Known::Date, 4, rest.strip_prefix(b": ")?),
        ETAG => (Known::Etag, 4, rest.strip_prefix(b": ")?),
        SERV => (Known::Server, 6, rest.strip_prefix(b"er: ")?),
        CONN => (Known::Connection, 10, rest.strip_prefix(b"ection: ")?),
        USER => (Known::UserAgent, 10, rest.strip_prefix(b"-Agent: ")?),
        LAST => (Known::LastModified, 13, rest.strip_prefix(b"-Modified: ")?),
        CONT => match rest.strip_prefix(b"ent-Type: ") {
            Some(after) => (Known::ContentType, 12, after),
            None => (Known::ContentLength, 14, rest.strip_prefix(b"ent-Length: ")?),
        },
        ACCE => {
            let rest = rest.strip_prefix(b"pt")?;
            if let Some(after) = rest.strip_prefix(b": ") {
                (Known::Accept, 6, after)
            } else if let Some(after) = rest.strip_prefix(b"-Encoding: ") {
                (Known::AcceptEncoding, 15, after)
            } else {
                (Known::AcceptLanguage, 15, rest.strip_prefix(b"-Language: ")?)
            }
        }
        _ => return None,
    };
    Some(usual)
}

/// Returns any other name, its length, and what follows its colon and an optional space.
#[inline(never)]
fn other_name(line: &[u8]) -> Option<(Option<Known>, u16, &[u8])> {
    let (name, after) = split(line, colon);
    let known = Known::from_bytes(name);
    if known.is_none() && !token::is_token(name) {
        return None;
    }
    let after = after.strip_prefix(b":")?;
    let name_len = u16::try_from(name.len()).ok()?;
    Some((known, name_len, after.strip_prefix(b" ").unwrap_or(after)))
}

/// Returns the bytes up to CRLF, all of them valid in a value, and what follows.
#[inline(always)]
fn line(start: &[u8]) -> Option<(&[u8], &[u8])> {
    let (text, rest) = split(start, control);
    match rest.strip_prefix(b"\r\n") {
        Some(after) => Some((text, after)),
        None => unusual_line(start, text.len()),
    }
}

/// The same for a line with HTAB or a byte above ASCII at `len`.
#[cold]
#[inline(never)]
fn unusual_line(start: &[u8], len: usize) -> Option<(&[u8], &[u8])> {
    let more = start[len..].iter().position(|&b| !token::is_value_byte(b))?;
    let (text, rest) = start.split_at(len + more);
    Some((text, rest.strip_prefix(b"\r\n")?))
}

#[cfg(test)]
mod tests {
    use super::{field_section, other_name, request_line, status_line, usual_name};
    use crate::Known;
    use crate::h1::field::HeadFacts;

    #[test]
    fn usual_names_are_parsed_like_any_other() {
        let mut usual = 0;
        for known in Known::ALL {
            let line = format!("{}: x\r\n", known.as_str());
            let found = usual_name(line.as_bytes());
            let Some((name, len, after)) = found else {
                continue;
            };
            usual += 1;
            assert_eq!(name, *known);
            assert_eq!(Some((Some(name), len, after)), other_name(line.as_bytes()), "{line}");
            for at in 0..usize::from(len) + 2 {
                let mut near = line.clone().into_bytes();
                near[at] ^= 0x20;
                assert_eq!(usual_name(&near), None, "{}", near.escape_ascii());
            }
            assert_eq!(usual_name(&line.as_bytes()[..usize::from(len) + 1]), None);
        }
        assert_eq!(usual, 12);
    }

    /// Tests if the field section at `at` is accepted up to its end.
    fn takes(head: &[u8], at: usize) -> bool {
        let (mut fields, mut facts) = (Vec::new(), HeadFacts::default());
        field_section(head, at, 16, &mut fields, &mut facts) == Some(head.len())
    }

    #[test]
    fn usual_heads_take_the_fast_path() {
        for line in ["GET / HTTP/1.1", "POST /a?b=%20?c HTTP/1.0", "OPTIONS * HTTP/1.1"] {
            for fields in ["Host: a", "host:a", "X-Odd_1:  b c \t", "A: é\tü", "Empty:"] {
                let head = format!("{line}\r\n{fields}\r\n{fields}\r\n\r\n").into_bytes();
                let (_, line) = request_line(&head, 0).unwrap();
                assert!(takes(&head, line.len), "{}", head.escape_ascii());
            }
        }
        for line in ["HTTP/1.1 200 OK", "HTTP/1.0 404 ", "HTTP/1.1 599 x y\té"] {
            let head = format!("{line}\r\nDate: x\r\nVia: 1.1 a\r\n\r\n").into_bytes();
            assert!(takes(&head, status_line(&head).unwrap().len), "{line}");
        }
    }
}
