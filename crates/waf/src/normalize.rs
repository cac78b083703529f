//! Normal text for the expressions of rules.

/// How often escapes are decoded: applications behind a proxy may decode again.
const DECODINGS: usize = 2;

/// True for an input that is not inspected: letters, digits and a few separators, at most one dot,
/// no `__`. The bare name of a file or a table is no attack.
pub(crate) fn is_ordinary(text: &[u8]) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~,@".contains(&byte);
    text.iter().all(|byte| is_plain(*byte))
        && text.iter().filter(|byte| **byte == b'.').count() <= 1
        && !text.windows(2).any(|pair| pair == b"__")
}

/// Decodes, lowers, drops comments of SQL, and makes each run of white space one space. A line
/// break stays one, because it separates commands and headers.
pub(crate) fn normalize(text: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(text);
    for _ in 0..DECODINGS {
        if !decode(out) {
            break;
        }
    }
    out.make_ascii_lowercase();
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
    use super::{is_ordinary, normalize};

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
    }
}
