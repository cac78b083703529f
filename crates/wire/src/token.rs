//! Character classes of HTTP (RFC 9110 5.5, 5.6.2) and the list syntax of field values (5.6.1).
//!
//! Owns which bytes are allowed in a name, a value and a target, and how a comma-separated value is
//! split. Never allocates.

const TCHAR: u8 = 1;
const VALUE: u8 = 2;
const TARGET: u8 = 4;
const HOST: u8 = 8;
const UNRESERVED: u8 = 16;
const PATH: u8 = 32;

static CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut b = 0;
    while b < 256 {
        let byte = b as u8;
        if byte.is_ascii_alphanumeric()
            || matches!(
                byte,
                b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_'
            )
            || matches!(byte, b'`' | b'|' | b'~')
        {
            table[b] |= TCHAR;
        }
        if byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'-' {
            table[b] |= HOST;
        }
        // RFC 3986 2.3 and 3.3.
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            table[b] |= UNRESERVED | PATH;
        }
        if matches!(
            byte,
            b'/' | b':' | b'@' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b','
        ) || matches!(byte, b';' | b'=')
        {
            table[b] |= PATH;
        }
        if byte == b'\t' || (byte >= 0x20 && byte != 0x7f) {
            table[b] |= VALUE;
        }
        // A fragment is never sent (RFC 9112 3.2); the other bytes are up to the resource.
        if byte > 0x20 && byte < 0x7f && byte != b'#' {
            table[b] |= TARGET;
        }
        b += 1;
    }
    table
}

/// A byte of a token.
#[inline]
pub fn is_tchar(byte: u8) -> bool {
    CLASS[byte as usize] & TCHAR != 0
}

/// A non-empty run of tchar: a field name, a method, a coding.
#[inline]
pub fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|&b| is_tchar(b))
}

/// A byte of a field value: anything except controls other than HTAB.
#[inline]
pub fn is_value_byte(byte: u8) -> bool {
    CLASS[byte as usize] & VALUE != 0
}

/// True if the bytes may be sent as a field value: no control except HTAB, no surrounding white
/// space.
pub fn is_field_value(value: &[u8]) -> bool {
    value.iter().all(|&b| is_value_byte(b)) && trim(value).len() == value.len()
}

/// A byte of a request target: visible ASCII except `#`.
#[inline]
pub(crate) fn is_target_byte(byte: u8) -> bool {
    CLASS[byte as usize] & TARGET != 0
}

/// A character that never needs an escape (RFC 3986 2.3).
#[inline]
pub(crate) fn is_unreserved(byte: u8) -> bool {
    CLASS[byte as usize] & UNRESERVED != 0
}

/// A byte that is allowed in a path without an escape: `/` or one of pchar (RFC 3986 3.3).
#[inline]
pub(crate) fn is_path_byte(byte: u8) -> bool {
    CLASS[byte as usize] & PATH != 0
}

/// A byte of a plain host: a name of letters, digits and hyphens, or an IPv4 address.
#[inline]
pub(crate) fn is_host_byte(byte: u8) -> bool {
    CLASS[byte as usize] & HOST != 0
}

#[inline]
pub(crate) fn is_ows(byte: u8) -> bool {
    byte == b' ' || byte == b'\t'
}

/// Returns the text without surrounding optional whitespace (SP, HTAB).
#[inline]
pub fn trim(mut text: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = text
        && is_ows(*first)
    {
        text = rest;
    }
    while let [rest @ .., last] = text
        && is_ows(*last)
    {
        text = rest;
    }
    text
}

/// Returns the trimmed, non-empty members of a comma-separated value. Commas inside quoted strings
/// do not separate (RFC 9110 5.6.1.2: empty members are skipped).
pub fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    split(value, b',').filter(|member| !member.is_empty())
}

/// Returns the trimmed parts between separators outside quoted strings, including empty ones.
pub(crate) fn split(value: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(value);
    std::iter::from_fn(move || {
        let text = rest?;
        let end = end_of_part(text, separator);
        rest = text.get(end + 1..);
        Some(trim(&text[..end]))
    })
}

fn end_of_part(text: &[u8], separator: u8) -> usize {
    let (mut quoted, mut escaped) = (false, false);
    for (at, &byte) in text.iter().enumerate() {
        if escaped {
            escaped = false;
        } else if quoted && byte == b'\\' {
            escaped = true;
        } else if byte == b'"' {
            quoted = !quoted;
        } else if byte == separator && !quoted {
            return at;
        }
    }
    text.len()
}

/// Parses at least one and at most 19 digits, within `i64::MAX`: no sign, no space, no overflow
/// (RFC 9110 8.6). Lengths are added and compared later, so the last bit stays free.
#[inline]
pub fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 19 {
        return None;
    }
    let mut value = 0u64;
    for &byte in text {
        let digit = u64::from(byte ^ b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + digit;
    }
    (value <= i64::MAX as u64).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::{decimal, is_field_value, is_target_byte, is_token, list, trim};

    #[test]
    fn classes_match_the_grammar() {
        let tchars = (0..=255u8).filter(|&b| super::is_tchar(b)).count();
        assert_eq!(tchars, 10 + 26 + 26 + 15);
        assert!(is_token(b"X-a_b.c~") && !is_token(b"") && !is_token(b"a b") && !is_token(b"a:"));
        assert!(is_field_value(b"a\tb \xc3\xa9") && !is_field_value(b"a\r\nb"));
        assert!(!is_field_value(b"a\0") && !is_field_value(b" a") && !is_field_value(b"a\t"));
        assert!(!is_target_byte(b'#') && !is_target_byte(b' ') && !is_target_byte(0x80));
        assert!(is_target_byte(b'%') && is_target_byte(b'~'));
    }

    #[test]
    fn lists_skip_empty_members_and_keep_quoted_commas() {
        let members: Vec<_> = list(b" a ,, \"b,\\\"c\" ;x=\"1,2\" ,\td\t, ").collect();
        assert_eq!(members, [&b"a"[..], b"\"b,\\\"c\" ;x=\"1,2\"", b"d"]);
        assert_eq!(list(b"").count(), 0);
        assert_eq!(trim(b" \t "), b"");
    }

    #[test]
    fn decimals_are_strict() {
        assert_eq!(decimal(b"0"), Some(0));
        assert_eq!(decimal(b"007"), Some(7));
        assert_eq!(decimal(b"9223372036854775807"), Some(i64::MAX as u64));
        for bad in ["", "+1", "-1", " 1", "1 ", "0x1", "1e3", "9223372036854775808"] {
            assert_eq!(decimal(bad.as_bytes()), None, "{bad}");
        }
        assert_eq!(decimal(b"00000000000000000001"), None);
    }
}
