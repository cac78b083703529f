//! Integers of 64 bits: Lua's own, and the strings that stand for them.

use std::ffi::c_int;

use mlua::{Value, ffi};

use super::options::{INT64_AS_HEX, INT64_AS_STRING};
use crate::stack::{self, LuaState};

/// The integer that a value stands for: an integer, a float without fraction, a string of digits,
/// or `#` and digits, decimal or hexadecimal.
///
/// # Safety
/// `index` is valid on the stack of `state`.
#[inline(always)]
pub(super) unsafe fn read(state: LuaState, index: c_int) -> Option<u64> {
    let mut is_integer = 0;
    // SAFETY: asks a value for an integer, which changes no value.
    let value = unsafe { ffi::lua_tointegerx(state, index, &raw mut is_integer) };
    if is_integer != 0 {
        return Some(value as u64);
    }
    // SAFETY: as above.
    unsafe { of_string(state, index) }
}

/// # Safety
/// As [`read`].
unsafe fn of_string(state: LuaState, index: c_int) -> Option<u64> {
    // SAFETY: only a string is read as one, so a number keeps its type.
    let text = unsafe {
        if ffi::lua_type(state, index) != ffi::LUA_TSTRING {
            return None;
        }
        stack::bytes(state, index)?
    };
    parse(text)
}

/// `#-123`, `#0x7B`
pub(super) fn parse(text: &[u8]) -> Option<u64> {
    let digits_at = text.iter().position(|byte| !b"#+-".contains(byte))?;
    let is_negative = text[..digits_at].iter().filter(|byte| **byte == b'-').count() % 2 == 1;
    let digits = std::str::from_utf8(&text[digits_at..]).ok()?;
    let hex = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let (digits, radix) = hex.map_or((digits, 10), |hex| (hex, 16));
    if digits.starts_with('+') {
        return None;
    }
    let value = u64::from_str_radix(digits, radix).ok()?;
    Some(if is_negative { value.wrapping_neg() } else { value })
}

/// The integer that a value stands for, as `read` gives it.
pub fn of_value(value: &Value) -> Option<u64> {
    match value {
        Value::Integer(value) => Some(*value as u64),
        Value::Number(value) if value.fract() == 0.0 && value.abs() < 9.2e18 => {
            Some(*value as i64 as u64)
        }
        Value::String(text) => parse(&text.as_bytes()),
        _ => None,
    }
}

/// The text of an integer, if the options ask for one and 32 bits do not hold it.
pub(super) fn as_text(value: i64, options: u32) -> Option<String> {
    let is_short = (i64::from(i32::MIN)..=i64::from(u32::MAX)).contains(&value);
    if is_short || options & (INT64_AS_STRING | INT64_AS_HEX) == 0 {
        return None;
    }
    let (sign, value) = (if value < 0 { "-" } else { "" }, value.unsigned_abs());
    Some(match options & INT64_AS_HEX {
        0 => format!("#{sign}{value}"),
        _ => format!("#{sign}0x{value:X}"),
    })
}

/// Pushes an integer, as a string if the options say so and 32 bits do not hold it.
///
/// # Safety
/// `state` has a free slot; may leave by longjmp.
#[inline(always)]
pub(super) unsafe fn push(state: LuaState, value: i64, options: u32) {
    // SAFETY: promised by the caller. Only a lack of memory leaves with the text undropped.
    unsafe {
        match as_text(value, options) {
            None => ffi::lua_pushinteger(state, value),
            Some(text) => stack::push(state, text.as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn strings_stand_for_integers() {
        for (text, value) in [
            ("#123", Some(123)),
            ("#-1", Some(u64::MAX)),
            ("-#0x10", Some(16_u64.wrapping_neg())),
            ("#0xFFFFFFFFFFFFFFFF", Some(u64::MAX)),
            ("#--5", Some(5)),
            ("#", None),
            ("", None),
            ("#1.5", None),
            ("#99999999999999999999", None),
            ("#0x", None),
        ] {
            assert_eq!(parse(text.as_bytes()), value, "{text}");
        }
    }
}
