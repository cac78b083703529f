//! The value of an entry: bytes, text or an integer.
//!
//! A number is stored as one, so that counting costs no memory; bytes that read as a decimal number
//! can be incremented as well. Independent of the protocol.

use bytes::Bytes;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Bytes(Bytes),
    /// UTF-8, checked by the code that creates it.
    Text(Bytes),
    Integer(i64),
}

impl Value {
    /// Memory in addition to the entry itself.
    pub fn weight(&self) -> usize {
        match self {
            Value::Bytes(bytes) | Value::Text(bytes) => bytes.len(),
            Value::Integer(_) => 0,
        }
    }

    /// True if `GET` would reply with these bytes.
    pub fn is(&self, shown: &[u8]) -> bool {
        match self {
            Value::Bytes(bytes) | Value::Text(bytes) => bytes == shown,
            Value::Integer(number) => parse_integer(shown) == Some(*number),
        }
    }

    /// The number that this is or reads as: decimal, without spaces, plus sign or leading zeros.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Value::Integer(number) => Some(*number),
            Value::Bytes(bytes) | Value::Text(bytes) => parse_integer(bytes),
        }
    }
}

/// Parses a decimal number in its canonical form.
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let plain = match digits {
        [b'0'] => text.len() == 1,
        [first, ..] => first.is_ascii_digit() && *first != b'0',
        [] => false,
    };
    plain.then(|| std::str::from_utf8(text).ok()?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::{Value, parse_integer};
    use bytes::Bytes;

    #[test]
    fn numbers_have_one_form() {
        let good: &[(&[u8], i64)] =
            &[(b"0", 0), (b"-1", -1), (b"9223372036854775807", i64::MAX), (b"10", 10)];
        for &(text, number) in good {
            assert_eq!(parse_integer(text), Some(number));
        }
        for text in ["", "-", "-0", "01", "+1", " 1", "1 ", "9223372036854775808", "1e3", "x"] {
            assert_eq!(parse_integer(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Value::Text(Bytes::from_static(b"7")).integer(), Some(7));
        assert_eq!((Value::Integer(7).integer(), Value::Integer(7).weight()), (Some(7), 0));
    }
}
