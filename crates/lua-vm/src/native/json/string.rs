//! Strings of RFC 8259 section 7: their ends and their escapes.
//!
//! Bytes above 0x7f pass as they are: a Lua string is bytes, and `utf8.len` checks it if needed.

use super::parse_error::ParseError;

const ONES: u64 = 0x0101_0101_0101_0101;
const SPACES: u64 = ONES * 0x20;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// The bytes of `word` that end a plain run (a quote, a backslash, a control character), each as
/// its highest bit. Bits above the first one may be wrong.
#[inline(always)]
pub(super) fn special(word: u64) -> u64 {
    let zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let control = word.wrapping_sub(SPACES) & !word;
    let quote = zero(word ^ (ONES * u64::from(b'"')));
    let backslash = zero(word ^ (ONES * u64::from(b'\\')));
    (control | quote | backslash) & HIGHS
}

/// The first byte at or after `at` that ends a plain run; `text.len()` if there is none.
#[inline]
pub(super) fn plain_end(text: &[u8], mut at: usize) -> usize {
    while let Some(chunk) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let found = special(u64::from_le_bytes(*chunk));
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while at < text.len() && !matches!(text[at], b'"' | b'\\' | 0..=0x1f) {
        at += 1;
    }
    at
}

/// Appends the plain run at `at`; returns where it ends.
///
/// Copies eight bytes at a time and truncates the excess, which is cheaper than a call for each
/// short run of a string.
#[inline(always)]
pub(super) fn copy_plain(text: &[u8], mut at: usize, out: &mut Vec<u8>) -> usize {
    while let Some(chunk) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let found = special(u64::from_le_bytes(*chunk));
        out.extend_from_slice(chunk);
        if found != 0 {
            let plain = (found.trailing_zeros() / 8) as usize;
            out.truncate(out.len() - 8 + plain);
            return at + plain;
        }
        at += 8;
    }
    let rest = text.len() - at.min(text.len());
    if rest == 0 {
        return text.len();
    }
    let word = last_bytes(text, rest) | SPACES << (rest * 8);
    let plain = (special(word).trailing_zeros() as usize / 8).min(rest);
    out.extend_from_slice(&word.to_le_bytes());
    out.truncate(out.len() - 8 + plain);
    at + plain
}

/// The last `count` bytes, one to seven of them, as the low bytes of a word.
#[inline(always)]
fn last_bytes(text: &[u8], count: usize) -> u64 {
    if let Some(chunk) = text.last_chunk::<8>() {
        return u64::from_le_bytes(*chunk) >> ((8 - count) * 8);
    }
    // The whole text is shorter than a word. Pieces overlap, and agree where they do.
    if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        let last = u64::from(u32::from_le_bytes(*last)) << ((text.len() - 4) * 8);
        let whole = u64::from(u32::from_le_bytes(*first)) | last;
        return whole >> ((text.len() - count) * 8);
    }
    text[text.len() - count..].iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// Undoes the escapes of the string whose inside began at `start` and whose first byte that is not
/// plain is at `at`. Returns the position of the closing quote.
pub(super) fn unescape(
    text: &[u8],
    start: usize,
    mut at: usize,
    out: &mut Vec<u8>,
) -> Result<usize, ParseError> {
    out.extend_from_slice(&text[start..at]);
    loop {
        match text.get(at) {
            Some(b'"') => return Ok(at),
            Some(b'\\') => at = escape(text, at, out)?,
            Some(_) => return Err(ParseError::new(at, "a control character in a string")),
            None => return Err(ParseError::new(at, "the text ends within a string")),
        }
        // Escapes often follow each other.
        if text.get(at) != Some(&b'\\') {
            at = copy_plain(text, at, out);
        }
    }
}

/// Undoes the escape at `at`; returns where it ends.
#[inline(always)]
fn escape(text: &[u8], at: usize, out: &mut Vec<u8>) -> Result<usize, ParseError> {
    let plain = match text.get(at + 1) {
        Some(&byte @ (b'"' | b'\\' | b'/')) => byte,
        Some(b'b') => 8,
        Some(b'f') => 12,
        Some(b'n') => b'\n',
        Some(b'r') => b'\r',
        Some(b't') => b'\t',
        Some(b'u') => return unicode(text, at, out),
        _ => return Err(ParseError::new(at, "an unknown escape")),
    };
    out.push(plain);
    Ok(at + 2)
}

#[inline(always)]
fn unicode(text: &[u8], at: usize, out: &mut Vec<u8>) -> Result<usize, ParseError> {
    let first = hex(text, at + 2).ok_or(ParseError::new(at, "\\u without four digits"))?;
    let (scalar, end) = if (0xd800..0xdc00).contains(&first) {
        let low = match text.get(at + 6..at + 8) {
            Some(b"\\u") => hex(text, at + 8).filter(|low| (0xdc00..0xe000).contains(low)),
            _ => None,
        };
        let low = low.ok_or(ParseError::new(at, "half of a surrogate pair"))?;
        (0x10000 + ((first - 0xd800) << 10) + (low - 0xdc00), at + 12)
    } else {
        (first, at + 6)
    };
    let scalar = char::from_u32(scalar).ok_or(ParseError::new(at, "half of a surrogate pair"))?;
    out.extend_from_slice(scalar.encode_utf8(&mut [0; 4]).as_bytes());
    Ok(end)
}

fn hex(text: &[u8], at: usize) -> Option<u32> {
    let digits = text.get(at..)?.first_chunk::<4>()?;
    let [a, b, c, d] = digits.map(|digit| DIGIT[usize::from(digit)]);
    let value = a << 12 | b << 8 | c << 4 | d;
    (value <= 0xffff).then_some(value)
}

/// The value of a hexadecimal digit; any other byte gives a value above 15.
const DIGIT: [u32; 256] = {
    let mut digits = [1 << 16; 256];
    let mut value = 0;
    while value < 16 {
        digits[b"0123456789abcdef"[value] as usize] = value as u32;
        digits[b"0123456789ABCDEF"[value] as usize] = value as u32;
        value += 1;
    }
    digits
};
