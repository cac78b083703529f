//! The path of a key: what two spellings of one path have in common, and which paths are none.
//!
//! Promises that two paths give one text only where RFC 3986 6.2.2 calls them the same (hexadecimal
//! digits in either case, escapes of unreserved characters), and that a path which neighbours read
//! in more than one way gives none: what a route, a cache and an origin disagree on is how private
//! pages get into caches.

use super::{KeyPath, Refusal};

/// Appends the text of a raw path.
pub(super) fn write(path: &[u8], form: KeyPath, out: &mut Vec<u8>) -> Result<(), Refusal> {
    if is_simple(path) {
        out.extend_from_slice(path);
        return Ok(());
    }
    let begin = out.len();
    let mut rest = path;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte == b'\\' || byte < b' ' {
            return Err(Refusal::AmbiguousPath);
        }
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let (high, low) = (hexadecimal(rest.first()), hexadecimal(rest.get(1)));
        let (Some(high), Some(low)) = (high, low) else { return Err(Refusal::AmbiguousPath) };
        let escape = [b'%', rest[0], rest[1]];
        rest = &rest[2..];
        match (high << 4 | low, form) {
            (b'\\' | b'.' | 0..0x20 | 0x7f, _) | (b'/', KeyPath::Normal) => {
                return Err(Refusal::AmbiguousPath);
            }
            (_, KeyPath::Raw) => out.extend_from_slice(&escape),
            (plain, KeyPath::Normal) if is_unreserved(plain) => out.push(plain),
            (_, KeyPath::Normal) => out.extend_from_slice(&escape.map(|b| b.to_ascii_uppercase())),
        }
    }
    match has_dot_segment(&out[begin..]) {
        true => Err(Refusal::AmbiguousPath),
        false => Ok(()),
    }
}

/// Whether there is nothing to look at more closely, which is so for nearly all paths. One short
/// pass: most are shorter than what a search costs to begin.
fn is_simple(path: &[u8]) -> bool {
    // What a path begins with is the beginning of a segment.
    let mut refused = ODD | DOT;
    for &byte in path {
        let class = CLASS[usize::from(byte)];
        // A dot that begins a segment may be an ordinary name: that is for the slow way to find.
        if class & refused != 0 {
            return false;
        }
        refused = if class == SLASH { ODD | DOT } else { ODD };
    }
    true
}

const PLAIN: u8 = 0;
const SLASH: u8 = 1;
const DOT: u8 = 2;
const ODD: u8 = 4;

/// What a byte is for [`is_simple`].
static CLASS: [u8; 256] = {
    let mut table = [PLAIN; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b'/' => SLASH,
            b'.' => DOT,
            b'%' | b'\\' | 0..b' ' => ODD,
            _ => PLAIN,
        };
        byte += 1;
    }
    table
};

/// Whether a segment is `.` or `..`, which some resolve and others do not; an encoded slash counts
/// as one.
fn has_dot_segment(path: &[u8]) -> bool {
    memchr::memchr_iter(b'.', path).any(|at| {
        let end = if path.get(at + 1) == Some(&b'.') { at + 2 } else { at + 1 };
        begins_segment(&path[..at]) && ends_segment(&path[end..])
    })
}

fn begins_segment(before: &[u8]) -> bool {
    let escaped = || before.last_chunk::<3>().is_some_and(|last| last.eq_ignore_ascii_case(b"%2f"));
    before.last().is_none_or(|byte| *byte == b'/') || escaped()
}

fn ends_segment(behind: &[u8]) -> bool {
    // Servers that know path parameters look for dots before them.
    behind.first().is_none_or(|byte| matches!(byte, b'/' | b';'))
        || behind.get(..3).is_some_and(|escape| escape.eq_ignore_ascii_case(b"%2f"))
}

fn hexadecimal(digit: Option<&u8>) -> Option<u8> {
    char::from(*digit?).to_digit(16).map(|value| value as u8)
}

/// RFC 3986 2.3, without the dot: an escaped one is refused.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str, form: KeyPath) -> Option<String> {
        let mut out = b"before.".to_vec();
        write(path.as_bytes(), form, &mut out).ok()?;
        Some(String::from_utf8(out).unwrap().strip_prefix("before.").unwrap().to_owned())
    }

    #[test]
    fn spellings_of_one_path_are_one_text() {
        for (path, normal) in [
            ("/", "/"),
            ("/a.b/..c/.d/e..", "/a.b/..c/.d/e.."),
            ("//a///b/", "//a///b/"),
            ("/%61%2d%5F%7e", "/a-_~"),
            ("/caf%c3%A9", "/caf%C3%A9"),
            ("/a%3bb;c%3fd", "/a%3Bb;c%3Fd"),
            ("/%2561", "/%2561"),
        ] {
            assert_eq!(text(path, KeyPath::Normal).as_deref(), Some(normal), "{path}");
            assert_eq!(text(path, KeyPath::Raw).as_deref(), Some(path));
        }
    }

    #[test]
    fn ambiguous_paths_have_none() {
        for path in [
            "/.",
            "/..",
            "/a/./b",
            "/a/../b",
            "/a/..;x/b",
            "/%2e",
            "/a%2Ecss",
            "/a\\b",
            "/a%5cb",
            "/a%00",
            "/a%0d%0a",
            "/a%7f",
            "/%",
            "/%4",
            "/%zz",
            "/a/%2e%2E/b",
            "..",
            "/..%2fb",
            "/a%2F../b",
            "/a%2f..;",
        ] {
            assert_eq!(text(path, KeyPath::Normal), None, "{path}");
            assert_eq!(text(path, KeyPath::Raw), None, "{path}");
        }
        assert_eq!(text("/a%2Fb", KeyPath::Normal), None);
        assert_eq!(text("/a%2Fb", KeyPath::Raw).as_deref(), Some("/a%2Fb"));
    }
}
