//! Escaping of untrusted text for log lines and the Prometheus text format.
//!
//! Escaped text stays on one line: control characters are escaped, and bytes that are not UTF-8 are
//! replaced.

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Returns at most `most` bytes of a text, cut at a character boundary.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Escapes help texts and label values of the Prometheus text format: backslash and line feed
/// always, quotes in label values only.
pub fn prometheus(out: &mut String, text: &str, quoted: bool) {
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quoted => out.push_str("\\\""),
            other => out.push(other),
        }
    }
}

/// Writes a JSON string with its quotes (RFC 8259 section 7). The control characters above ASCII
/// (U+0080 to U+009F), which RFC 8259 allows unescaped, are escaped too: terminals interpret them.
pub fn json_string(value: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for chunk in value.utf8_chunks() {
        let text = chunk.valid();
        let mut plain = 0;
        for (at, character) in text.char_indices() {
            if !character.is_control() && character != '"' && character != '\\' {
                continue;
            }
            out.extend_from_slice(&text.as_bytes()[plain..at]);
            plain = at + character.len_utf8();
            json_escape(character as u8, out);
        }
        out.extend_from_slice(&text.as_bytes()[plain..]);
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
    out.push(b'"');
}

/// Escapes a control character or another ASCII character.
fn json_escape(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        _ => {
            out.extend_from_slice(b"\\u00");
            hex(byte, out);
        }
    }
}

fn hex(byte: u8, out: &mut Vec<u8>) {
    out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
}

/// Writes a value of a `key=value` line: bare if it is one plain word, otherwise a JSON string.
pub fn text_value(value: &[u8], out: &mut Vec<u8>) {
    let plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'=' | b'\\');
    if !value.is_empty() && value.iter().all(plain) {
        out.extend_from_slice(value);
    } else {
        json_string(value, out);
    }
}

#[cfg(test)]
mod tests {
    use super::{cut, json_string, text_value};

    fn with(f: fn(&[u8], &mut Vec<u8>), value: &[u8]) -> String {
        let mut out = Vec::new();
        f(value, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn json_strings() {
        assert_eq!(with(json_string, b"plain"), r#""plain""#);
        assert_eq!(with(json_string, b"a\"b\\c\n\x00\x7f"), r#""a\"b\\c\n\u0000\u007f""#);
        assert_eq!(with(json_string, "käse".as_bytes()), "\"käse\"");
        assert_eq!(with(json_string, "a\u{9b}31m\u{a0}".as_bytes()), "\"a\\u009b31m\u{a0}\"");
        assert_eq!(with(json_string, b"bad \xff\xfe!"), "\"bad \u{fffd}\u{fffd}!\"");
    }

    #[test]
    fn text_values_are_quoted_when_needed() {
        assert_eq!(with(text_value, b"127.0.0.1:80"), "127.0.0.1:80");
        assert_eq!(with(text_value, b"two words"), "\"two words\"");
        assert_eq!(with(text_value, b""), "\"\"");
        assert_eq!(with(text_value, b"a=b"), "\"a=b\"");
    }

    #[test]
    fn cuts_between_characters() {
        assert_eq!(cut("ééé", 4), "éé");
        assert_eq!(cut("ééé", 3), "é");
        assert_eq!(cut("é", 0), "");
        assert_eq!(cut("abc", 9), "abc");
    }
}
