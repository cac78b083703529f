//! Reading from a connection: received bytes at once, others after waiting.
//!
//! Promises that only one coroutine waits on a connection, that a time-out takes no bytes, and that
//! bytes that were received before the end are returned before the end is reported.

use std::ffi::c_int;

use mlua::ffi;

use super::connection;
use crate::ids::StreamHandle;
use crate::native::time::check_span;
use crate::raw_function;
use crate::stack::{self, LuaState};
use crate::streams::ReadResult;
use crate::streams::input::{Delimiter, ReadRequest};
use crate::vm::Vm;

pub(super) const FUNCTIONS: &[raw_function::NamedFunction] = &[
    (c"read", read),
    (c"readline", read_line),
    (c"readall", read_all),
    (c"unread", unread),
    (c"peek", peek),
    (c"more", more),
];

/// The last step of a raw function, after everything it held is dropped.
enum ReadStep {
    Return(c_int),
    Yield,
    Raise(&'static str),
}

impl ReadStep {
    /// # Safety
    /// The last thing a raw function does.
    unsafe fn run(self, state: LuaState) -> c_int {
        match self {
            ReadStep::Return(values) => values,
            // SAFETY: nothing is held. The values of the wake are what the call returns.
            ReadStep::Yield => unsafe { ffi::lua_yieldk(state, 0, 0, None) },
            // SAFETY: as above.
            ReadStep::Raise(why) => unsafe { stack::raise(state, why) },
        }
    }
}

/// `conn:read(n | delimiter[, ms]) → data | nil, err`
unsafe extern "C-unwind" fn read(state: LuaState) -> c_int {
    // SAFETY: the delimiter is copied before anything is waited for.
    unsafe {
        let handle = connection(state, 1);
        match ffi::lua_type(state, 2) {
            ffi::LUA_TNUMBER => {
                let count = ffi::luaL_checkinteger(state, 2);
                let Ok(count) = usize::try_from(count) else {
                    return ffi::luaL_argerror(state, 2, c"a negative count".as_ptr());
                };
                let timeout = timeout_argument(state, 3);
                attempt(state, handle, ReadRequest::Bytes(count), timeout).run(state)
            }
            kind => delimited(state, handle, kind),
        }
    }
}

/// `conn:readline([delimiter = "\n"[, ms]])`
unsafe extern "C-unwind" fn read_line(state: LuaState) -> c_int {
    // SAFETY: as `read`.
    unsafe {
        let handle = connection(state, 1);
        match ffi::lua_type(state, 2) {
            ffi::LUA_TNONE | ffi::LUA_TNIL => {
                let timeout = timeout_argument(state, 3);
                let want = ReadRequest::Delimiter(Delimiter::new(b"\n"));
                attempt(state, handle, want, timeout).run(state)
            }
            kind => delimited(state, handle, kind),
        }
    }
}

/// Reads up to the delimiter that is the second argument, of type `kind`.
///
/// # Safety
/// Called from a raw function that holds nothing to drop.
unsafe fn delimited(state: LuaState, handle: StreamHandle, kind: c_int) -> c_int {
    // SAFETY: promised by the caller; the string is an argument.
    unsafe {
        if kind != ffi::LUA_TSTRING {
            return ffi::luaL_argerror(state, 2, c"a count or a delimiter expected".as_ptr());
        }
        let delimiter = stack::bytes(state, 2).unwrap_or_default();
        if delimiter.is_empty() {
            return ffi::luaL_argerror(state, 2, c"an empty delimiter".as_ptr());
        }
        let timeout = timeout_argument(state, 3);
        attempt(state, handle, ReadRequest::Delimiter(Delimiter::new(delimiter)), timeout)
            .run(state)
    }
}

/// `conn:readall([max[, ms]])`: the received bytes; waits for the first one.
unsafe extern "C-unwind" fn read_all(state: LuaState) -> c_int {
    // SAFETY: nothing here has to be dropped.
    unsafe {
        let handle = connection(state, 1);
        let at_most = usize::try_from(ffi::luaL_optinteger(state, 2, i64::MAX)).unwrap_or(0);
        let timeout = timeout_argument(state, 3);
        attempt(state, handle, ReadRequest::Some(at_most.max(1)), timeout).run(state)
    }
}

/// `conn:more([ms]) → true | nil, err`: waits until more is unread than now.
unsafe extern "C-unwind" fn more(state: LuaState) -> c_int {
    // SAFETY: nothing here has to be dropped.
    unsafe {
        let handle = connection(state, 1);
        let timeout = timeout_argument(state, 2);
        let vm = raw_function::vm(state);
        let unread = vm.streams.with(handle, |c| c.input.len()).unwrap_or(0);
        attempt(state, handle, ReadRequest::More(unread), timeout).run(state)
    }
}

/// `conn:unread(data) → ok, err`: the next read begins with `data`.
unsafe extern "C-unwind" fn unread(state: LuaState) -> c_int {
    // SAFETY: the string stays on the stack.
    unsafe {
        let handle = connection(state, 1);
        let data = stack::check_bytes(state, 2);
        if raw_function::vm(state).streams.put_back(handle, data) {
            ffi::lua_pushboolean(state, 1);
            return 1;
        }
        stack::refuse(state, crate::errno::CLOSED)
    }
}

/// `conn:peek([max]) → data | nil, err`: the unread bytes, which stay unread; never waits.
unsafe extern "C-unwind" fn peek(state: LuaState) -> c_int {
    // SAFETY: the bytes are copied by the push before anything else can happen.
    unsafe {
        let handle = connection(state, 1);
        let at_most = usize::try_from(ffi::luaL_optinteger(state, 2, i64::MAX)).unwrap_or(0);
        match raw_function::vm(state).streams.peek(handle, at_most) {
            Some(bytes) => stack::push(state, &*bytes),
            None => return stack::refuse(state, crate::errno::CLOSED),
        }
    }
    1
}

/// The time-out argument, if there is one.
///
/// # Safety
/// Called from a raw function that holds nothing to drop.
unsafe fn timeout_argument(state: LuaState, index: c_int) -> Option<u64> {
    // SAFETY: promised by the caller.
    unsafe { (ffi::lua_type(state, index) > ffi::LUA_TNIL).then(|| check_span(state, index)) }
}

/// Reads, or parks the coroutine. Everything it was given is dropped when it returns.
///
/// # Safety
/// `state` runs a function made by `stack::functions`.
unsafe fn attempt(
    state: LuaState,
    handle: StreamHandle,
    want: ReadRequest,
    timeout: Option<u64>,
) -> ReadStep {
    // SAFETY: promised by the caller; the bytes are copied by the push.
    unsafe {
        let vm: &Vm = raw_function::vm(state);
        let mut found = vm.streams.read(handle, &want);
        if matches!(found, ReadResult::Busy) && vm.streams.forget_reader(vm, handle) {
            found = vm.streams.read(handle, &want);
        }
        match found {
            ReadResult::Bytes(bytes) => {
                stack::push(state, &*bytes);
                ReadStep::Return(1)
            }
            ReadResult::Failed(reason) => ReadStep::Return(stack::refuse(state, &reason)),
            ReadResult::Busy => ReadStep::Raise("another task reads from this connection"),
            ReadResult::Wait => match vm.waiter(state) {
                Some(task) => {
                    vm.streams.park(vm, handle, task, want, timeout);
                    ReadStep::Yield
                }
                None => ReadStep::Raise("only a task may wait for a connection"),
            },
        }
    }
}
