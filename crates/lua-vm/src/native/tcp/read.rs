//! Reading from a connection: received bytes at once, others after waiting.
//!
//! Promises that only one coroutine waits on a connection, that a time-out takes no bytes, and that
//! bytes that were received before the end are returned before the end is reported.

use std::ffi::c_int;

use mlua::ffi;

use super::{connection, connection_of_frequent_call};
use crate::ids::StreamHandle;
use crate::native::time::check_span;
use crate::raw_function;
use crate::stack::{self, LuaState};
use crate::streams::Unread;
use crate::streams::input::ReadRequest;
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
enum LastStep {
    Return(c_int),
    Yield,
    Raise(&'static str),
}

/// `conn:read(n | delimiter[, ms]) → data | nil, err`
unsafe extern "C-unwind" fn read(state: LuaState) -> c_int {
    // SAFETY: the delimiter is copied before anything is waited for.
    unsafe {
        let (handle, count) = connection_of_frequent_call(state);
        let kind = type_of_second(state, count);
        if kind == ffi::LUA_TNUMBER {
            let Ok(bytes) = usize::try_from(ffi::luaL_checkinteger(state, 2)) else {
                return ffi::luaL_argerror(state, 2, c"a negative count".as_ptr());
            };
            let timeout = timeout_argument(state, 3, count);
            return attempt(state, handle, ReadRequest::Bytes(bytes), timeout);
        }
        delimited(state, handle, kind, count)
    }
}

/// `conn:readline([delimiter = "\n"[, ms]])`
unsafe extern "C-unwind" fn read_line(state: LuaState) -> c_int {
    // SAFETY: as `read`.
    unsafe {
        let (handle, count) = connection_of_frequent_call(state);
        let kind = type_of_second(state, count);
        if kind <= ffi::LUA_TNIL {
            let timeout = timeout_argument(state, 3, count);
            return attempt(state, handle, ReadRequest::Delimiter(b"\n"), timeout);
        }
        delimited(state, handle, kind, count)
    }
}

/// The type of the second of `count` arguments.
///
/// # Safety
/// `state` runs a raw function.
#[inline]
unsafe fn type_of_second(state: LuaState, count: c_int) -> c_int {
    // SAFETY: promised by the caller.
    if count < 2 { ffi::LUA_TNONE } else { unsafe { ffi::lua_type(state, 2) } }
}

/// Reads up to the delimiter that is the second of `count` arguments, of this type.
///
/// # Safety
/// Called from a raw function that holds nothing to drop.
#[inline]
unsafe fn delimited(state: LuaState, handle: StreamHandle, kind: c_int, count: c_int) -> c_int {
    // SAFETY: promised by the caller; the string is an argument.
    unsafe {
        if kind != ffi::LUA_TSTRING {
            return ffi::luaL_argerror(state, 2, c"a count or a delimiter expected".as_ptr());
        }
        let delimiter = stack::bytes(state, 2).unwrap_or_default();
        if delimiter.is_empty() {
            return ffi::luaL_argerror(state, 2, c"an empty delimiter".as_ptr());
        }
        let timeout = timeout_argument(state, 3, count);
        attempt(state, handle, ReadRequest::Delimiter(delimiter), timeout)
    }
}

/// `conn:readall([max[, ms]])`: the received bytes; waits for the first one.
unsafe extern "C-unwind" fn read_all(state: LuaState) -> c_int {
    // SAFETY: nothing here has to be dropped.
    unsafe {
        let handle = connection(state);
        let at_most = usize::try_from(ffi::luaL_optinteger(state, 2, i64::MAX)).unwrap_or(0);
        let timeout = timeout_argument(state, 3, ffi::lua_gettop(state));
        attempt(state, handle, ReadRequest::Some(at_most.max(1)), timeout)
    }
}

/// `conn:more([ms]) → true | nil, err`: waits until more is unread than now.
unsafe extern "C-unwind" fn more(state: LuaState) -> c_int {
    // SAFETY: nothing here has to be dropped.
    unsafe {
        let handle = connection(state);
        let timeout = timeout_argument(state, 2, ffi::lua_gettop(state));
        let vm = raw_function::vm(state);
        let unread = vm.streams.with(handle, |c| c.input.len()).unwrap_or(0);
        attempt(state, handle, ReadRequest::More(unread), timeout)
    }
}

/// `conn:unread(data) → ok, err`: the next read begins with `data`.
unsafe extern "C-unwind" fn unread(state: LuaState) -> c_int {
    // SAFETY: the string stays on the stack.
    unsafe {
        let handle = connection(state);
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
        let handle = connection(state);
        let at_most = usize::try_from(ffi::luaL_optinteger(state, 2, i64::MAX)).unwrap_or(0);
        match raw_function::vm(state).streams.peek(handle, at_most) {
            Some(bytes) => stack::push(state, &*bytes),
            None => return stack::refuse(state, crate::errno::CLOSED),
        }
    }
    1
}

/// The time-out argument, if it is one of `count` arguments.
///
/// # Safety
/// Called from a raw function that holds nothing to drop.
#[inline]
unsafe fn timeout_argument(state: LuaState, index: c_int, count: c_int) -> Option<u64> {
    // SAFETY: promised by the caller.
    unsafe {
        (count >= index && ffi::lua_type(state, index) > ffi::LUA_TNIL)
            .then(|| check_span(state, index))
    }
}

/// Reads, or waits for what was not received.
///
/// # Safety
/// The last thing that a function made by `raw_function::table` does, with the delimiter on its
/// stack.
#[inline]
unsafe fn attempt(
    state: LuaState,
    handle: StreamHandle,
    want: ReadRequest<&[u8]>,
    timeout: Option<u64>,
) -> c_int {
    // SAFETY: promised by the caller; the bytes are copied by the push.
    unsafe {
        let vm: &Vm = raw_function::vm(state);
        match vm.streams.read(handle, &want) {
            Some(bytes) => {
                stack::push(state, &*bytes);
                1
            }
            None => wait(state, vm, handle, want, timeout),
        }
    }
}

/// Waits for what a read has not found, unless it never will.
///
/// # Safety
/// As [`attempt`].
#[inline(never)]
unsafe fn wait(
    state: LuaState,
    vm: &Vm,
    handle: StreamHandle,
    want: ReadRequest<&[u8]>,
    timeout: Option<u64>,
) -> c_int {
    // SAFETY: promised by the caller. The values of the wake are what the call returns.
    unsafe {
        match park(state, vm, handle, want, timeout) {
            LastStep::Return(values) => values,
            LastStep::Yield => ffi::lua_yieldk(state, 0, 0, None),
            LastStep::Raise(why) => stack::raise(state, why),
        }
    }
}

/// Parks the coroutine. Everything it was given is dropped when it returns.
///
/// # Safety
/// As [`attempt`].
unsafe fn park(
    state: LuaState,
    vm: &Vm,
    handle: StreamHandle,
    want: ReadRequest<&[u8]>,
    timeout: Option<u64>,
) -> LastStep {
    // SAFETY: promised by the caller; the bytes are copied by the push.
    unsafe {
        let mut why = vm.streams.why_not_read(handle, &want);
        if matches!(why, Unread::Busy) && vm.streams.forget_reader(vm, handle) {
            if let Some(bytes) = vm.streams.read(handle, &want) {
                stack::push(state, &*bytes);
                return LastStep::Return(1);
            }
            why = vm.streams.why_not_read(handle, &want);
        }
        match why {
            Unread::Failed(reason) => LastStep::Return(stack::refuse(state, &reason)),
            Unread::Busy => LastStep::Raise("another task reads from this connection"),
            Unread::Wait => match vm.waiter(state) {
                Some(task) => {
                    vm.streams.park(vm, handle, task, want.into_owned(), timeout);
                    LastStep::Yield
                }
                None => LastStep::Raise("only a task may wait for a connection"),
            },
        }
    }
}
