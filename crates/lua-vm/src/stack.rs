//! Lua's stack, for functions that use it directly.
//!
//! Has the few idioms of raw functions: bytes in and out, `nil, reason`, raising. A raw function
//! runs between Lua's `setjmp` and `longjmp`: whenever it calls something that may raise or yield,
//! it holds no value with a destructor and no borrow of a `RefCell`. Pushing may run the collector,
//! and with it a script's `__gc`, so it counts as such a call.

use std::ffi::c_int;

use mlua::ffi;

/// A Lua thread; the main one or a coroutine.
pub(crate) type LuaState = *mut ffi::lua_State;

/// Pushes a string.
///
/// # Safety
/// `state` is alive and has a free slot.
pub(crate) unsafe fn push(state: LuaState, bytes: &[u8]) {
    // SAFETY: pointer and length are those of a slice; Lua copies it.
    unsafe { ffi::lua_pushlstring(state, bytes.as_ptr().cast(), bytes.len()) };
}

/// The string at `index`, or a number as the string it reads as; `None` for anything else.
///
/// # Safety
/// `state` is alive; the bytes are used only while the value stays on the stack.
pub(crate) unsafe fn bytes<'a>(state: LuaState, index: c_int) -> Option<&'a [u8]> {
    let mut length = 0;
    // SAFETY: the index is checked by Lua, and a string lives as long as its slot holds it.
    unsafe {
        let start = ffi::lua_tolstring(state, index, &raw mut length);
        (!start.is_null()).then(|| std::slice::from_raw_parts(start.cast(), length))
    }
}

/// The string argument `index`; raises if it is not a string.
///
/// # Safety
/// As [`bytes`]; called from a raw function, which this call may leave.
pub(crate) unsafe fn check_bytes<'a>(state: LuaState, index: c_int) -> &'a [u8] {
    let mut length = 0;
    // SAFETY: raises, or returns a string that lives as long as its slot holds it.
    unsafe {
        let start = ffi::luaL_checklstring(state, index, &raw mut length);
        std::slice::from_raw_parts(start.cast(), length)
    }
}

/// Pushes `nil, reason`, the result of a failure that is not the script's own error.
///
/// # Safety
/// `state` is alive and has two free slots.
pub(crate) unsafe fn refuse(state: LuaState, reason: &str) -> c_int {
    // SAFETY: promised by the caller.
    unsafe {
        ffi::lua_pushnil(state);
        push(state, reason.as_bytes());
    }
    2
}

/// Pushes `false, reason`: of calls that otherwise return true.
///
/// # Safety
/// As [`refuse`].
pub(crate) unsafe fn refuse_false(state: LuaState, reason: &str) -> c_int {
    // SAFETY: promised by the caller.
    unsafe {
        ffi::lua_pushboolean(state, 0);
        push(state, reason.as_bytes());
    }
    2
}

/// Raises a string error that begins with the caller's position. The message is dropped first.
///
/// # Safety
/// Called from a raw function that holds nothing to drop.
pub(crate) unsafe fn raise<M: AsRef<str>>(state: LuaState, message: M) -> ! {
    // SAFETY: `luaL_where` and the message leave two strings, which `lua_concat` joins.
    unsafe {
        ffi::luaL_where(state, 1);
        push(state, message.as_ref().as_bytes());
        drop(message);
        ffi::lua_concat(state, 2);
        ffi::lua_error(state)
    }
}
