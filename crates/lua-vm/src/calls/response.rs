//! The response object.
//!
//! Promises that the status is valid, that `write` waits only where the response is streamed and
//! the client is slow, and that a write after `finish` is an error.

use std::ffi::c_int;
use std::rc::Rc;

use message::Headers;
use mlua::{Function, Lua, Result, ffi};
use wire::Known;

use super::call::Call;
use super::headers;
use super::object::{self, CallObject};
use super::object_kind::{RESPONSE, RESPONSE_HEADERS};
use super::response_stream::ResponseStream;
use crate::limits::RESPONSE_BYTES;
use crate::raw_function;
use crate::stack::{self, LuaState};
use crate::vm::Vm;

/// The content of a response is not part of the VM's memory.
const TOO_LONG: &str = "the response is longer than 64 MiB: stream it";

const METHODS: &[raw_function::NamedFunction] =
    &[(c"write", write), (c"finish", finish), (c"text", text)];

/// `encode` writes JSON; `pass` makes the response of a subrequest the response.
pub(super) fn open(lua: &Lua, vm: &Vm, encode: &Function, pass: &Function) -> Result<()> {
    object::metatable(lua, vm, RESPONSE, "response", &[(c"__newindex", set)])?;
    let raw = raw_function::table(lua, vm, METHODS)?;
    let methods = [
        raw.get("write")?,
        with_function(lua, vm, json, encode)?,
        raw.get("text")?,
        raw.get("finish")?,
        with_function(lua, vm, stream, pass)?,
    ];
    object::with_methods(lua, vm, RESPONSE, get, &methods)
}

/// A raw function whose second upvalue is another function.
fn with_function(
    lua: &Lua,
    vm: &Vm,
    raw: ffi::lua_CFunction,
    function: &Function,
) -> Result<Function> {
    let pointer: *const Vm = vm;
    // SAFETY: takes one function and leaves a closure over the VM and it.
    unsafe {
        lua.exec_raw(function, |state| {
            ffi::lua_pushlightuserdata(state, pointer.cast_mut().cast());
            ffi::lua_insert(state, 1);
            ffi::lua_pushcclosure(state, raw, 2);
        })
    }
}

/// `response[name]`: methods, `status`, `headers`.
unsafe extern "C-unwind" fn get(state: LuaState) -> c_int {
    // SAFETY: the upvalues are the methods in this order.
    unsafe {
        let CallObject { vm, id, call, .. } = object::call_of(state, RESPONSE);
        match stack::bytes(state, 2).unwrap_or_default() {
            b"headers" => object::push(state, vm, RESPONSE_HEADERS, id),
            b"status" => ffi::lua_pushinteger(state, i64::from((*call).response.status)),
            name => {
                let methods: &[&[u8]] = &[b"write", b"json", b"text", b"finish", b"stream"];
                if !object::push_method(state, methods, name) {
                    ffi::lua_pushnil(state);
                }
            }
        }
    }
    1
}

/// `response.status = …`, `response.headers = { … }`.
unsafe extern "C-unwind" fn set(state: LuaState) -> c_int {
    // SAFETY: the stack holds object, name and value.
    unsafe {
        let call = object::call_of(state, RESPONSE).call;
        match stack::bytes(state, 2).unwrap_or_default() {
            b"status" => set_status(state, call, 3),
            b"headers" => {
                ffi::luaL_checktype(state, 3, ffi::LUA_TTABLE);
                (*call).response.headers = Headers::new();
                (*call).own.clear_fields();
                (*call).answered = true;
                ffi::lua_pushnil(state);
                while ffi::lua_next(state, 3) != 0 {
                    let top = ffi::lua_gettop(state);
                    // The key itself must stay what it is for `lua_next`.
                    ffi::luaL_checktype(state, top - 1, ffi::LUA_TSTRING);
                    headers::put(state, call, RESPONSE_HEADERS, top - 1, top);
                    ffi::lua_settop(state, top - 1);
                }
            }
            _ => stack::raise(state, "of a response only status and headers can be set"),
        }
    }
    0
}

/// # Safety
/// Called from a raw function that holds nothing to drop.
unsafe fn set_status(state: LuaState, call: *mut Call, place: c_int) {
    // SAFETY: promised by the caller.
    unsafe {
        let status = ffi::luaL_checkinteger(state, place);
        if !(200..=599).contains(&status) {
            ffi::luaL_argerror(state, place, c"a status from 200 to 599 expected".as_ptr());
        }
        (*call).response.status = status as u16;
        (*call).response.reason = None;
        (*call).own.set_status();
        (*call).answered = true;
    }
}

/// The call of a response that is not finished.
///
/// # Safety
/// As [`set_status`].
unsafe fn unfinished_call(state: LuaState) -> *mut Call {
    // SAFETY: promised by the caller.
    unsafe {
        let call = object::call_of(state, RESPONSE).call;
        if (*call).finished {
            stack::raise(state, "the response is finished");
        }
        call
    }
}

/// `response:write(text)`: adds to the content; in a streamed response it waits for a slow client.
unsafe extern "C-unwind" fn write(state: LuaState) -> c_int {
    // SAFETY: the text lives in its slot; nothing here has to be dropped.
    unsafe {
        let call = unfinished_call(state);
        let text = stack::check_bytes(state, 2);
        ((*call).answered, (*call).replaced) = (true, true);
        let Some(outlet) = &(*call).outlet else {
            if (*call).text.len() + text.len() > RESPONSE_BYTES {
                stack::raise(state, TOO_LONG);
            }
            (*call).text.extend_from_slice(text);
            return 0;
        };
        let waiter = raw_function::vm(state).waiter(state);
        if outlet.is_full() && waiter.is_none() {
            stack::raise(state, "only a task may wait for the client");
        }
        if outlet.push(text)
            && let Some(task) = waiter
        {
            outlet.park(task);
            return ffi::lua_yieldk(state, 0, 0, Some(written));
        }
    }
    0
}

unsafe extern "C-unwind" fn written(_: LuaState, _: c_int, _: ffi::lua_KContext) -> c_int {
    0
}

/// `response:finish([text])`: completes the response; the handler may continue with other work.
unsafe extern "C-unwind" fn finish(state: LuaState) -> c_int {
    // SAFETY: as `write`.
    unsafe {
        let call = unfinished_call(state);
        if ffi::lua_type(state, 2) > ffi::LUA_TNIL {
            let text = stack::check_bytes(state, 2);
            (*call).replaced = true;
            match &(*call).outlet {
                None => (*call).text.extend_from_slice(text),
                Some(outlet) => {
                    outlet.push(text);
                }
            }
        }
        (*call).answered = true;
        (*call).finished = true;
        (*call).wake();
        if let Some(outlet) = &(*call).outlet {
            outlet.wake();
        }
    }
    0
}

/// `response:stream()`: sends status and headers now, and each `write` at once;
/// `response:stream(response)`: the response of a subrequest becomes the response.
unsafe extern "C-unwind" fn stream(state: LuaState) -> c_int {
    // SAFETY: nothing here has to be dropped; the second upvalue takes response and answer.
    unsafe {
        let call = unfinished_call(state);
        if ffi::lua_gettop(state) > 1 {
            let given = ffi::lua_gettop(state);
            ffi::lua_pushvalue(state, ffi::lua_upvalueindex(2));
            ffi::lua_insert(state, 1);
            ffi::lua_call(state, given, 0);
            return 0;
        }
        if (*call).outlet.is_none() {
            let outlet = Rc::new(ResponseStream::default());
            if !(*call).text.is_empty() {
                outlet.push(&(*call).text);
                (*call).text.clear();
            }
            (*call).outlet = Some(outlet);
            ((*call).answered, (*call).replaced) = (true, true);
            (*call).wake();
        }
        ffi::lua_settop(state, 1);
    }
    1
}

/// Sets the whole content and its type: the arguments are `[status,] content`.
///
/// # Safety
/// As [`set_status`]; `content` is the index of the text.
unsafe fn set_content(state: LuaState, call: *mut Call, content: c_int, content_type: &str) {
    // SAFETY: promised by the caller.
    unsafe {
        let text = stack::check_bytes(state, content);
        if (*call).outlet.is_some() {
            stack::raise(state, "the response is being streamed");
        }
        (*call).text.clear();
        (*call).text.extend_from_slice(text);
        if !(*call).own.has_content_type() {
            (*call).response.headers.set(Known::ContentType, content_type);
        }
        ((*call).answered, (*call).replaced) = (true, true);
        (*call).finished = true;
        (*call).wake();
    }
}

/// Removes the optional status: the content is the second value after it.
///
/// # Safety
/// As [`set_status`].
unsafe fn take_status(state: LuaState, call: *mut Call) {
    // SAFETY: promised by the caller.
    unsafe {
        if ffi::lua_gettop(state) > 2 {
            set_status(state, call, 2);
            ffi::lua_remove(state, 2);
        }
        ffi::lua_settop(state, 2);
    }
}

/// `response:text([status,] text)`
unsafe extern "C-unwind" fn text(state: LuaState) -> c_int {
    // SAFETY: nothing here has to be dropped.
    unsafe {
        let call = unfinished_call(state);
        take_status(state, call);
        set_content(state, call, 2, "text/plain; charset=utf-8");
    }
    0
}

/// `response:json([status,] value)`
unsafe extern "C-unwind" fn json(state: LuaState) -> c_int {
    // SAFETY: the second upvalue is the encoder; the call is there as long as its coroutine runs.
    unsafe {
        let call = unfinished_call(state);
        take_status(state, call);
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(2));
        ffi::lua_insert(state, 2);
        ffi::lua_call(state, 1, 2);
        if ffi::lua_type(state, 2) != ffi::LUA_TSTRING {
            let why = stack::bytes(state, 3).unwrap_or(b"the value cannot be encoded as JSON");
            ffi::luaL_where(state, 1);
            stack::push(state, why);
            ffi::lua_concat(state, 2);
            ffi::lua_error(state);
        }
        set_content(state, call, 2, "application/json");
    }
    0
}
