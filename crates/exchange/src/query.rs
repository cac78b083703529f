//! The query by name: `application/x-www-form-urlencoded`, as browsers write it.
//!
//! Promises: names and values are decoded (`%41`, and `+` as a space), a name without `=` has an empty
//! value, broken percent-encoding stands for itself. Nothing is copied unless it has to be decoded.

use std::borrow::Cow;

/// Every value of a name, in order.
pub fn values<'q>(query: &'q [u8], name: &str) -> impl Iterator<Item = Cow<'q, [u8]>> {
    query.split(|byte| *byte == b'&').filter_map(move |pair| {
        let equals = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
        let same = !pair.is_empty() && *decode(&pair[..equals]) == *name.as_bytes();
        same.then(|| decode(pair.get(equals + 1..).unwrap_or_default()))
    })
}

/// The first value of a name.
pub fn value<'q>(query: &'q [u8], name: &str) -> Option<Cow<'q, [u8]>> {
    values(query, name).next()
}

fn decode(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let pair = text.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
        let escaped = pair
            .filter(|digits| *byte == b'%' && digits.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        at += if escaped.is_some() { 3 } else { 1 };
        out.push(match (escaped, *byte) {
            (Some(escaped), _) => escaped,
            (None, b'+') => b' ',
            (None, byte) => byte,
        });
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::{value, values};
    use std::borrow::Cow;

    #[test]
    fn names_and_values_are_decoded() {
        let query = b"a=1&b=x+y&a=%32&flag&%63=d%20e&=nothing&bad=%zz%4&a";
        let all: Vec<_> = values(query, "a").collect();
        assert_eq!(all, [&b"1"[..], b"2", b""]);
        assert!(matches!(value(query, "a"), Some(Cow::Borrowed(b"1"))));
        for (name, wanted) in [
            ("b", Some(&b"x y"[..])),
            ("flag", Some(b"")),
            ("c", Some(b"d e")),
            ("bad", Some(b"%zz%4")),
            ("", Some(b"nothing")),
            ("A", None),
        ] {
            assert_eq!(value(query, name).as_deref(), wanted, "{name}");
        }
        assert_eq!(value(b"", "a"), None);
        assert_eq!(value(b"&&", ""), None);
    }
}
