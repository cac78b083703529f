//! `encoding.json`: Lua values as JSON (RFC 8259) and back.
//!
//! Promises Silly's rules: a table with `[1]` or nothing in it is an array, `null` is a sentinel,
//! integers stay integers. Beyond them: floats come back as the same double, nothing may follow the
//! value, depth and size are limited. Malformed JSON gives `nil, reason`, with the position in the
//! text.
//!
//! Decoding is two passes. The parser writes a tape and does not use Lua; the builder makes tables
//! of the right size from the tape. `json/codec.rs` describes how the longjmp of Lua's errors skips
//! no destructor.

mod build;
mod codec;
mod encode;
mod keys;
mod lines;
mod number;
mod parse;
mod parse_error;
mod sentinel;
mod string;
mod tape;

use crate::limits;
use crate::stack;
use build::{Builder, STACK_PER_LEVEL, STACK_SPARE};
use codec::Codec;
use encode::{EncodeError, Encoder};
use mlua::{Function, Lua, Result, Table, ffi};
use std::ffi::{CStr, c_int, c_void};

/// Upvalues of the raw functions.
const CODEC: c_int = 1;
const NULL: c_int = 2;
const OBJECT: c_int = 3;

/// The module without its incremental decoder.
pub fn open(lua: &Lua) -> Result<Table> {
    let null = sentinel::null(lua)?;
    let object = sentinel::object(lua)?;
    let table = lua.create_table()?;
    for (name, function) in [("decode", decode as ffi::lua_CFunction), ("encode", encode)] {
        table.set(name, native(lua, function, &null, &object)?)?;
    }
    table.set("object", sentinel::mark(lua, &object)?)?;
    lines::open(lua, &table, &null, &object)?;
    table.set("null", null)?;
    Ok(table)
}

/// A raw function with a codec of its own.
fn native(
    lua: &Lua,
    function: ffi::lua_CFunction,
    null: &Table,
    object: &Table,
) -> Result<Function> {
    // SAFETY: runs in a protected call with the two tables on the stack. The codec goes below
    // them, so the three are the upvalues in their order.
    unsafe {
        lua.exec_raw((null, object), |state| {
            ffi::luaL_checkstack(state, 6, c"too many values".as_ptr());
            codec::push(state);
            ffi::lua_rotate(state, -3, 1);
            ffi::lua_pushcclosure(state, function, 3);
        })
    }
}

/// `decode(text) → value | nil, reason`
///
/// # Safety
/// Lua calls it, as a closure of `native`.
unsafe extern "C-unwind" fn decode(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: what can leave by longjmp (the check, the building, the last push) has only
    // references on this frame: buffers and the message are in the codec. The stack is grown before
    // the builder needs it. Results are the last values pushed.
    unsafe {
        let text = stack::check_bytes(state, 1);
        ffi::lua_settop(state, 1);
        let codec = &mut *codec::take(state, CODEC);
        let kept = ffi::lua_gettop(state);
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(NULL));
        if let Err(reason) = read(codec, text) {
            return refuse(state, codec, reason);
        }
        if let Err(reason) = construct(state, codec, text, kept) {
            return refuse(state, codec, reason);
        }
        codec.release();
        1
    }
}

/// Pushes the value of a text that was read.
///
/// # Safety
/// `state` runs a raw function of this module, with the codec at `kept` and null above it.
#[inline]
unsafe fn construct(
    state: *mut ffi::lua_State,
    codec: &mut Codec,
    text: &[u8],
    kept: c_int,
) -> std::result::Result<(), &'static str> {
    // SAFETY: the stack is grown before the builder needs it; what can leave by longjmp has only
    // references on this frame.
    unsafe {
        let tape = &codec.parser.tape;
        let room = tape.depth * STACK_PER_LEVEL + STACK_SPARE;
        if ffi::lua_checkstack(state, room as c_int) == 0 {
            return Err("the Lua stack is full");
        }
        let keys = &mut codec.keys;
        let (words, unescaped) = (tape.words(), tape.unescaped.as_slice());
        Builder { words, at: 0, text, unescaped, keys, kept, null: kept + 1 }.value(state);
    }
    Ok(())
}

/// Parses; the description of an error is written to the codec, so the reason is empty.
fn read(codec: &mut Codec, text: &[u8]) -> std::result::Result<(), &'static str> {
    let parsed = codec.parser.parse(text, limits::JSON_DECODE_DEPTH);
    parsed.map_err(|mistake| {
        codec.out.clear();
        codec.out.extend_from_slice(mistake.describe(text).as_bytes());
        ""
    })
}

/// `encode(value) → text | nil, reason`
///
/// # Safety
/// Lua calls it, as a closure of `native`.
unsafe extern "C-unwind" fn encode(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: what can leave by longjmp (the check, taking the codec, the last push) has only
    // references on this frame. The encoder makes Lua raise nothing.
    unsafe {
        ffi::luaL_checkany(state, 1);
        ffi::lua_settop(state, 1);
        let codec = &mut *codec::take(state, CODEC);
        let mut encoder = encoder(state, &mut codec.out);
        if let Err(unfit) = encoder.value(state, 1) {
            codec.out.clear();
            explain(state, unfit, &mut codec.out);
            return refuse(state, codec, "");
        }
        ffi::lua_pushlstring(state, codec.out.as_ptr().cast(), codec.out.len());
        codec.release();
        1
    }
}

/// An encoder with an empty buffer.
///
/// # Safety
/// `state` runs a raw function of this module.
#[inline]
unsafe fn encoder(state: *mut ffi::lua_State, out: &mut Vec<u8>) -> Encoder<'_> {
    out.clear();
    // SAFETY: promised by the caller.
    let (null, object) = unsafe { (upvalue_address(state, NULL), upvalue_address(state, OBJECT)) };
    let (depth_left, bytes_max) = (limits::JSON_ENCODE_DEPTH, limits::JSON_ENCODE_BYTES);
    Encoder { out, null, object, depth_left, bytes_max }
}

/// # Safety
/// `state` runs a raw function of this module.
unsafe fn upvalue_address(state: *mut ffi::lua_State, upvalue: c_int) -> *const c_void {
    // SAFETY: reads an upvalue.
    unsafe { ffi::lua_topointer(state, ffi::lua_upvalueindex(upvalue)) }
}

/// Ends a call with `nil, reason`; an empty reason means that the codec has it.
///
/// # Safety
/// `state` runs a raw function that holds `codec` on its stack.
unsafe fn refuse(state: *mut ffi::lua_State, codec: &mut Codec, reason: &'static str) -> c_int {
    let reason = if reason.is_empty() { codec.out.as_slice() } else { reason.as_bytes() };
    // SAFETY: the frame is cut to what holds the codec, which leaves room for two values.
    unsafe {
        ffi::lua_settop(state, 3);
        ffi::lua_pushnil(state);
        ffi::lua_pushlstring(state, reason.as_ptr().cast(), reason.len());
    }
    codec.release();
    2
}

/// # Safety
/// `state` is a valid Lua state.
unsafe fn explain(state: *mut ffi::lua_State, unfit: EncodeError, out: &mut Vec<u8>) {
    let (before, kind, after) = match unfit {
        EncodeError::Type(kind) => ("a ", Some(kind), " cannot be encoded as JSON"),
        EncodeError::Key(kind) => ("a key of an object is a ", Some(kind), ", not a string"),
        EncodeError::NotFinite => {
            ("a number that is not finite cannot be encoded as JSON", None, "")
        }
        EncodeError::TooDeep => ("tables are nested more than 128 deep", None, ""),
        EncodeError::TooLarge => ("the text would be longer than 256 MiB", None, ""),
        EncodeError::NoStack => ("the Lua stack is full", None, ""),
    };
    out.extend_from_slice(before.as_bytes());
    if let Some(kind) = kind {
        // SAFETY: names of types are static strings of Lua.
        let name = unsafe { CStr::from_ptr(ffi::lua_typename(state, kind)) };
        out.extend_from_slice(name.to_bytes());
    }
    out.extend_from_slice(after.as_bytes());
}

#[cfg(test)]
mod tests;
