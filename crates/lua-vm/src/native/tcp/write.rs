//! Writing to a connection: never waits, sent at the end of the turn.
//!
//! Promises that a table of strings is written whole or not at all, and that a rejected write
//! returns the reason.

use std::ffi::c_int;
use std::rc::Rc;

use mlua::ffi;

use super::{connection, connection_of_frequent_call};
use crate::ids::StreamHandle;
use crate::raw_function;
use crate::stack::{self, LuaState};

pub(super) const FUNCTIONS: &[raw_function::NamedFunction] =
    &[(c"write", write), (c"closewrite", close_write), (c"flush", flush)];

/// `conn:write(string | { string, … }) → true | false, err`
unsafe extern "C-unwind" fn write(state: LuaState) -> c_int {
    // SAFETY: a string stays on the stack while it is written; nothing raises.
    unsafe {
        let (handle, count) = connection_of_frequent_call(state);
        if count < 2 {
            // So that the error is about an argument that was not given.
            ffi::lua_settop(state, count);
        } else if ffi::lua_type(state, 2) == ffi::LUA_TTABLE {
            return write_table(state, handle);
        }
        let data = stack::check_bytes(state, 2);
        written(state, raw_function::vm(state).streams.write(handle, data))
    }
}

/// # Safety
/// Called from `write` with a table as second argument.
unsafe fn write_table(state: LuaState, handle: StreamHandle) -> c_int {
    // SAFETY: each element is on the stack while it is looked at.
    unsafe {
        let count = ffi::lua_rawlen(state, 2) as i64;
        for at in 1..=count {
            let kind = ffi::lua_rawgeti(state, 2, at);
            if kind != ffi::LUA_TSTRING && kind != ffi::LUA_TNUMBER {
                return ffi::luaL_argerror(
                    state,
                    2,
                    c"a value in the table is not a string".as_ptr(),
                );
            }
            ffi::lua_settop(state, 2);
        }
        let vm = raw_function::vm(state);
        for at in 1..=count {
            ffi::lua_rawgeti(state, 2, at);
            let outcome = vm.streams.write(handle, stack::bytes(state, -1).unwrap_or_default());
            if outcome.is_err() {
                return written(state, outcome);
            }
            ffi::lua_settop(state, 2);
        }
        // An empty table too asks whether the connection can be written to.
        written(state, vm.streams.write(handle, b""))
    }
}

/// # Safety
/// `state` has two free slots.
unsafe fn written(state: LuaState, outcome: Result<(), Rc<str>>) -> c_int {
    // SAFETY: promised by the caller.
    unsafe {
        match outcome {
            Ok(()) => ffi::lua_pushboolean(state, 1),
            Err(reason) => return stack::refuse_false(state, &reason),
        }
    }
    1
}

/// `conn:closewrite() → ok, err`: the peer sees the end of the stream after what was written.
unsafe extern "C-unwind" fn close_write(state: LuaState) -> c_int {
    // SAFETY: nothing here has to be dropped.
    unsafe {
        let handle = connection(state);
        let first = raw_function::vm(state).streams.finish(handle);
        super::closing(state, first)
    }
}

/// `conn:flush() → true | nil, err`: waits until all that was written has left.
unsafe extern "C-unwind" fn flush(state: LuaState) -> c_int {
    // SAFETY: nothing is held when the coroutine is left.
    unsafe {
        let handle = connection(state);
        let vm = raw_function::vm(state);
        let Some(task) = vm.waiter(state) else {
            stack::raise(state, "only a task may wait for a connection");
        };
        let values = match vm.streams.flush(handle, task) {
            Ok(false) => 0,
            Ok(true) => written(state, Ok(())),
            Err(reason) => stack::refuse(state, &reason),
        };
        if values > 0 { values } else { ffi::lua_yieldk(state, 0, 0, None) }
    }
}
