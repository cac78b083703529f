//! The character encoding that a text declares: `charset` of a Content-Type (RFC 9110 8.3.2), or
//! `encoding` of an XML declaration.
//!
//! Recipients differ in which of two parameters they believe, in what they do with `charset*0` (RFC
//! 2231), and in where they end a quoted string. So the word is looked for in the whole text, and
//! its value is certain only if the word stands there once. Never allocates.

/// An error of [`declared`]: recipients may read different encodings.
#[derive(Debug, PartialEq, Eq)]
pub struct AmbiguousCharset;

/// Returns the value of the parameter `word`, without its quotes; `None` if the text does not have
/// the word.
pub fn declared<'t>(text: &'t [u8], word: &[u8]) -> Result<Option<&'t [u8]>, AmbiguousCharset> {
    let is_word = |part: &[u8]| part.eq_ignore_ascii_case(word);
    let mut places = text.windows(word.len()).enumerate().filter(|(_, part)| is_word(part));
    let Some((at, _)) = places.next() else { return Ok(None) };
    let after = text[at + word.len()..].trim_ascii_start();
    let (Some(value), None) = (after.strip_prefix(b"="), places.next()) else {
        return Err(AmbiguousCharset);
    };
    let (value, end) = match value.trim_ascii_start() {
        [quote @ (b'"' | b'\''), inside @ ..] => (inside, memchr::memchr(*quote, inside)),
        plain => {
            let is_end = |byte: &u8| b";, \t\r\n".contains(byte);
            (plain, Some(plain.iter().position(is_end).unwrap_or(plain.len())))
        }
    };
    end.map(|end| Some(&value[..end])).ok_or(AmbiguousCharset)
}

#[cfg(test)]
mod tests {
    use super::{AmbiguousCharset, declared};

    #[test]
    fn one_word_has_a_value() {
        for (text, value) in [
            ("text/html", None),
            ("text/html; charset=utf-8", Some("utf-8")),
            ("text/html;Charset = \"UTF-8\" ;a=b", Some("UTF-8")),
            ("text/html; charset=a,b", Some("a")),
            ("text/html; charset='a'", Some("a")),
            ("text/html; charset=", Some("")),
            (r#"text/html; charset="a\"; b"#, Some(r"a\")),
            (r#"text/html; a="\"; charset=b; \"""#, Some("b")),
        ] {
            assert_eq!(declared(text.as_bytes(), b"charset"), Ok(value.map(str::as_bytes)));
        }
        let xml = b"?xml version='1.0' encoding = 'utf-8' standalone='no'";
        assert_eq!(declared(xml, b"encoding"), Ok(Some(&b"utf-8"[..])));
    }

    #[test]
    fn what_recipients_read_differently_is_an_error() {
        for text in [
            "text/html; charset=a; charset=b",
            "text/html; charset=a; CHARSET=a",
            "text/html; charset*=us-ascii''a",
            "text/html; charset*0=a; charset*1=b",
            "text/html; charset=a; charset*=b",
            r#"text/html; a="; charset=b"; charset=c"#,
            "text/html; charset",
            "text/html; charset=\"a",
        ] {
            assert_eq!(declared(text.as_bytes(), b"charset"), Err(AmbiguousCharset), "{text}");
        }
    }
}
