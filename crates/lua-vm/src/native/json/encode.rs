//! The encoder: values on Lua's stack to text.
//!
//! Reads tables raw: no metamethod runs, so no table changes during the encoding. Only the growth
//! of Lua's stack allocates, which reports failure instead of raising it.

use super::string::copy_plain;
use mlua::ffi;
use std::ffi::{c_int, c_void};

/// Why a value cannot be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EncodeError {
    /// A function, a coroutine, userdata: its type number.
    Type(c_int),
    /// The type number of a key that is not a string.
    Key(c_int),
    NotFinite,
    TooDeep,
    TooLarge,
    NoStack,
}

pub(super) struct Encoder<'a> {
    pub(super) out: &'a mut Vec<u8>,
    /// The address of the table for null.
    pub(super) null: *const c_void,
    /// The address of the metatable that makes a table an object whatever it holds.
    pub(super) object: *const c_void,
    pub(super) depth_left: usize,
    pub(super) bytes_max: usize,
}

/// Stack slots of a container: a key, a value, a metatable.
const STACK_PER_LEVEL: c_int = 4;

impl Encoder<'_> {
    /// Appends the value at `index`, which counts from the bottom.
    ///
    /// # Safety
    /// `state` is a valid Lua state, `index` one of its values, with a free slot on its stack.
    pub(super) unsafe fn value(
        &mut self,
        state: *mut ffi::lua_State,
        index: c_int,
    ) -> Result<(), EncodeError> {
        // SAFETY: each value is asked only for what its type says it is.
        unsafe {
            match ffi::lua_type(state, index) {
                ffi::LUA_TSTRING => self.string(state, index),
                ffi::LUA_TNUMBER => self.number(state, index)?,
                ffi::LUA_TTABLE => return self.table(state, index),
                ffi::LUA_TBOOLEAN => {
                    let yes = ffi::lua_toboolean(state, index) != 0;
                    self.out.extend_from_slice(if yes { b"true" } else { b"false" });
                }
                ffi::LUA_TNIL => self.out.extend_from_slice(b"null"),
                ffi::LUA_TLIGHTUSERDATA if ffi::lua_touserdata(state, index).is_null() => {
                    self.out.extend_from_slice(b"null");
                }
                other => return Err(EncodeError::Type(other)),
            }
        }
        Ok(())
    }

    /// # Safety
    /// As `value`; the value is a string.
    #[inline(always)]
    unsafe fn string(&mut self, state: *mut ffi::lua_State, index: c_int) {
        let mut length = 0;
        // SAFETY: a string is not converted, so this neither raises nor changes it; it stays on
        // the stack while its bytes are read.
        let bytes = unsafe {
            let start = ffi::lua_tolstring(state, index, &raw mut length);
            std::slice::from_raw_parts(start.cast::<u8>(), length)
        };
        quote(bytes, self.out);
    }

    /// # Safety
    /// As `value`; the value is a number.
    #[inline(always)]
    unsafe fn number(
        &mut self,
        state: *mut ffi::lua_State,
        index: c_int,
    ) -> Result<(), EncodeError> {
        // SAFETY: numbers are asked for numbers.
        unsafe {
            if ffi::lua_isinteger(state, index) != 0 {
                let value = ffi::lua_tointegerx(state, index, std::ptr::null_mut());
                self.out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
                return Ok(());
            }
            float(ffi::lua_tonumberx(state, index, std::ptr::null_mut()), self.out)
        }
    }

    /// # Safety
    /// As `value`; the value is a table.
    unsafe fn table(
        &mut self,
        state: *mut ffi::lua_State,
        index: c_int,
    ) -> Result<(), EncodeError> {
        // SAFETY: room is asked for before anything is pushed; what is pushed is popped, unless
        // the whole encoding fails and the caller drops the stack.
        unsafe {
            if ffi::lua_topointer(state, index) == self.null {
                self.out.extend_from_slice(b"null");
                return Ok(());
            }
            self.depth_left = self.depth_left.checked_sub(1).ok_or(EncodeError::TooDeep)?;
            if ffi::lua_checkstack(state, STACK_PER_LEVEL) == 0 {
                return Err(EncodeError::NoStack);
            }
            if ffi::lua_rawgeti(state, index, 1) != ffi::LUA_TNIL {
                if self.marked(state, index) {
                    ffi::lua_pop(state, 1);
                    ffi::lua_pushnil(state);
                    ffi::lua_next(state, index);
                    self.object(state, index)?;
                } else {
                    self.array(state, index)?;
                }
            } else if ffi::lua_next(state, index) != 0 {
                self.object(state, index)?;
            } else {
                let empty: &[u8] = if self.marked(state, index) { b"{}" } else { b"[]" };
                self.out.extend_from_slice(empty);
            }
        }
        self.depth_left += 1;
        Ok(())
    }

    /// True if the table was declared an object.
    ///
    /// # Safety
    /// As `value`; the value is a table.
    unsafe fn marked(&self, state: *mut ffi::lua_State, index: c_int) -> bool {
        // SAFETY: what is pushed is popped.
        unsafe {
            if ffi::lua_getmetatable(state, index) == 0 {
                return false;
            }
            let marked = ffi::lua_topointer(state, -1) == self.object;
            ffi::lua_pop(state, 1);
            marked
        }
    }

    /// The table at `index`, whose first element is on top and will be popped. It ends before the
    /// first nil.
    ///
    /// # Safety
    /// As `value`; the value is a table.
    unsafe fn array(
        &mut self,
        state: *mut ffi::lua_State,
        index: c_int,
    ) -> Result<(), EncodeError> {
        // SAFETY: each element is popped before the next is pushed.
        unsafe {
            let top = ffi::lua_gettop(state);
            let mut next = 2;
            self.out.push(b'[');
            loop {
                self.element(state, top)?;
                ffi::lua_pop(state, 1);
                if ffi::lua_rawgeti(state, index, next) == ffi::LUA_TNIL {
                    break;
                }
                self.out.push(b',');
                next += 1;
            }
            ffi::lua_pop(state, 1);
            self.out.push(b']');
        }
        Ok(())
    }

    /// The table at `index`, whose first key and value are on top and will be popped.
    ///
    /// # Safety
    /// As `value`; the value is a table.
    unsafe fn object(
        &mut self,
        state: *mut ffi::lua_State,
        index: c_int,
    ) -> Result<(), EncodeError> {
        // SAFETY: a key is read as a string only if it is one, so that it stays the key that
        // `lua_next` needs; the table is not changed on the way.
        unsafe {
            let top = ffi::lua_gettop(state);
            self.out.push(b'{');
            loop {
                match ffi::lua_type(state, top - 1) {
                    ffi::LUA_TSTRING => self.string(state, top - 1),
                    other => return Err(EncodeError::Key(other)),
                }
                self.out.push(b':');
                self.element(state, top)?;
                ffi::lua_pop(state, 1);
                if ffi::lua_next(state, index) == 0 {
                    break;
                }
                self.out.push(b',');
            }
            self.out.push(b'}');
        }
        Ok(())
    }

    /// Like `value`, and fails if the text grows too long.
    ///
    /// # Safety
    /// As `value`.
    #[inline(always)]
    pub(super) unsafe fn element(
        &mut self,
        state: *mut ffi::lua_State,
        index: c_int,
    ) -> Result<(), EncodeError> {
        // SAFETY: as the caller promises.
        unsafe { self.value(state, index)? };
        if self.out.len() > self.bytes_max { Err(EncodeError::TooLarge) } else { Ok(()) }
    }
}

/// Whole numbers are written as such while they fit, all others so that reading gives the same
/// double back. JSON has no infinities and no NaN (RFC 8259 section 6).
fn float(value: f64, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    if !value.is_finite() {
        return Err(EncodeError::NotFinite);
    }
    let whole = value as i64;
    if whole as f64 == value && whole != i64::MAX && !(whole == 0 && value.is_sign_negative()) {
        out.extend_from_slice(itoa::Buffer::new().format(whole).as_bytes());
    } else {
        out.extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
    }
    Ok(())
}

/// Appends a string with its quotes, and escapes what must be (RFC 8259 section 7).
pub(super) fn quote(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() + 2 + 8);
    out.push(b'"');
    let mut at = copy_plain(bytes, 0, out);
    while let Some(&byte) = bytes.get(at) {
        escape(byte, out);
        at = copy_plain(bytes, at + 1, out);
    }
    out.push(b'"');
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let letter = match byte {
        b'"' | b'\\' => byte,
        8 => b'b',
        12 => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            let digits = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&digits);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', letter]);
}
