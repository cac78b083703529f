//! The body object: `body:read()` and `body:json()`.
//!
//! Promises that the read is limited, that the body is read once however often the script requests
//! it, and that later filters and the handler get it too.

use std::ffi::c_int;

use bytes::Bytes;
use message::{Body, Fault};
use mlua::{Function, Lua, Result, ffi};

use super::body_read::BodyRead;
use super::call::Call;
use super::object;
use super::object_kind::BODY;
use crate::ids::TaskId;
use crate::limits::BODY_BYTES;
use crate::raw_function;
use crate::stack::{self, LuaState};
use crate::vm::Vm;

pub(super) fn open(lua: &Lua, vm: &Vm, decode: &Function) -> Result<()> {
    object::metatable(lua, vm, BODY, "body", &[])?;
    let raw = raw_function::table(lua, vm, &[(c"read", read)])?;
    let pointer: *const Vm = vm;
    // SAFETY: takes one function and leaves a closure over the VM and it.
    let json: Function = unsafe {
        lua.exec_raw(decode, |state| {
            ffi::lua_pushlightuserdata(state, pointer.cast_mut().cast());
            ffi::lua_insert(state, 1);
            ffi::lua_pushcclosure(state, json, 2);
        })?
    };
    object::with_methods(lua, vm, BODY, method, &[raw.get("read")?, json])
}

unsafe extern "C-unwind" fn method(state: LuaState) -> c_int {
    // SAFETY: the upvalues are the methods in this order.
    unsafe {
        let name = stack::bytes(state, 2).unwrap_or_default();
        if !object::push_method(state, &[b"read", b"json"], name) {
            ffi::lua_pushnil(state);
        }
    }
    1
}

/// `body:read([limit]) → string` or `nil, reason`: all of it.
unsafe extern "C-unwind" fn read(state: LuaState) -> c_int {
    // SAFETY: nothing here has to be dropped when a call does not return.
    unsafe { begin(state, finish_read) }
}

/// `body:json([limit]) → value` or `nil, reason`.
unsafe extern "C-unwind" fn json(state: LuaState) -> c_int {
    // SAFETY: as above.
    unsafe { begin(state, finish_json) }
}

/// Reads the body, waiting if needed, and continues with `finish`.
///
/// # Safety
/// Called from a raw function that holds nothing to drop.
unsafe fn begin(state: LuaState, finish: ffi::lua_KFunction) -> c_int {
    // SAFETY: promised by the caller; the call is looked at only between calls of Lua.
    unsafe {
        let call = object::call_of(state, BODY).call;
        let limit = ffi::luaL_optinteger(state, 2, BODY_BYTES as i64);
        ffi::lua_settop(state, 1);
        let task = raw_function::vm(state).waiter(state);
        match start(&mut *call, u64::try_from(limit).unwrap_or(BODY_BYTES), task) {
            Start::There => finish(state, ffi::LUA_OK, 0),
            Start::Waits => ffi::lua_yieldk(state, 0, 0, Some(finish)),
            Start::Cannot(why) => stack::raise(state, why),
        }
    }
}

enum Start {
    There,
    Waits,
    Cannot(&'static str),
}

fn start(call: &mut Call, limit: u64, task: Option<TaskId>) -> Start {
    if call.body.is_some() || call.fault.is_some() {
        return Start::There;
    }
    // SAFETY: a call has a request as long as its coroutine runs.
    let request = unsafe { &mut *call.request };
    let there = match &request.body {
        Body::Empty => Some(Bytes::new()),
        Body::Bytes(bytes) => Some(bytes.clone()),
        Body::Kept(bytes) => Some(Bytes::copy_from_slice(bytes)),
        Body::File(_) | Body::Stream(_) => None,
    };
    if call.reading.is_some() {
        return Start::Cannot("another task reads this body");
    }
    if let Some(bytes) = there {
        if bytes.len() as u64 > limit {
            call.fault = Some(Fault::body_too_large());
        } else {
            call.body = Some(bytes);
        }
        return Start::There;
    }
    // The task that would read the body is done with this request.
    if call.finished {
        return Start::Cannot("the response is finished: its request's body cannot be read");
    }
    let Some(task) = task else { return Start::Cannot("only a task may wait for a body") };
    let body = std::mem::take(&mut request.body);
    call.reading = Some(BodyRead::new(body, limit, task));
    call.wake();
    if let Some(outlet) = &call.outlet {
        outlet.wake();
    }
    Start::Waits
}

/// Pushes the body, or `nil, reason`; true if it is the body.
///
/// # Safety
/// Called from a raw function with the body object as its first value.
unsafe fn push(state: LuaState) -> bool {
    // SAFETY: the bytes are the call's, which nothing changes before they are copied.
    unsafe {
        let call = object::call_of(state, BODY).call;
        let read: Option<*const [u8]> = (*call).body.as_ref().map(|bytes| &raw const **bytes);
        match read {
            Some(bytes) => {
                stack::push(state, &*bytes);
                true
            }
            None => {
                let too_large = (*call).fault.as_ref().is_some_and(|fault| fault.status == 413);
                stack::refuse(state, if too_large { "body too large" } else { "body broke off" });
                false
            }
        }
    }
}

unsafe extern "C-unwind" fn finish_read(state: LuaState, _: c_int, _: ffi::lua_KContext) -> c_int {
    // SAFETY: called with the body object as the first value.
    if unsafe { push(state) } { 1 } else { 2 }
}

unsafe extern "C-unwind" fn finish_json(state: LuaState, _: c_int, _: ffi::lua_KContext) -> c_int {
    // SAFETY: as above; the second upvalue is the decoder.
    unsafe {
        ffi::lua_settop(state, 1);
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(2));
        if !push(state) {
            return 2;
        }
        ffi::lua_call(state, 1, ffi::LUA_MULTRET);
        ffi::lua_gettop(state) - 1
    }
}
