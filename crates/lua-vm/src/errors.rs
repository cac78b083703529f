//! Errors of scripts: what `pcall` returns, and what the log says of uncaught ones.
//!
//! Owns `pcall` and `xpcall` of a state. They differ from Lua's own in two ways: an error of one of
//! our modules arrives as a string, as it does in Silly (mlua would pass an object), and nothing
//! can be caught after `silly.exit`. Promises that describing an error never raises another.

use std::ffi::{CStr, c_int};

use mlua::{Error, Function, Result, Value, ffi};
use telemetry::event_limited;
use telemetry::log::Level;

use crate::limits::{ERROR_LINES_PER_SECOND, TRACEBACK_BYTES};
use crate::stack::{self, LuaState};
use crate::vm::Vm;

/// The registry key of the function that converts mlua's error objects to text.
const PLAIN: &CStr = c"tidegate.plain_error";

/// Replaces `pcall` and `xpcall`.
pub(crate) fn install(vm: &Vm) -> Result<()> {
    let lua = vm.lua();
    let plain = lua.create_function(|lua, error: Value| match &error {
        Value::Error(error) => Ok(Value::String(lua.create_string(text(error))?)),
        _ => Ok(error),
    })?;
    // SAFETY: takes one function from the stack and leaves nothing.
    unsafe {
        lua.exec_raw::<()>(plain, |state| {
            ffi::lua_setfield(state, ffi::LUA_REGISTRYINDEX, PLAIN.as_ptr());
        })?;
    }
    let calls = stack::functions(lua, vm, &[(c"pcall", pcall), (c"xpcall", xpcall)])?;
    for name in ["pcall", "xpcall"] {
        lua.globals().set(name, calls.get::<Function>(name)?)?;
    }
    Ok(())
}

/// The text of an error, without the callbacks it passed through.
pub fn text(error: &Error) -> String {
    match error {
        Error::RuntimeError(text) | Error::MemoryError(text) => text.clone(),
        Error::CallbackError { cause, .. } | Error::WithContext { cause, .. } => text(cause),
        Error::BadArgument { to, pos, cause, .. } => match to {
            Some(to) => format!("bad argument #{pos} to '{to}' ({})", text(cause)),
            None => format!("bad argument #{pos} ({})", text(cause)),
        },
        Error::FromLuaConversionError { from, to, message } => match message {
            Some(message) => format!("{to} expected, got {from}: {message}"),
            None => format!("{to} expected, got {from}"),
        },
        other => other.to_string(),
    }
}

/// `pcall(f, …)`.
unsafe extern "C-unwind" fn pcall(state: LuaState) -> c_int {
    // SAFETY: as in Lua's own: `true` goes below the function, and the continuation sees what a
    // direct return sees.
    unsafe {
        ffi::luaL_checkany(state, 1);
        ffi::lua_pushboolean(state, 1);
        ffi::lua_insert(state, 1);
        let count = ffi::lua_gettop(state) - 2;
        let status = ffi::lua_pcallk(state, count, ffi::LUA_MULTRET, 0, 0, Some(finish));
        finish(state, status, 0)
    }
}

/// `xpcall(f, handler, …)`.
unsafe extern "C-unwind" fn xpcall(state: LuaState) -> c_int {
    // SAFETY: as in Lua's own. The stack becomes: f, handler wrapped, true, f, arguments.
    unsafe {
        ffi::luaL_checktype(state, 2, ffi::LUA_TFUNCTION);
        let count = ffi::lua_gettop(state) - 2;
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(1));
        ffi::lua_pushvalue(state, 2);
        ffi::lua_pushcclosure(state, handle, 2);
        ffi::lua_replace(state, 2);
        ffi::lua_pushboolean(state, 1);
        ffi::lua_pushvalue(state, 1);
        ffi::lua_rotate(state, 3, 2);
        let status = ffi::lua_pcallk(state, count, ffi::LUA_MULTRET, 2, 2, Some(finish));
        finish(state, status, 2)
    }
}

/// The message handler of `xpcall`: the script's, given plain text.
unsafe extern "C-unwind" fn handle(state: LuaState) -> c_int {
    // SAFETY: one argument, one result; the upvalues are the VM and the script's handler.
    unsafe {
        ffi::lua_settop(state, 1);
        if stack::vm(state).exit_code().is_some() {
            return 1;
        }
        make_plain(state);
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(2));
        ffi::lua_insert(state, 1);
        ffi::lua_call(state, 1, 1);
    }
    1
}

unsafe extern "C-unwind" fn finish(
    state: LuaState,
    status: c_int,
    skipped: ffi::lua_KContext,
) -> c_int {
    // SAFETY: the VM is the first upvalue of `pcall` and `xpcall`; below the results lie `skipped`
    // values, then `true`.
    unsafe {
        if status == ffi::LUA_OK || status == ffi::LUA_YIELD {
            return ffi::lua_gettop(state) - skipped as c_int;
        }
        if stack::vm(state).exit_code().is_some() {
            ffi::lua_error(state);
        }
        make_plain(state);
        ffi::lua_pushboolean(state, 0);
        ffi::lua_insert(state, -2);
    }
    2
}

/// Replaces the error object on top of the stack with its text, if it is one of mlua's.
///
/// # Safety
/// Called from a raw function with a value on top of its stack.
unsafe fn make_plain(state: LuaState) {
    // SAFETY: the function in the registry takes one value and leaves one, and does not raise.
    unsafe {
        if ffi::lua_type(state, -1) == ffi::LUA_TUSERDATA {
            ffi::lua_getfield(state, ffi::LUA_REGISTRYINDEX, PLAIN.as_ptr());
            ffi::lua_insert(state, -2);
            ffi::lua_call(state, 1, 1);
        }
    }
}

/// Logs an error that cannot be raised in a coroutine.
pub fn log(error: &Error) {
    event_limited!(
        ERROR_LINES_PER_SECOND,
        Level::Error,
        "Lua function could not be called",
        error = text(error)
    );
}

/// Logs the error that a coroutine ended with, rate limited, and returns its text.
pub(crate) fn report(vm: &Vm, thread: LuaState) -> String {
    if vm.exit_code().is_some() {
        return String::new();
    }
    let text = describe(vm, thread);
    let (message, traceback) = text.split_once('\n').unwrap_or((&text, ""));
    event_limited!(
        ERROR_LINES_PER_SECOND,
        Level::Error,
        "Lua error in a coroutine",
        error = message,
        traceback = traceback
    );
    message.to_owned()
}

/// The error on top of a thread's stack, with its traceback.
fn describe(vm: &Vm, thread: LuaState) -> String {
    let main = vm.main();
    // SAFETY: the error value is moved to the main stack and back (the thread may have no room for
    // a copy), and everything that may raise runs in a protected call there; both stacks are left
    // as they were.
    unsafe {
        let top = ffi::lua_gettop(main);
        ffi::luaL_checkstack(main, 4, std::ptr::null());
        ffi::lua_xmove(thread, main, 1);
        ffi::lua_pushcclosure(main, describe_raw, 0);
        ffi::lua_pushlightuserdata(main, thread.cast());
        ffi::lua_pushvalue(main, top + 1);
        ffi::lua_pcall(main, 2, 1, 0);
        let text = stack::bytes(main, -1).unwrap_or(b"an error that cannot be shown");
        let text = String::from_utf8_lossy(&text[..text.len().min(TRACEBACK_BYTES)]).into_owned();
        ffi::lua_settop(main, top + 1);
        ffi::lua_xmove(main, thread, 1);
        text
    }
}

unsafe extern "C-unwind" fn describe_raw(state: LuaState) -> c_int {
    // SAFETY: called by `describe` with a thread that does not run, and a value.
    unsafe {
        let thread: LuaState = ffi::lua_touserdata(state, 1).cast();
        make_plain(state);
        let text = ffi::luaL_tolstring(state, 2, std::ptr::null_mut());
        ffi::luaL_traceback(state, thread, text, 0);
    }
    1
}
