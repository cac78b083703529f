//! The memory of a module's encoder and decoder, owned by Lua's collector.
//!
//! Lua leaves a C function by longjmp when it runs out of memory, and no destructor of a Rust frame
//! runs then. So nothing with a destructor lives on the frames of `encode` and `decode`: buffers
//! are in this userdata, which the collector frees however a call ended.
//!
//! A finalizer may run in the middle of a call and encode or decode itself. It finds the codec
//! busy and gets a new one; a codec whose call ended by longjmp stays busy and is replaced too.

use super::build::push_kept;
use super::keys::KeyCache;
use super::parse::Parser;
use crate::limits;
use mlua::ffi;
use std::ffi::{CStr, c_int};

const TYPE: &CStr = c"tide.json.codec";

#[derive(Debug, Default)]
pub(super) struct Codec {
    busy: bool,
    pub(super) parser: Parser,
    pub(super) keys: KeyCache,
    pub(super) out: Vec<u8>,
}

impl Codec {
    /// Ends a call: frees large buffers, keeps ordinary ones for the next.
    pub(super) fn release(&mut self) {
        let bytes = limits::JSON_KEPT_BYTES;
        self.parser.tape.shrink(bytes / size_of::<u64>(), bytes);
        if self.out.capacity() > bytes {
            self.out = Vec::new();
        }
        self.busy = false;
    }
}

/// Pushes a new codec.
///
/// # Safety
/// `state` is a valid Lua state inside a protected call, with four free slots on its stack.
pub(super) unsafe fn push(state: *mut ffi::lua_State) -> *mut Codec {
    // SAFETY: the userdata has the size asked for and is aligned for any C type. All that can leave
    // by longjmp comes before the codec is written; setting its metatable allocates nothing.
    unsafe {
        if ffi::luaL_newmetatable(state, TYPE.as_ptr()) != 0 {
            ffi::lua_pushcclosure(state, collect, 0);
            ffi::lua_setfield(state, -2, c"__gc".as_ptr());
            ffi::lua_pushboolean(state, 0);
            ffi::lua_setfield(state, -2, c"__metatable".as_ptr());
        }
        let codec = ffi::lua_newuserdatauv(state, size_of::<Codec>(), 1).cast::<Codec>();
        push_kept(state);
        ffi::lua_setiuservalue(state, -2, 1);
        ffi::lua_rotate(state, -2, 1);
        codec.write(Codec::default());
        ffi::lua_setmetatable(state, -2);
        codec
    }
}

/// Pushes the codec in the upvalue `upvalue`, or a new one that replaces it if it is busy, and
/// above it the table of its cached keys. It is busy until `release`.
///
/// # Safety
/// `state` runs a C function whose upvalue that is, made by `push`, and has five free slots.
pub(super) unsafe fn take(state: *mut ffi::lua_State, upvalue: c_int) -> *mut Codec {
    let upvalue = ffi::lua_upvalueindex(upvalue);
    // SAFETY: as the caller promises. While it is on the stack, the codec is not collected.
    unsafe {
        ffi::lua_pushvalue(state, upvalue);
        let mut codec = ffi::lua_touserdata(state, -1).cast::<Codec>();
        if (*codec).busy {
            ffi::lua_pop(state, 1);
            codec = push(state);
            ffi::lua_pushvalue(state, -1);
            ffi::lua_replace(state, upvalue);
        }
        (*codec).busy = true;
        ffi::lua_getiuservalue(state, -1, 1);
        codec
    }
}

/// The finalizer.
///
/// # Safety
/// Lua calls it, with one argument.
unsafe extern "C-unwind" fn collect(state: *mut ffi::lua_State) -> c_int {
    // SAFETY: `luaL_checkudata` answers for the type before anything is on this frame. An empty
    // codec replaces it, so a script that calls this twice does no harm.
    unsafe {
        let codec = ffi::luaL_checkudata(state, 1, TYPE.as_ptr()).cast::<Codec>();
        drop(codec.replace(Codec::default()));
    }
    0
}
