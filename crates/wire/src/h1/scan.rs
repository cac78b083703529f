//! Search for the end of a part of a head, eight bytes at a time.
//!
//! Owns the arithmetic that tests all bytes of a word at once. No byte that ends a part is skipped;
//! the caller checks that the byte at which a search stops does end it.

/// One in every byte of a word.
const ONES: u64 = 0x0101_0101_0101_0101;
/// The highest bit of every byte: a search sets it where it found something.
const HIGHS: u64 = ONES << 7;

/// Splits the text before the first byte marked by `ends`, or at its end. `ends` marks bytes of a
/// word by their highest bit, and may be wrong about those after the first it marks.
#[inline(always)]
pub(super) fn split(text: &[u8], ends: impl Fn(u64) -> u64) -> (&[u8], &[u8]) {
    let mut rest = text;
    while let Some((word, after)) = rest.split_first_chunk() {
        let found = ends(u64::from_le_bytes(*word));
        if found != 0 {
            rest = &rest[(found.trailing_zeros() / 8) as usize..];
            return (&text[..text.len() - rest.len()], rest);
        }
        rest = after;
    }
    while let [byte, after @ ..] = rest
        && ends(u64::from(*byte)) & 0x80 == 0
    {
        rest = after;
    }
    (&text[..text.len() - rest.len()], rest)
}

// The ends of parts of a head, for `split`. Each also marks bytes above ASCII, which are rare in
// heads and malformed in most parts of them: excluding them costs more than the occasional second
// test.

/// Marks the colon that ends a field name.
#[inline(always)]
pub(super) fn colon(word: u64) -> u64 {
    equal(word, b':') & HIGHS
}

/// Marks controls, which end a field value. HTAB and bytes above ASCII are marked too, although
/// they do not.
#[inline(always)]
pub(super) fn control(word: u64) -> u64 {
    (word.wrapping_sub(ONES * 0x20) | word.wrapping_add(ONES)) & HIGHS
}

/// Marks the end of a request target, and `?`, which ends its path.
#[inline(always)]
pub(super) fn target_end(word: u64) -> u64 {
    let invisible = word.wrapping_sub(ONES * 0x21) | word.wrapping_add(ONES) | word;
    (invisible | equal(word, b'#') | equal(word, b'?')) & HIGHS
}

/// Marks bytes equal to `byte` or above ASCII.
#[inline(always)]
const fn equal(word: u64, byte: u8) -> u64 {
    (word ^ (ONES * byte as u64)).wrapping_sub(ONES)
}

#[cfg(test)]
mod tests {
    use super::{colon, control, split, target_end};
    use crate::token;

    fn check(finder: fn(u64) -> u64, ends: fn(u8) -> bool) {
        for length in 1..=25 {
            for at in 0..length {
                for byte in 0..=255u8 {
                    for filler in [b'a', b'~', b'!', b'9'] {
                        let mut text = vec![filler; length];
                        text[at] = byte;
                        let (before, after) = split(&text, finder);
                        assert_eq!(text, [before, after].concat());
                        if ends(byte) {
                            assert_eq!(before.len(), at, "{byte:#x} in {length}");
                        } else {
                            assert!(before.len() == at || after.is_empty(), "{byte:#x}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn every_end_is_found_at_every_position() {
        check(colon, |byte| byte == b':');
        check(control, |byte| !token::is_value_byte(byte));
        check(target_end, |byte| !token::is_target_byte(byte) || byte == b'?');
    }
}
