//! Paths and queries of request targets (RFC 3986 2.1, 5.2.4, 6.2.2).
//!
//! Owns the one canonical form of a path. A request is routed, forwarded, cached and passed to
//! applications with this path only, so that no two of them interpret a path differently:
//!
//! - Escapes of unreserved characters are decoded. Every other escape stays, its digits in upper
//!   case; reserved characters stay as the client wrote them (`+` and `%2B` are different names).
//! - Bytes that are not allowed in a path are escaped.
//! - Dot segments are removed (RFC 3986 5.2.4), then runs of slashes are merged.
//! - Spellings that receivers are known to interpret differently are rejected: backslashes, control
//!   characters, overlong UTF-8, escapes without two digits.
//!
//! Patterns are compared with the *normal form*: the canonical path decoded, except `%2F` and `%25`
//! (so that a receiver that decodes once reads the same path) and bytes that are not UTF-8, so that
//! it is text and preserves all of the path. Nearly all paths are canonical and have no escape: one
//! short pass detects that and borrows.

use std::borrow::Cow;
use std::fmt;

use crate::token;

/// Why a path is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathFault {
    /// It does not begin with `/`.
    Relative,
    /// `%` without two hexadecimal digits.
    BadEscape,
    /// A control character, raw or escaped.
    Control,
    /// `\\`, raw or escaped: a separator to some receivers.
    Backslash,
    /// `#`: it begins a fragment, which is never sent (RFC 9112 3.2).
    Fragment,
    /// A character in more bytes of UTF-8 than it needs (RFC 3629 3): lenient decoders read `/`.
    Overlong,
    /// `%2F` where every `/` must be a separator.
    EncodedSlash,
}

impl PathFault {
    /// What is wrong, for the log.
    pub fn as_str(self) -> &'static str {
        match self {
            PathFault::Relative => "the path does not begin with /",
            PathFault::BadEscape => "the path has a % without two hexadecimal digits",
            PathFault::Control => "the path has a control character",
            PathFault::Backslash => "the path has a backslash, which some servers take for a slash",
            PathFault::Fragment => "the path has a #",
            PathFault::Overlong => "the path has overlong UTF-8",
            PathFault::EncodedSlash => "the path has an encoded slash",
        }
    }
}

impl fmt::Display for PathFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// True if a path is canonical and its own normal form, which holds for nearly all. A path with a
/// segment that begins with a dot takes the slow path, where most turn out to be canonical too.
#[inline]
pub fn is_plain(path: &[u8]) -> bool {
    let [b'/', rest @ ..] = path else { return false };
    let mut after_slash = true;
    for &byte in rest {
        if !token::is_path_byte(byte) || (after_slash && (byte == b'/' || byte == b'.')) {
            return false;
        }
        after_slash = byte == b'/';
    }
    true
}

/// Returns the canonical form of a received path.
pub fn canonical(path: &[u8]) -> Result<Cow<'_, [u8]>, PathFault> {
    if is_plain(path) {
        return Ok(Cow::Borrowed(path));
    }
    let mut canonical = without_dot_segments(&respell(path)?)?;
    canonical.dedup_by(|next, before| *next == b'/' && *before == b'/');
    Ok(Cow::Owned(canonical))
}

/// Returns the normal form of a canonical path: decoded, except `%2F`, `%25` and bytes that are not
/// UTF-8.
pub fn normal_form(canonical: &[u8]) -> Result<Cow<'_, str>, PathFault> {
    let decoded = unescape(canonical, |byte| byte == b'/' || byte == b'%')?;
    if let Cow::Borrowed(text) = decoded
        && let Ok(text) = std::str::from_utf8(text)
    {
        return Ok(Cow::Borrowed(text));
    }
    Ok(Cow::Owned(String::from_utf8(decoded.into_owned()).unwrap_or_else(|no_text| {
        let mut text = String::with_capacity(no_text.as_bytes().len() + 16);
        for chunk in no_text.as_bytes().utf8_chunks() {
            text.push_str(chunk.valid());
            let escapes = chunk.invalid().iter().flat_map(|byte| escape(*byte));
            text.extend(escapes.map(char::from));
        }
        text
    })))
}

/// Returns the normal form of a path in any spelling, including a decoded one: equal to the text if
/// that is a normal form.
pub fn normalize(text: &[u8]) -> Result<Vec<u8>, PathFault> {
    let mut raw = Vec::with_capacity(text.len());
    encode_path(text, &mut raw);
    Ok(normal_form(&canonical(&raw)?)?.into_owned().into_bytes())
}

/// Converts the normal form of a path to file names: everything decoded, separators kept apart.
pub fn decode_for_files(normal: &[u8]) -> Result<Cow<'_, [u8]>, PathFault> {
    if Escapes(normal).any(|piece| piece == Ok((b'/', true))) {
        return Err(PathFault::EncodedSlash);
    }
    unescape(normal, |_| false)
}

/// Decodes every escape of a text that is not a path, such as a part of another URL.
pub fn unescape_all(text: &[u8]) -> Result<Cow<'_, [u8]>, PathFault> {
    unescape(text, |_| false)
}

/// Returns the number of encoded slashes in a path of any spelling.
pub fn count_encoded_slashes(path: &[u8]) -> usize {
    memchr::memchr_iter(b'%', path).filter(|at| is_encoded_slash(&path[*at..])).count()
}

/// True if the text begins with `%2F`, in either case.
pub fn is_encoded_slash(text: &[u8]) -> bool {
    text.get(..3).is_some_and(|escape| escape.eq_ignore_ascii_case(b"%2f"))
}

fn unescape(text: &[u8], keep: impl Fn(u8) -> bool) -> Result<Cow<'_, [u8]>, PathFault> {
    if memchr::memchr(b'%', text).is_none() {
        return Ok(Cow::Borrowed(text));
    }
    let mut out = Vec::with_capacity(text.len());
    for piece in Escapes(text) {
        match piece? {
            (byte, true) if keep(byte) => push_escape(byte, &mut out),
            (byte, _) => out.push(byte),
        }
    }
    Ok(Cow::Owned(out))
}

/// Rewrites every character in its canonical spelling.
fn respell(path: &[u8]) -> Result<Vec<u8>, PathFault> {
    let mut out = Vec::with_capacity(path.len() + 16);
    let mut before = 0;
    for piece in Escapes(path) {
        let (byte, escaped) = piece?;
        match byte {
            b'\\' => return Err(PathFault::Backslash),
            0..0x20 | 0x7f => return Err(PathFault::Control),
            b'#' if !escaped => return Err(PathFault::Fragment),
            _ if is_overlong(before, byte) => return Err(PathFault::Overlong),
            _ if escaped && token::is_unreserved(byte) => out.push(byte),
            _ if !escaped && token::is_path_byte(byte) => out.push(byte),
            _ => push_escape(byte, &mut out),
        }
        before = byte;
    }
    Ok(out)
}

/// True if two bytes begin a character in more bytes than it needs (RFC 3629 3, and the longer
/// forms before it). Other bytes that are not UTF-8 are legal: some URLs use older encodings.
fn is_overlong(before: u8, byte: u8) -> bool {
    matches!(
        (before, byte),
        (_, 0xC0 | 0xC1)
            | (0xE0, 0x80..=0x9F)
            | (0xF0, 0x80..=0x8F)
            | (0xF8, 0x80..=0x87)
            | (0xFC, 0x80..=0x83)
    )
}

/// RFC 3986 5.2.4. Empty segments are segments: `/a//..` is `/a/`.
fn without_dot_segments(path: &[u8]) -> Result<Vec<u8>, PathFault> {
    let inner = path.strip_prefix(b"/").ok_or(PathFault::Relative)?;
    let mut out: Vec<u8> = Vec::with_capacity(path.len());
    let mut ends_with_slash = false;
    for segment in inner.split(|&b| b == b'/') {
        ends_with_slash = matches!(segment, b"." | b"..");
        match segment {
            b"." => {}
            b".." => out.truncate(memchr::memrchr(b'/', &out).unwrap_or(0)),
            name => {
                out.push(b'/');
                out.extend_from_slice(name);
            }
        }
    }
    if ends_with_slash {
        out.push(b'/');
    }
    Ok(out)
}

fn push_escape(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&escape(byte));
}

fn escape(byte: u8) -> [u8; 3] {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    [b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

/// The bytes of a text, each with a flag that is true for an escape.
struct Escapes<'a>(&'a [u8]);

impl Iterator for Escapes<'_> {
    type Item = Result<(u8, bool), PathFault>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        if first != b'%' {
            return Some(Ok((first, false)));
        }
        let byte = escaped(rest);
        self.0 = rest.get(2..).unwrap_or(b"");
        Some(byte.map(|byte| (byte, true)).ok_or(PathFault::BadEscape))
    }
}

fn escaped(digits: &[u8]) -> Option<u8> {
    let high = char::from(*digits.first()?).to_digit(16)?;
    let low = char::from(*digits.get(1)?).to_digit(16)?;
    u8::try_from(high << 4 | low).ok()
}

/// Appends a normal form, or parts of one, as allowed in a target or in Location: existing escapes
/// stay, bytes that are not allowed in a path are escaped.
pub fn encode_path(normal: &[u8], out: &mut Vec<u8>) {
    for &byte in normal {
        if byte == b'%' || token::is_path_byte(byte) {
            out.push(byte);
        } else {
            push_escape(byte, out);
        }
    }
}

/// A name and its value, decoded.
pub type QueryPair<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// Returns all pairs of a query in form encoding: `&` between, `+` for space. A malformed escape
/// stays as it is, as in the URL standard: a query is data, not a path.
///
/// Their number has no limit but the length of the query: an upstream reads all of them, so a
/// filter that decides by a parameter has to see the same ones.
pub fn query_pairs(query: &[u8]) -> impl Iterator<Item = QueryPair<'_>> {
    query.split(|&b| b == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
        match memchr::memchr(b'=', pair) {
            Some(at) => (decode_form(&pair[..at]), decode_form(&pair[at + 1..])),
            None => (decode_form(pair), Cow::Borrowed(&b""[..])),
        }
    })
}

fn decode_form(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr2(b'%', b'+', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b'+' => out.push(b' '),
            b'%' => match escaped(&text[at..]) {
                Some(decoded) => {
                    out.push(decoded);
                    at += 2;
                }
                None => out.push(b'%'),
            },
            _ => out.push(byte),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::{
        PathFault, canonical, decode_for_files, encode_path, is_plain, normal_form, normalize,
        query_pairs,
    };
    use std::borrow::Cow;

    fn forms(path: &str) -> Result<(String, String), PathFault> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let canonical = canonical(path.as_bytes())?;
        Ok((text(&canonical), normal_form(&canonical)?.into_owned()))
    }

    /// (received, canonical, normal form where it differs)
    const FORMS: [(&str, &str, Option<&str>); 43] = [
        ("/", "/", None),
        ("/a/b", "/a/b", None),
        ("/a/b/", "/a/b/", None),
        ("/%61%2Fb", "/a%2Fb", None),
        ("/%2f", "/%2F", None),
        ("/a%25b", "/a%25b", None),
        ("/%252F", "/%252F", None),
        ("/%252e%252e/x", "/%252e%252e/x", None),
        ("/%41%7e%2d%5F%39", "/A~-_9", None),
        ("/a+b%2Bc%2c;d%3B", "/a+b%2Bc%2C;d%3B", Some("/a+b+c,;d;")),
        ("/a:b@c!$&'()*,=", "/a:b@c!$&'()*,=", None),
        ("/a\"<>^`{|}[]", "/a%22%3C%3E%5E%60%7B%7C%7D%5B%5D", Some("/a\"<>^`{|}[]")),
        ("/caf%c3%A9", "/caf%C3%A9", Some("/café")),
        ("/café", "/caf%C3%A9", Some("/café")),
        ("/a%20b%3Fc%23", "/a%20b%3Fc%23", Some("/a b?c#")),
        ("/..%2F..%2Fetc", "/..%2F..%2Fetc", None),
        ("/.hidden/..x/a../...", "/.hidden/..x/a../...", None),
        ("/..;/x", "/..;/x", None),
        ("/.", "/", None),
        ("/./", "/", None),
        ("/..", "/", None),
        ("/../", "/", None),
        ("/a/./b", "/a/b", None),
        ("/a/b/.", "/a/b/", None),
        ("/a/..", "/", None),
        ("/a/b/..", "/a/", None),
        ("/a/../b", "/b", None),
        ("/a/%2e%2E/b", "/b", None),
        ("/a/.%2e/b", "/b", None),
        ("/../../etc/passwd", "/etc/passwd", None),
        ("//a///b//", "/a/b/", None),
        ("//", "/", None),
        ("//h/private/x", "/h/private/x", None),
        // Dot segments first: an empty segment counts as one, and merging slashes first would lose
        // a name.
        ("/a//../b", "/a/b", None),
        ("/private//../x", "/private/x", None),
        ("/private//%2e%2e/x", "/private/x", None),
        ("/private/.//../x", "/private/x", None),
        ("/private///..//../x", "/private/x", None),
        ("/private/x/../..", "/", None),
        ("//..", "/", None),
        ("/..//x", "/x", None),
        ("/a//.", "/a/", None),
        ("/a%c3/%E9%25%c3%a9", "/a%C3/%E9%25%C3%A9", Some("/a%C3/%E9%25é")),
    ];

    #[test]
    fn forms_of_paths() {
        for (path, canonical_form, normal) in FORMS {
            let (raw, decoded) = forms(path).unwrap();
            assert_eq!((&*raw, &*decoded), (canonical_form, normal.unwrap_or(canonical_form)));
            assert!(!is_plain(path.as_bytes()) || canonical_form == path, "{path}");
            assert_eq!(forms(&raw).unwrap(), (raw, decoded), "{path}: canonical forms are stable");
        }
        assert!(matches!(canonical(b"/plain/path.html"), Ok(Cow::Borrowed(_))));
        assert!(is_plain(b"/plain/path.html") && !is_plain("/caf\u{e9}".as_bytes()));
    }

    #[test]
    fn faults() {
        for (bad, fault) in [
            ("/%", PathFault::BadEscape),
            ("/%1", PathFault::BadEscape),
            ("/%zz", PathFault::BadEscape),
            ("/a%2", PathFault::BadEscape),
            ("/%+1", PathFault::BadEscape),
            ("/a%00.png", PathFault::Control),
            ("/a%0d%0aSet-Cookie", PathFault::Control),
            ("/a%7F", PathFault::Control),
            ("/a\tb", PathFault::Control),
            ("/private\\x", PathFault::Backslash),
            ("/private%5cx", PathFault::Backslash),
            ("/a#b", PathFault::Fragment),
            ("/%c0%afx", PathFault::Overlong),
            ("/%C1", PathFault::Overlong),
            ("/%e0%80%af", PathFault::Overlong),
            ("/%F0%80%80%AF", PathFault::Overlong),
            ("/%F8%80%80%80%AF", PathFault::Overlong),
            ("/%FC%80%80%80%80%AF", PathFault::Overlong),
            ("a/../b", PathFault::Relative),
            ("../b", PathFault::Relative),
            ("a", PathFault::Relative),
            ("", PathFault::Relative),
            ("*", PathFault::Relative),
            ("%2e", PathFault::Relative),
        ] {
            assert_eq!(forms(bad), Err(fault), "{bad}");
        }
        for legal in ["/%e0%a0%80", "/%f0%90%80%80", "/%ed%a0%80", "/%80%ff"] {
            assert!(forms(legal).is_ok(), "{legal}");
        }
        assert_eq!(decode_for_files(b"/a%2Fb"), Err(PathFault::EncodedSlash));
        assert_eq!(decode_for_files(b"/a%25b").unwrap(), &b"/a%b"[..]);
    }

    #[test]
    fn encoding_undoes_decoding() {
        for path in ["/a%20b%3Fc", "/caf%C3%A9", "/a%2Fb%25c", "/x%22%3C%3E%23", "/caf%E9/%C3"] {
            let mut out = Vec::new();
            encode_path(&normalize(path.as_bytes()).unwrap(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), path);
        }
        for normal in ["/café/a b?c#", "/a%2Fb%25", "/a+b;c"] {
            assert_eq!(normalize(normal.as_bytes()).unwrap(), normal.as_bytes());
        }
        for other in ["/a/../b", "/%41", "//a", "/a%2f"] {
            assert_ne!(normalize(other.as_bytes()).unwrap(), other.as_bytes());
        }
        assert_eq!(normalize(b"/a\\b"), Err(PathFault::Backslash));
    }

    #[test]
    fn queries() {
        let pairs: Vec<_> = query_pairs(b"a=1&&b=x+y%26z&c&=d&e=%zz%4&a=2&%61=3=4").collect();
        let expected = [
            ("a", "1"),
            ("b", "x y&z"),
            ("c", ""),
            ("", "d"),
            ("e", "%zz%4"),
            ("a", "2"),
            ("a", "3=4"),
        ];
        let expected: Vec<_> = expected
            .iter()
            .map(|(n, v)| (Cow::Borrowed(n.as_bytes()), Cow::Borrowed(v.as_bytes())))
            .collect();
        assert_eq!(pairs, expected);
        assert_eq!(query_pairs(b"").count(), 0);
        let many = "a&".repeat(10_000) + "last";
        assert_eq!(query_pairs(many.as_bytes()).count(), 10_001, "a decision sees them all");
    }
}
