//! Normal text for the expressions of rules.

use memchr::memchr;

/// How often escapes are decoded: applications behind a proxy may decode again.
const DECODINGS: usize = 2;

/// The bytes of ordinary inputs: letters, digits and a few separators.
const ORDINARY: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        let separator = matches!(byte, b'-' | b'_' | b'.' | b'~' | b',' | b'@');
        table[byte as usize] = separator || byte.is_ascii_alphanumeric();
        byte += 1;
    }
    table
};

/// True for an input that is not inspected: letters, digits and a few separators, at most one dot,
/// no `__`. The bare name of a file or a table is no attack.
pub(crate) fn is_ordinary(text: &[u8]) -> bool {
    let (mut dots, mut before) = (0, 0);
    text.iter().all(|byte| {
        dots += u32::from(*byte == b'.');
        let is_pair = *byte == b'_' && before == b'_';
        before = *byte;
        ORDINARY[usize::from(*byte)] && !is_pair && dots <= 1
    })
}

/// True for a form whose names and values are all ordinary as they are written.
pub(crate) fn is_ordinary_form(form: &[u8]) -> bool {
    let (mut start, mut in_value) = (0, false);
    for (at, byte) in form.iter().enumerate() {
        let is_end = *byte == b'&' || *byte == b'=' && !in_value;
        if is_end {
            if !is_ordinary(&form[start..at]) {
                return false;
            }
            (start, in_value) = (at + 1, *byte == b'=');
        }
    }
    is_ordinary(&form[start..])
}

/// Decodes, lowers, drops comments of SQL, and makes each run of white space one space. A line
/// break stays one, because it separates commands and headers. Returns true if the text had `%`.
pub(crate) fn normalize(text: &[u8], out: &mut Vec<u8>) -> bool {
    out.clear();
    out.extend_from_slice(text);
    out.make_ascii_lowercase();
    if !text.iter().fold(false, |found, byte| found | CHANGING[usize::from(*byte)]) {
        return false;
    }
    let has_escapes = memchr(b'%', text).is_some();
    for _ in 0..DECODINGS {
        if !decode(out) {
            break;
        }
    }
    out.make_ascii_lowercase();
    if has_gaps(out) {
        close_gaps(out);
    }
    has_escapes
}

/// The bytes without which normalizing only lowers: `%`, white space, and the second of `/*`.
const CHANGING: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = matches!(byte as u8, b'%' | b'*' | b' ' | b'\t'..=b'\r' | 0xa0);
        byte += 1;
    }
    table
};

/// True if a text has white space other than single spaces, or may have a comment of SQL. Reads
/// every byte without a branch, so that the compiler makes vector instructions of it.
fn has_gaps(text: &[u8]) -> bool {
    let is_space = |byte: u8| matches!(byte, b'\t'..=b'\r' | 0xa0);
    let pairs = text.iter().zip(text.get(1..).unwrap_or_default());
    let is_gap =
        |one: u8, next: u8| (one == b' ') & (next == b' ') | (one == b'/') & (next == b'*');
    text.iter().fold(false, |found, byte| found | is_space(*byte))
        | pairs.fold(false, |found, (one, next)| found | is_gap(*one, *next))
}

/// Drops comments of SQL, and makes each run of white space one space or line break.
fn close_gaps(out: &mut Vec<u8>) {
    let mut to = 0_usize;
    let mut from = 0;
    while from < out.len() {
        let (byte, next) = match (out[from], out.get(from + 1)) {
            (b'/', Some(b'*')) => match end_of_comment(out, from) {
                Some(end) => (b' ', end),
                None => (b'/', from + 1),
            },
            (b'\n' | b'\r', _) => (b'\n', from + 1),
            (b' ' | b'\t' | 0x0b | 0x0c | 0xa0, _) => (b' ', from + 1),
            (byte, _) => (byte, from + 1),
        };
        from = next;
        let before = to.checked_sub(1).map(|at| out[at]);
        let is_repeated = byte == b' ' && matches!(before, Some(b' ' | b'\n'));
        if byte == b'\n' && before == Some(b' ') {
            out[to - 1] = byte;
        } else if !(is_repeated || byte == b'\n' && before == Some(b'\n')) {
            out[to] = byte;
            to += 1;
        }
    }
    out.truncate(to);
}

/// The byte behind a comment of SQL, if it ends. MySQL runs the content of `/*!`.
fn end_of_comment(text: &[u8], from: usize) -> Option<usize> {
    if text.get(from + 2) == Some(&b'!') {
        return Some(from + 3);
    }
    text[from + 2..].windows(2).position(|pair| pair == b"*/").map(|at| from + 2 + at + 2)
}

/// Decodes `%XX` in place; returns whether there was one.
fn decode(text: &mut Vec<u8>) -> bool {
    if memchr(b'%', text).is_none() {
        return false;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (mut from, mut to) = (0, 0);
    while from < text.len() {
        let escaped = match text[from..] {
            [b'%', high, low, ..] => digit(high).zip(digit(low)),
            _ => None,
        };
        text[to] = match escaped {
            Some((high, low)) => (high << 4 | low) as u8,
            None => text[from],
        };
        from += if escaped.is_some() { 3 } else { 1 };
        to += 1;
    }
    let changed = to < text.len();
    text.truncate(to);
    changed
}

#[cfg(test)]
mod tests {
    use super::{is_ordinary, is_ordinary_form, normalize};

    #[test]
    fn spellings_of_one_attack_are_one_text() {
        let mut out = Vec::new();
        for text in [
            "1 UNION SELECT x",
            "1%20union%0b select%09x",
            "1%2520union%2520select%2520x",
            "1/**/union/* c */select/*x*/x",
            "1/*!union*/ select x",
        ] {
            normalize(text.as_bytes(), &mut out);
            let text = String::from_utf8_lossy(&out).replace("*/ ", " ");
            assert_eq!(text, "1 union select x");
        }
        for (text, wanted) in [("A b c", "a b c"), ("a\tb", "a b"), ("", ""), (" ", " ")] {
            normalize(text.as_bytes(), &mut out);
            assert_eq!(out, wanted.as_bytes());
        }
        normalize(b"a%zz%4 \r\n\r\n b /* c", &mut out);
        assert_eq!(out, b"a%zz%4\nb /* c");
    }

    #[test]
    fn ordinary_inputs_meet_no_expression() {
        for text in ["", "42", "a-b_c.d~e", "1.5", "2026-11-22", "a,b,c"] {
            assert!(is_ordinary(text.as_bytes()), "{text}");
        }
        for text in ["a b", "..", "a'", "<", "a/b", "%41", "a:b", "__proto__"] {
            assert!(!is_ordinary(text.as_bytes()), "{text}");
        }
        for form in ["", "a", "a=1&b=x.y&&c=", "a=1.5&b=2.5"] {
            assert!(is_ordinary_form(form.as_bytes()), "{form}");
        }
        for form in ["a=%41", "a+b=1", "a=b=c", "a=1&b=..", "a=x&__proto__=1", "a=<"] {
            assert!(!is_ordinary_form(form.as_bytes()), "{form}");
        }
    }
}
