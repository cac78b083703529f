//! Paths and queries of request targets (RFC 3986 2.1, 5.2.4, 6.2.2).
//!
//! Owns the one normal form of a path that routing, access rules and files are decided on, so that
//! `/a/../b`, `/%62` and `//b` cannot slip past a rule for `/b`. The normal form is decoded, except
//! that `%2F`, `%25` and control characters stay encoded: an encoded slash is not a separator, and
//! no decoded path can carry a line end into a field. Borrows when there is nothing to do.

use std::borrow::Cow;

/// Why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathFault {
    /// `%` without two hexadecimal digits.
    BadEscape,
    /// `%00`: nothing good is called so, and C strings end there.
    EncodedNul,
    /// `%2F` where every `/` must be a separator.
    EncodedSlash,
}

/// The normal form: escapes decoded but for the exceptions above, `.` and `..` segments resolved
/// (never above the root), runs of slashes merged, as nginx and Caddy do before they match.
pub fn normalize(path: &[u8]) -> Result<Cow<'_, [u8]>, PathFault> {
    if is_normal(path) {
        return Ok(Cow::Borrowed(path));
    }
    Ok(Cow::Owned(resolve(&unescape(path, keeps_escape)?)))
}

#[inline]
fn is_normal(path: &[u8]) -> bool {
    walk(path, |_| true)
}

/// Whether a path is its own normal form, and ASCII: true for nearly all, in one short pass. One
/// that has a segment which begins with a dot has to be normalised to tell.
#[inline]
pub fn is_plain(path: &[u8]) -> bool {
    walk(path, |byte| byte.is_ascii())
}

#[inline]
fn walk(path: &[u8], fine: impl Fn(u8) -> bool) -> bool {
    let mut after_slash = false;
    for &byte in path {
        // A dot that begins a segment may be an ordinary name; then the slow way finds nothing to
        // do.
        if byte == b'%' || !fine(byte) || (after_slash && (byte == b'/' || byte == b'.')) {
            return false;
        }
        after_slash = byte == b'/';
    }
    true
}

fn keeps_escape(byte: u8) -> bool {
    byte == b'/' || byte == b'%' || byte < 0x20 || byte == 0x7f
}

/// A path from its normal form to names in a file system: everything decoded, separators apart.
pub fn decode_for_files(normal: &[u8]) -> Result<Cow<'_, [u8]>, PathFault> {
    if memchr::memchr(b'%', normal).is_none() {
        return Ok(Cow::Borrowed(normal));
    }
    let mut out = Vec::with_capacity(normal.len());
    for piece in Escapes(normal) {
        match piece? {
            (b'/', true) => return Err(PathFault::EncodedSlash),
            (byte, _) => out.push(byte),
        }
    }
    Ok(Cow::Owned(out))
}

/// Everything decoded, `%00` refused.
pub fn decode(text: &[u8]) -> Result<Cow<'_, [u8]>, PathFault> {
    if memchr::memchr(b'%', text).is_none() {
        return Ok(Cow::Borrowed(text));
    }
    Ok(Cow::Owned(unescape(text, |_| false)?))
}

fn unescape(text: &[u8], keep: impl Fn(u8) -> bool) -> Result<Vec<u8>, PathFault> {
    let mut out = Vec::with_capacity(text.len());
    for piece in Escapes(text) {
        match piece? {
            (byte, true) if keep(byte) => push_escape(byte, &mut out),
            (byte, _) => out.push(byte),
        }
    }
    Ok(out)
}

fn push_escape(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

/// The bytes of a text, each with whether it was written as an escape.
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
        Some(match byte {
            None => Err(PathFault::BadEscape),
            Some(0) => Err(PathFault::EncodedNul),
            Some(byte) => Ok((byte, true)),
        })
    }
}

fn escaped(digits: &[u8]) -> Option<u8> {
    let high = char::from(*digits.first()?).to_digit(16)?;
    let low = char::from(*digits.get(1)?).to_digit(16)?;
    u8::try_from(high << 4 | low).ok()
}

/// Dot segments and runs of slashes (RFC 3986 5.2.4). Only absolute paths get here; `*` stays `*`.
fn resolve(path: &[u8]) -> Vec<u8> {
    let mut out: Vec<u8> = Vec::with_capacity(path.len());
    let Some(inner) = path.strip_prefix(b"/") else {
        return path.to_vec();
    };
    let mut ends_with_slash = true;
    for segment in inner.split(|&b| b == b'/') {
        ends_with_slash = true;
        match segment {
            b"" | b"." => {}
            b".." => {
                let parent = memchr::memrchr(b'/', &out).unwrap_or(0);
                out.truncate(parent);
            }
            name => {
                out.push(b'/');
                out.extend_from_slice(name);
                ends_with_slash = false;
            }
        }
    }
    if ends_with_slash {
        out.push(b'/');
    }
    out
}

/// Appends a normal form, or parts of one, as it may stand in a target or in Location: existing
/// escapes stay, whatever may not stand in a path is escaped.
pub fn encode_path(normal: &[u8], out: &mut Vec<u8>) {
    for &byte in normal {
        let plain = byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'/' | b'%' | b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&' | b'\'' | b'('
            )
            || matches!(byte, b')' | b'*' | b'+' | b',' | b';' | b'=' | b':' | b'@');
        if plain {
            out.push(byte);
        } else {
            push_escape(byte, out);
        }
    }
}

/// The most pairs of a query that are looked at.
pub const MAX_QUERY_PAIRS: usize = 1024;

/// A name and its value, decoded.
pub type QueryPair<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

/// The pairs of a query as forms write them: `&` between, `+` for space. A malformed escape stays
/// as it is, as the URL standard says: a query is data, not a path.
pub fn query_pairs(query: &[u8]) -> impl Iterator<Item = QueryPair<'_>> {
    query.split(|&b| b == b'&').filter(|pair| !pair.is_empty()).take(MAX_QUERY_PAIRS).map(|pair| {
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
        PathFault, decode, decode_for_files, encode_path, is_plain, normalize, query_pairs,
    };
    use std::borrow::Cow;

    #[test]
    fn normal_forms() {
        let table = [
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("/a/b/", "/a/b/"),
            ("/%61%2Fb", "/a%2Fb"),
            ("/%2f", "/%2F"),
            ("/a%25b", "/a%25b"),
            ("/%252F", "/%252F"),
            ("/a/./b", "/a/b"),
            ("/a/../b", "/b"),
            ("/a/%2e%2E/b", "/b"),
            ("/a/b/..", "/a/"),
            ("/a/b/.", "/a/b/"),
            ("/..", "/"),
            ("/../../etc/passwd", "/etc/passwd"),
            ("//a///b//", "/a/b/"),
            ("/a//../b", "/b"),
            ("/.hidden/..x/a..", "/.hidden/..x/a.."),
            ("/caf%C3%A9", "/café"),
            ("/a%20b%3Fc", "/a b?c"),
            ("/a%0d%0aSet-Cookie", "/a%0D%0ASet-Cookie"),
            ("/a%7Fb%09", "/a%7Fb%09"),
            ("/..%2F..%2Fetc", "/..%2F..%2Fetc"),
            ("*", "*"),
        ];
        for (path, expected) in table {
            let normal = normalize(path.as_bytes()).unwrap();
            assert_eq!(String::from_utf8_lossy(&normal), expected, "{path}");
            assert!(!is_plain(path.as_bytes()) || expected == path, "{path}");
            let again = normalize(&normal).unwrap();
            assert_eq!(again, normal, "{path}: normal forms are normal");
        }
        assert!(matches!(normalize(b"/plain/path.html"), Ok(Cow::Borrowed(_))));
        assert!(is_plain(b"/plain/path.html") && !is_plain("/caf\u{e9}".as_bytes()));
    }

    #[test]
    fn faults() {
        for bad in ["/%", "/%1", "/%zz", "/a%2", "/%+1"] {
            assert_eq!(normalize(bad.as_bytes()), Err(PathFault::BadEscape), "{bad}");
        }
        assert_eq!(normalize(b"/a%00.png"), Err(PathFault::EncodedNul));
        assert_eq!(decode(b"%00"), Err(PathFault::EncodedNul));
        assert_eq!(decode_for_files(b"/a%2Fb"), Err(PathFault::EncodedSlash));
        assert_eq!(decode_for_files(b"/a%25b%0A").unwrap(), &b"/a%b\n"[..]);
        assert_eq!(decode(b"a%2Fb").unwrap(), &b"a/b"[..]);
    }

    #[test]
    fn encoding_undoes_decoding() {
        for path in ["/a%20b%3Fc", "/caf%C3%A9", "/a%2Fb%25c", "/a%0D%0Ab", "/x%22%3C%3E%23%5C"] {
            let mut out = Vec::new();
            encode_path(&normalize(path.as_bytes()).unwrap(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), path);
        }
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
    }
}
