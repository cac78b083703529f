//! Cookies that count in a key.
//!
//! The origin gets the Cookie field as the client sent it, and servers read it in different ways:
//! some decode names, ignore their case, split at commas or strip quotes. A field in which one of
//! them could find a cookie that another one does not find counts as a whole.

use message::Request;
use plugin::variables;
use wire::Known;

use super::{KeyError, write_joined};

/// Appends the values of a cookie, and every Cookie field that may hold it in another spelling.
pub(super) fn write(request: &Request, name: &str, out: &mut Vec<u8>) -> Result<(), KeyError> {
    let fields = || request.headers.get_all(Known::Cookie);
    write_joined(variables::cookies(request, name), b";", out)?;
    for field in fields().filter(|field| is_ambiguous(field, name.as_bytes())) {
        out.extend_from_slice(b"\0a:cookie");
        write_joined([field], b"", out)?;
    }
    Ok(())
}

/// True if servers may find different values of the cookie in this field.
fn is_ambiguous(field: &[u8], name: &[u8]) -> bool {
    field.split(|byte| *byte == b';').any(|pair| {
        let mut parts = pair.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        let first = parts.next().unwrap_or_default();
        let plain = first.strip_prefix(name).and_then(|rest| rest.strip_prefix(b"="));
        match plain {
            Some(value) if value.contains(&b'"') => true,
            Some(_) => parts.any(|part| may_name(part, name)),
            None => may_name(first, name) || parts.any(|part| may_name(part, name)),
        }
    })
}

/// True if a server may take the name of this pair for `name`. PHP takes `a[x]` for an array `a`
/// and writes other signs as `_`.
fn may_name(pair: &[u8], name: &[u8]) -> bool {
    let end = pair.iter().position(|byte| matches!(byte, b'=' | b'['));
    let written = normalised(&pair[..end.unwrap_or(pair.len())]);
    written.eq(normalised(name))
}

/// The bytes of a name: decoded, in lower case, and other signs than letters and digits as `_`.
fn normalised(name: &[u8]) -> impl Iterator<Item = u8> {
    let mut rest = name.trim_ascii();
    std::iter::from_fn(move || {
        let (&first, after) = rest.split_first()?;
        let escaped = match (first, after) {
            (b'%', [high, low, ..]) => digit(*high).zip(digit(*low)),
            _ => None,
        };
        let byte = escaped.map_or(first, |(high, low)| high << 4 | low);
        rest = if escaped.is_some() { &after[2..] } else { after };
        Some(if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'_' })
    })
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_servers_read_in_different_ways_are_ambiguous() {
        for (field, ambiguous) in [
            ("plan=a; other=\"x,y\"; plane=b; a=plan", false),
            ("plan=a,b; plan=c", false),
            ("pl%61n=a", true),
            ("x=1; PLAN=a", true),
            ("x=1, plan=a", true),
            ("plan=a, plan=b", true),
            ("plan", true),
            ("plan =a", true),
            ("plan=\"a\"", true),
            ("plan[x]=a", true),
            ("%20plan=a", false),
            ("%zzplan=a", false),
        ] {
            assert_eq!(is_ambiguous(field.as_bytes(), b"plan"), ambiguous, "{field}");
        }
        assert!(is_ambiguous(b"a_b=1", b"a.b") && !is_ambiguous(b"a.b=1", b"a.b"));
    }
}
