//! The buffer that messages are written into, owned by Lua's collector.
//!
//! As the codec of JSON: Lua leaves a function by longjmp when it runs out of memory, and no
//! destructor of a Rust frame runs then. A call that finds the buffer busy (it is made by a hook or
//! a finalizer, or the call before ended by longjmp) replaces it.

use std::ffi::{CStr, c_int};

use mlua::ffi;

use crate::limits::PROTOBUF_KEPT_BYTES;
use crate::stack::LuaState;

const TYPE: &CStr = c"tide.pb.scratch";

#[derive(Debug, Default)]
pub(super) struct Scratch {
    is_busy: bool,
    pub(super) out: Vec<u8>,
}

impl Scratch {
    /// Ends a call: frees a large buffer.
    pub(super) fn release(&mut self) {
        if self.out.capacity() > PROTOBUF_KEPT_BYTES {
            self.out = Vec::new();
        }
        self.is_busy = false;
    }
}

/// Pushes a new buffer.
///
/// # Safety
/// `state` is a valid Lua state inside a protected call, with four free slots on its stack.
pub(super) unsafe fn push(state: LuaState) -> *mut Scratch {
    // SAFETY: the userdata has the size asked for and is aligned for any C type. All that can leave
    // by longjmp comes before the buffer is written; setting its metatable allocates nothing.
    unsafe {
        if ffi::luaL_newmetatable(state, TYPE.as_ptr()) != 0 {
            ffi::lua_pushcclosure(state, collect, 0);
            ffi::lua_setfield(state, -2, c"__gc".as_ptr());
            ffi::lua_pushboolean(state, 0);
            ffi::lua_setfield(state, -2, c"__metatable".as_ptr());
        }
        let scratch = ffi::lua_newuserdatauv(state, size_of::<Scratch>(), 0).cast::<Scratch>();
        ffi::lua_insert(state, -2);
        scratch.write(Scratch::default());
        ffi::lua_setmetatable(state, -2);
        scratch
    }
}

/// Pushes the buffer in the upvalue, or a new one that replaces it if it is busy. It is busy until
/// `release`.
///
/// # Safety
/// `state` runs a C function whose upvalue that is, made by `push`, and has five free slots.
pub(super) unsafe fn take(state: LuaState, upvalue: c_int) -> *mut Scratch {
    let upvalue = ffi::lua_upvalueindex(upvalue);
    // SAFETY: as the caller promises. While it is on the stack, the buffer is not collected.
    unsafe {
        ffi::lua_pushvalue(state, upvalue);
        let mut scratch = ffi::lua_touserdata(state, -1).cast::<Scratch>();
        if (*scratch).is_busy {
            ffi::lua_pop(state, 1);
            scratch = push(state);
            ffi::lua_pushvalue(state, -1);
            ffi::lua_replace(state, upvalue);
        }
        (*scratch).is_busy = true;
        (*scratch).out.clear();
        scratch
    }
}

/// The finalizer.
///
/// # Safety
/// Lua calls it, with one argument.
unsafe extern "C-unwind" fn collect(state: LuaState) -> c_int {
    // SAFETY: `luaL_checkudata` answers for the type before anything is on this frame. An empty
    // buffer replaces it, so a script that calls this twice does no harm.
    unsafe {
        let scratch = ffi::luaL_checkudata(state, 1, TYPE.as_ptr()).cast::<Scratch>();
        drop(scratch.replace(Scratch::default()));
    }
    0
}
