//! Newline-delimited JSON: a document on each line, blank lines between them allowed.

use super::{CODEC, NULL, codec, construct, encoder, explain, read, refuse};
use crate::stack;
use mlua::{Lua, Result, Table, ffi};
use std::ffi::c_int;

/// Puts the functions into the module's table.
pub(super) fn open(lua: &Lua, table: &Table, null: &Table, object: &Table) -> Result<()> {
    table.set("decode_lines", super::native(lua, decode_lines, null, object)?)?;
    table.set("encode_lines", super::native(lua, encode_lines, null, object)?)
}

/// `decode_lines(text) → array | nil, reason`
///
/// # Safety
/// Lua calls it, as a closure of `native`.
unsafe extern "C-unwind" fn decode_lines(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: as `decode`; the array stands above what the builder is told of, and each value is
    // popped into it.
    unsafe {
        let text = stack::check_bytes(state, 1);
        ffi::lua_settop(state, 1);
        let codec = &mut *codec::take(state, CODEC);
        let kept = ffi::lua_gettop(state);
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(NULL));
        ffi::lua_createtable(state, 0, 0);
        let (mut at, mut number, mut count) = (0, 0, 0);
        while at < text.len() {
            let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |end| at + end);
            let line = &text[at..end];
            at = end + 1;
            number += 1;
            if line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r')) {
                continue;
            }
            if let Err(reason) = read(codec, line) {
                in_line(&mut codec.out, number);
                return refuse(state, codec, reason);
            }
            if let Err(reason) = construct(state, codec, line, kept) {
                return refuse(state, codec, reason);
            }
            count += 1;
            ffi::lua_rawseti(state, -2, count);
        }
        codec.release();
        1
    }
}

/// Adds the line number to an error.
fn in_line(reason: &mut Vec<u8>, number: usize) {
    reason.splice(0..0, format!("line {number}: ").into_bytes());
}

/// `encode_lines(array) → text | nil, reason`
///
/// # Safety
/// Lua calls it, as a closure of `native`.
unsafe extern "C-unwind" fn encode_lines(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: as `encode`; each element is popped before the next is pushed.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        ffi::lua_settop(state, 1);
        let codec = &mut *codec::take(state, CODEC);
        let mut encoder = encoder(state, &mut codec.out);
        let top = ffi::lua_gettop(state) + 1;
        for number in 1.. {
            if ffi::lua_rawgeti(state, 1, number) == ffi::LUA_TNIL {
                break;
            }
            if let Err(unfit) = encoder.element(state, top) {
                codec.out.clear();
                explain(state, unfit, &mut codec.out);
                in_line(&mut codec.out, number as usize);
                return refuse(state, codec, "");
            }
            encoder.out.push(b'\n');
            ffi::lua_settop(state, top - 1);
        }
        ffi::lua_pushlstring(state, codec.out.as_ptr().cast(), codec.out.len());
        codec.release();
        1
    }
}
