//! Normal text for the expressions of rules.

use memchr::{memchr, memmem};

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
/// no `__`. The bare name of a file or a table is not an attack.
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
    let mut is_executed = false;
    // Without it, each of many comments that do not end would search the whole rest for its end.
    let last_end = memmem::rfind(out, b"*/").unwrap_or(0);
    while from < out.len() {
        let (byte, next) = match (out[from], out.get(from + 1)) {
            (b'/', Some(b'*')) if out.get(from + 2) == Some(&b'!') => {
                is_executed = true;
                (b' ', end_of_version(out, from + 3))
            }
            (b'/', Some(b'*')) if from + 2 <= last_end => {
                let end = memmem::find(&out[from + 2..], b"*/").unwrap_or(0);
                (b' ', from + 2 + end + 2)
            }
            (b'*', Some(b'/')) if is_executed => {
                is_executed = false;
                (b' ', from + 2)
            }
            // The no-break space in UTF-8.
            (0xc2, Some(0xa0)) => (b' ', from + 2),
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

/// The byte behind the version in a comment that MySQL runs, `/*!50000 … */`.
fn end_of_version(text: &[u8], from: usize) -> usize {
    from + text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Writes normal text as one line, in which SQL and HTML are the same as in several.
pub(crate) fn join_lines(text: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend(text.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }));
}

/// Writes normal text as one line without the comments that end with a line, `--` and `#`. Returns
/// false if there is none.
pub(crate) fn join_code_lines(text: &[u8], out: &mut Vec<u8>) -> bool {
    out.clear();
    let mut has_comment = false;
    for line in text.split(|byte| *byte == b'\n') {
        let dashes = memmem::find(line, b"--");
        let hash = memchr(b'#', line);
        let end = dashes.into_iter().chain(hash).min();
        has_comment |= end.is_some();
        let code = line[..end.unwrap_or(line.len())].trim_ascii();
        if !out.is_empty() && !code.is_empty() {
            out.push(b' ');
        }
        out.extend_from_slice(code);
    }
    has_comment
}

/// Replaces the references to characters that every parser of XML knows, `&#60;`, `&#x3c;` and
/// `&lt;`. Returns `None` if there are none.
pub(crate) fn without_references(xml: &[u8]) -> Option<Vec<u8>> {
    const NAMES: [(&[u8], char); 5] =
        [(b"lt", '<'), (b"gt", '>'), (b"amp", '&'), (b"quot", '"'), (b"apos", '\'')];
    /// `#x10ffff` and some zeros.
    const NAME_BYTES_MAX: usize = 16;
    memchr(b'&', xml)?;
    let mut out = Vec::with_capacity(xml.len());
    let mut rest = xml;
    while let Some(at) = memchr(b'&', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let within = &rest[1..rest.len().min(NAME_BYTES_MAX)];
        let named = memchr(b';', within).and_then(|end| {
            let name = &within[..end];
            let by_name = NAMES.iter().find(|(known, _)| *known == name).map(|(_, c)| *c);
            Some((by_name.or_else(|| numbered(name))?, end))
        });
        let next = match named {
            Some((character, end)) => {
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                end + 2
            }
            None => {
                out.push(b'&');
                1
            }
        };
        rest = &rest[next..];
    }
    out.extend_from_slice(rest);
    Some(out)
}

/// The character of `#60` and `#x3c`.
fn numbered(name: &[u8]) -> Option<char> {
    let digits = std::str::from_utf8(name).ok()?.strip_prefix('#')?;
    let number = match digits.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    char::from_u32(number.ok()?)
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
    use super::*;

    #[test]
    fn spellings_of_one_attack_are_one_text() {
        let mut out = Vec::new();
        for text in [
            "1 UNION SELECT x",
            "1%20union%0b select%09x",
            "1%2520union%2520select%2520x",
            "1/**/union/* c */select/*x*/x",
            "1/*!union*/ select x",
            "1/*!50000union*//*!50000select*/x",
            "1\u{a0}union\u{a0}\u{a0}select x",
        ] {
            normalize(text.as_bytes(), &mut out);
            assert_eq!(String::from_utf8_lossy(&out), "1 union select x");
        }
        for (text, wanted) in [("A b c", "a b c"), ("a\tb", "a b"), ("", ""), (" ", " ")] {
            normalize(text.as_bytes(), &mut out);
            assert_eq!(out, wanted.as_bytes());
        }
        normalize(b"a%zz%4 \r\n\r\n b /* c", &mut out);
        assert_eq!(out, b"a%zz%4\nb /* c");
        normalize(b"a /*/ b /**/ c /*/ d", &mut out);
        assert_eq!(out, b"a c /*/ d");
        // In linear time: a search for each of these ends would take minutes.
        let open = "/*x".repeat(1 << 19);
        normalize(open.as_bytes(), &mut out);
        assert!(out == open.as_bytes());
    }

    #[test]
    fn lines_are_joined_with_and_without_their_comments() {
        let (mut text, mut out) = (Vec::new(), Vec::new());
        normalize(b"1 union--x\r\nselect # y\n a", &mut text);
        join_lines(&text, &mut out);
        assert_eq!(out, b"1 union--x select # y a");
        assert!(join_code_lines(&text, &mut out));
        assert_eq!(out, b"1 union select a");
        assert!(!join_code_lines(b"a\nb", &mut out));
        assert_eq!(out, b"a b");
    }

    #[test]
    fn references_become_their_characters() {
        for (xml, text) in [
            ("&#60;a&#x3E;&lt;&gt;&amp;&quot;&apos;", "<a><>&\"'"),
            ("1 &#x000055;NION &#8364;", "1 UNION €"),
            (
                "&nbsp; & &; &#; &#x; &#xd800; &#99999999; &lt",
                "&nbsp; & &; &#; &#x; &#xd800; &#99999999; &lt",
            ),
        ] {
            assert_eq!(without_references(xml.as_bytes()).unwrap(), text.as_bytes());
        }
        assert_eq!(without_references(b"<a>"), None);
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
