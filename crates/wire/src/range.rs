//! Byte ranges (RFC 9110 14): a Range field applied to a representation of known length.
//!
//! Owns parsing, resolving, coalescing and the limit on ranges per request. A Range that cannot be
//! parsed is ignored (14.2), as is any unit other than bytes.

/// A request with more ranges than this gets the whole representation (RFC 9110 17.15).
pub const MAX_RANGES: usize = 64;
/// A gap up to this size is cheaper to send than the head of another part (RFC 9110 15.3.7.2).
const COALESCE_GAP: u64 = 80;

/// A run of bytes: `first` to `last`, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    pub first: u64,
    pub last: u64,
}

impl ByteRange {
    /// Number of bytes, at least one.
    pub fn len(&self) -> u64 {
        self.last - self.first + 1
    }

    /// Always false: a range has at least one byte.
    pub fn is_empty(&self) -> bool {
        false
    }
}

/// The response to a range request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// 200, as if there were no Range.
    Whole,
    /// 206 with Content-Range.
    Single(ByteRange),
    /// 206 as multipart/byteranges, at least two, in the requested order.
    Multi(Vec<ByteRange>),
    /// 416
    Unsatisfiable,
}

/// Resolves the value of a Range field for a representation of `len` bytes.
pub fn resolve(value: &[u8], len: u64) -> Ranges {
    let Some(specs) = bytes_unit(value) else {
        return Ranges::Whole;
    };
    let mut ranges: Vec<ByteRange> = Vec::new();
    let mut asked = 0;
    for spec in crate::token::list(specs) {
        asked += 1;
        if asked > MAX_RANGES {
            return Ranges::Whole;
        }
        match resolve_one(spec, len) {
            None => return Ranges::Whole,
            Some(None) => {}
            Some(Some(range)) => add(&mut ranges, range),
        }
    }
    match (asked, ranges.len()) {
        (0, _) => Ranges::Whole,
        (_, 0) => Ranges::Unsatisfiable,
        (_, 1) => Ranges::Single(ranges[0]),
        _ => Ranges::Multi(ranges),
    }
}

fn bytes_unit(value: &[u8]) -> Option<&[u8]> {
    let (unit, specs) = value.split_at_checked(6)?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(specs)
}

/// `None` is malformed, `Some(None)` cannot be satisfied (RFC 9110 14.1.2).
fn resolve_one(spec: &[u8], len: u64) -> Option<Option<ByteRange>> {
    let dash = spec.iter().position(|&b| b == b'-')?;
    let (first, last) = (&spec[..dash], &spec[dash + 1..]);
    if first.is_empty() {
        let suffix = position(last)?.min(len);
        // Content-Range cannot express a part of an empty representation.
        return Some((suffix > 0).then(|| ByteRange { first: len - suffix, last: len - 1 }));
    }
    let first = position(first)?;
    let last = if last.is_empty() { u64::MAX } else { position(last)? };
    if last < first {
        return None;
    }
    Some((first < len).then(|| ByteRange { first, last: last.min(len - 1) }))
}

/// Parses digits; a position beyond 64 bits is beyond every representation.
fn position(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let add =
        |value: u64, digit: &u8| value.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
    Some(digits.iter().fold(0, add))
}

/// Adds a range, merging those it touches; the position of the earliest is kept.
fn add(ranges: &mut Vec<ByteRange>, mut range: ByteRange) {
    let mut place = ranges.len();
    let mut at = 0;
    while at < ranges.len() {
        let other = ranges[at];
        let near = other.first <= range.last.saturating_add(COALESCE_GAP + 1)
            && range.first <= other.last.saturating_add(COALESCE_GAP + 1);
        if near {
            range =
                ByteRange { first: range.first.min(other.first), last: range.last.max(other.last) };
            ranges.remove(at);
            place = place.min(at);
            // It may now touch earlier ones.
            at = 0;
        } else {
            at += 1;
        }
    }
    ranges.insert(place.min(ranges.len()), range);
}

/// Appends `bytes FIRST-LAST/LEN`, the value of Content-Range.
pub fn write_content_range(range: ByteRange, len: u64, out: &mut Vec<u8>) {
    let mut number = itoa::Buffer::new();
    out.extend_from_slice(b"bytes ");
    out.extend_from_slice(number.format(range.first).as_bytes());
    out.push(b'-');
    out.extend_from_slice(number.format(range.last).as_bytes());
    out.push(b'/');
    out.extend_from_slice(number.format(len).as_bytes());
}

/// Parses what [`write_content_range`] writes: the range of a part, and the length of the whole.
/// `None` for everything else, including a whole of unknown length (RFC 9110 14.4).
pub fn read_content_range(value: &[u8]) -> Option<(ByteRange, u64)> {
    let (unit, rest) = value.split_at_checked(6)?;
    let rest = std::str::from_utf8(rest).ok().filter(|_| unit.eq_ignore_ascii_case(b"bytes "))?;
    let (range, length) = rest.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let number = |text: &str| {
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u64>().ok().filter(|_| digits)
    };
    let (first, last, length) = (number(first)?, number(last)?, number(length)?);
    (first <= last && last < length).then_some((ByteRange { first, last }, length))
}

/// Appends `bytes */LEN`, the value of Content-Range in a 416.
pub fn write_unsatisfied(len: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"bytes */");
    out.extend_from_slice(itoa::Buffer::new().format(len).as_bytes());
}

#[cfg(test)]
mod tests {
    use super::{
        ByteRange, MAX_RANGES, Ranges, read_content_range, resolve, write_content_range,
        write_unsatisfied,
    };

    fn r(first: u64, last: u64) -> ByteRange {
        ByteRange { first, last }
    }

    #[test]
    fn ranges_of_a_thousand_bytes() {
        let single = |first, last| Ranges::Single(r(first, last));
        let table: &[(&str, Ranges)] = &[
            ("bytes=0-499", single(0, 499)),
            ("Bytes=500-", single(500, 999)),
            ("bytes=-200", single(800, 999)),
            ("bytes=-5000", single(0, 999)),
            ("bytes=999-2000", single(999, 999)),
            ("bytes=0-18446744073709551616", single(0, 999)),
            ("bytes=1000-", Ranges::Unsatisfiable),
            ("bytes=-0", Ranges::Unsatisfiable),
            ("bytes=99999999999999999999999-", Ranges::Unsatisfiable),
            ("bytes=1000-, 2000-3000", Ranges::Unsatisfiable),
            ("bytes=0-0, 5000-", single(0, 0)),
            ("bytes=0-0, -1", Ranges::Multi(vec![r(0, 0), r(999, 999)])),
            ("bytes=900-999,0-9", Ranges::Multi(vec![r(900, 999), r(0, 9)])),
            ("bytes=0-9, 5-20", single(0, 20)),
            ("bytes=0-9, 90-99", single(0, 99)),
            ("bytes=0-9, 91-99", Ranges::Multi(vec![r(0, 9), r(91, 99)])),
            ("bytes=0-9,500-509,0-999", single(0, 999)),
            ("bytes=0-9,300-309,60-250", single(0, 309)),
            ("bytes=", Ranges::Whole),
            ("bytes=,", Ranges::Whole),
            ("bytes=5-4", Ranges::Whole),
            ("bytes=a-b", Ranges::Whole),
            ("bytes=0-9, x", Ranges::Whole),
            ("bytes=--1", Ranges::Whole),
            ("bytes=-", Ranges::Whole),
            ("bytes=+1-2", Ranges::Whole),
            ("bytes 0-1", Ranges::Whole),
            ("lines=0-1", Ranges::Whole),
            ("byt", Ranges::Whole),
            ("", Ranges::Whole),
        ];
        for (value, expected) in table {
            assert_eq!(resolve(value.as_bytes(), 1000), *expected, "{value}");
        }
    }

    #[test]
    fn an_empty_representation_has_no_range() {
        assert_eq!(resolve(b"bytes=0-", 0), Ranges::Unsatisfiable);
        assert_eq!(resolve(b"bytes=-5", 0), Ranges::Unsatisfiable);
    }

    #[test]
    fn too_many_ranges_get_the_whole() {
        let many = |n: usize| {
            let specs: Vec<_> = (0..n).map(|i| format!("{}-{}", i * 1000, i * 1000)).collect();
            format!("bytes={}", specs.join(","))
        };
        let most = resolve(many(MAX_RANGES).as_bytes(), 1 << 30);
        assert!(matches!(most, Ranges::Multi(ranges) if ranges.len() == MAX_RANGES));
        assert_eq!(resolve(many(MAX_RANGES + 1).as_bytes(), 1 << 30), Ranges::Whole);
    }

    #[test]
    fn content_range_texts() {
        let mut out = Vec::new();
        write_content_range(r(0, 9), 100, &mut out);
        out.push(b'|');
        write_unsatisfied(100, &mut out);
        assert_eq!(out, b"bytes 0-9/100|bytes */100");
        assert_eq!(read_content_range(b"Bytes 0-9/100"), Some((r(0, 9), 100)));
        for other in [
            "",
            "bytes",
            "bytes ",
            "bytes */100",
            "bytes 0-9/*",
            "bytes 9-0/100",
            "bytes 0-100/100",
            "bytes +0-9/100",
            "bytes 0-9/100 ",
            "bytes -9/100",
            "items 0-9/100",
            "bytes=0-9/100",
            "bytes 0-9/18446744073709551616",
        ] {
            assert_eq!(read_content_range(other.as_bytes()), None, "{other}");
        }
        assert_eq!(r(5, 5).len(), 1);
    }
}
