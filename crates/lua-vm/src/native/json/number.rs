//! Numbers of RFC 8259 section 6: integers stay integers, all else becomes the nearest double.

use super::parse_error::ParseError;

/// A number of Lua.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Number {
    Integer(i64),
    Float(f64),
}

/// Powers of ten that are exact doubles.
const EXACT_POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
    1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
];
/// Whole numbers up to this are exact doubles.
const EXACT_WHOLE: u64 = 1 << 53;
/// This many decimal digits always fit into 64 bits.
const DIGITS_SAFE: usize = 19;
/// Powers of ten are clamped here: they are far out of range.
const SCALE_MAX: usize = 1 << 20;

/// The number that begins at `start`, and where it ends. `text` ends with a byte that is not a
/// digit.
#[inline]
pub(super) fn number(text: &[u8], start: usize) -> Result<(Number, usize), ParseError> {
    let negative = text[start] == b'-';
    let first = start + usize::from(negative);
    let mut at = first;
    let mut whole = 0u64;
    while let Some(digit) = digit(text, at) {
        whole = whole.wrapping_mul(10).wrapping_add(digit);
        at += 1;
    }
    let digits = at - first;
    if digits == 0 {
        return Err(ParseError::new(at, "a digit is missing"));
    }
    if text[first] == b'0' && digits > 1 {
        return Err(ParseError::new(first, "a number must not begin with 0"));
    }
    if !matches!(text.get(at), Some(b'.' | b'e' | b'E')) {
        // 19 digits may pass 63 bits, but not 64.
        if digits <= DIGITS_SAFE && whole <= i64::MAX as u64 {
            return Ok((integer(whole, negative), at));
        }
        return exact(text, start, at);
    }
    let (significand, digits, scale, end) = fraction(text, at, whole, digits)?;
    if digits <= DIGITS_SAFE && significand <= EXACT_WHOLE && (-22..=22).contains(&scale) {
        // Both operands are exact, so the one rounding is correct.
        let power = EXACT_POWERS[scale.unsigned_abs() as usize];
        let value = significand as f64;
        let value = if scale < 0 { value / power } else { value * power };
        return Ok((Number::Float(if negative { -value } else { value }), end));
    }
    exact(text, start, end)
}

#[inline]
fn integer(whole: u64, negative: bool) -> Number {
    match negative {
        false => Number::Integer(whole as i64),
        // Integers have no negative zero.
        true if whole == 0 => Number::Float(-0.0),
        true => Number::Integer(-(whole as i64)),
    }
}

/// Reads the rest after the whole part: returns all digits as one number, their count, the power of
/// ten, and the end.
#[inline]
fn fraction(
    text: &[u8],
    mut at: usize,
    mut significand: u64,
    mut digits: usize,
) -> Result<(u64, usize, i32, usize), ParseError> {
    let mut scale = 0i32;
    if text[at] == b'.' {
        let point = at + 1;
        at = point;
        while let Some(digit) = digit(text, at) {
            significand = significand.wrapping_mul(10).wrapping_add(digit);
            at += 1;
        }
        if at == point {
            return Err(ParseError::new(at, "a digit is missing after the point"));
        }
        digits += at - point;
        scale = -((at - point).min(SCALE_MAX) as i32);
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        let sign = text.get(at + 1).copied();
        let first = at + 1 + usize::from(matches!(sign, Some(b'-' | b'+')));
        let mut exponent = 0usize;
        at = first;
        while let Some(digit) = digit(text, at) {
            exponent = (exponent * 10 + digit as usize).min(SCALE_MAX);
            at += 1;
        }
        if at == first {
            return Err(ParseError::new(at, "a digit is missing in the exponent"));
        }
        scale += if sign == Some(b'-') { -(exponent as i32) } else { exponent as i32 };
    }
    Ok((significand, digits, scale, at))
}

/// The slow path: correctly rounded for any number of digits.
#[cold]
fn exact(text: &[u8], start: usize, end: usize) -> Result<(Number, usize), ParseError> {
    let digits = std::str::from_utf8(&text[start..end]).unwrap_or("");
    if let Ok(value) = digits.parse::<i64>() {
        return Ok((Number::Integer(value), end));
    }
    match digits.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok((Number::Float(value), end)),
        _ => Err(ParseError::new(start, "the number is out of range")),
    }
}

#[inline(always)]
fn digit(text: &[u8], at: usize) -> Option<u64> {
    let digit = text.get(at)?.wrapping_sub(b'0');
    (digit < 10).then_some(u64::from(digit))
}
