//! Errors of scripts: their text, and the log lines of uncaught ones.
//!
//! Promises that describing an error never raises another.

use std::ffi::{CStr, c_int};

use mlua::{Error, Lua, Result, Value, ffi};
use telemetry::event_limited;
use telemetry::log::Level;

use crate::limits::{ERROR_LINES_PER_SECOND, TRACEBACK_BYTES};
use crate::stack::{self, LuaState};
use crate::tasks::TaskError;

/// The registry key of the function that converts mlua's error objects to text.
const PLAIN: &CStr = c"tidegate.plain_error";

/// Makes the function that [`make_plain`] calls.
pub(crate) fn install(lua: &Lua) -> Result<()> {
    let plain = lua.create_function(|lua, error: Value| match &error {
        Value::Error(error) => Ok(Value::String(lua.create_string(text(error))?)),
        _ => Ok(error),
    })?;
    // SAFETY: takes one function from the stack and leaves nothing.
    unsafe {
        lua.exec_raw::<()>(plain, |state| {
            ffi::lua_setfield(state, ffi::LUA_REGISTRYINDEX, PLAIN.as_ptr());
        })
    }
}

/// The text of an error, without the callbacks it passed through.
pub fn text(error: &Error) -> String {
    match error {
        Error::RuntimeError(text) | Error::MemoryError(text) => text.clone(),
        Error::SyntaxError { message, .. } => message.clone(),
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

/// Replaces the error object on top of the stack with its text, if it is one of mlua's.
///
/// # Safety
/// Called from a raw function with a value on top of its stack.
pub(crate) unsafe fn make_plain(state: LuaState) {
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

/// Logs the error that a coroutine ended with, rate limited, and returns it. `trace_id` is that of
/// the request that it handled.
pub(crate) fn report(main: LuaState, thread: LuaState, trace_id: Option<String>) -> TaskError {
    let text = describe(main, thread);
    let (message, traceback) = text.split_once('\n').unwrap_or((&text, ""));
    event_limited!(
        ERROR_LINES_PER_SECOND,
        Level::Error,
        "Lua error in a coroutine",
        error = message,
        traceback = traceback,
        trace_id = trace_id
    );
    TaskError { message: message.to_owned(), traceback: traceback.to_owned() }
}

/// The file of the function that a thread which does not run began with.
pub(crate) fn file_of(thread: LuaState) -> Option<String> {
    // SAFETY: reads the calls of the thread; the source of a function lives as long as it does.
    unsafe {
        let mut call: ffi::lua_Debug = std::mem::zeroed();
        let mut is_level = |level| ffi::lua_getstack(thread, level, &raw mut call) != 0;
        // As `luaL_traceback` finds the first call, whose level is the highest.
        let (mut first, mut beyond) = (0, 1);
        while is_level(beyond) {
            (first, beyond) = (beyond, beyond * 2);
        }
        while first + 1 < beyond {
            let middle = first.midpoint(beyond);
            *(if is_level(middle) { &mut first } else { &mut beyond }) = middle;
        }
        if !is_level(first) || ffi::lua_getinfo(thread, c"S".as_ptr(), &raw mut call) == 0 {
            return None;
        }
        let source = CStr::from_ptr(call.source).to_bytes().strip_prefix(b"@")?;
        Some(String::from_utf8_lossy(source).into_owned())
    }
}

/// The error on top of a thread's stack, with its traceback.
fn describe(main: LuaState, thread: LuaState) -> String {
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
