//! The Cookie field of a request (RFC 6265 4.2.1, 5.4).
//!
//! Owns its lenient parsing: what browsers send rarely follows the grammar. Names are
//! case-sensitive. If a name occurs repeatedly, the first occurrence counts, as in browsers. Never
//! decodes.

use crate::token;

/// Returns all name-value pairs in order. Quotes around a value are stripped; a part without `=` is
/// skipped.
pub fn pairs(value: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    value.split(|&b| b == b';').filter_map(|pair| {
        let equals = memchr::memchr(b'=', pair)?;
        let name = token::trim(&pair[..equals]);
        let value = token::trim(&pair[equals + 1..]);
        let value = match value {
            [b'"', inner @ .., b'"'] => inner,
            plain => plain,
        };
        (!name.is_empty()).then_some((name, value))
    })
}

/// Returns the first value of a name.
pub fn get<'a>(value: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    pairs(value).find(|(found, _)| *found == name).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::{get, pairs};

    #[test]
    fn pairs_are_found_as_browsers_send_them() {
        let value = b"a=1; b=\"two\" ;c;=x; d=a=b;a=3;e=;f=\"";
        let found: Vec<_> = pairs(value).collect();
        let expected: [(&[u8], &[u8]); 6] = [
            (b"a", b"1"),
            (b"b", b"two"),
            (b"d", b"a=b"),
            (b"a", b"3"),
            (b"e", b""),
            (b"f", b"\""),
        ];
        assert_eq!(found, expected);
        assert_eq!(get(value, b"a"), Some(&b"1"[..]));
        assert_eq!(get(value, b"A"), None);
        assert_eq!(pairs(b"").count(), 0);
    }

    #[test]
    fn the_last_of_many_pairs_is_found() {
        let many = "a=1;".repeat(5000) + "b=2";
        assert_eq!(get(many.as_bytes(), b"b"), Some(&b"2"[..]));
    }
}
