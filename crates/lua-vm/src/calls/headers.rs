//! `request.headers` and `response.headers`: a view, not a copy.
//!
//! Promises that names are case-insensitive, that a repeated field is an array, and that fields set
//! by a script are valid on the wire.

use std::ffi::c_int;

use message::{Headers, Name};
use mlua::{Lua, Result, ffi};

use super::call::Call;
use super::object::{self, CallObject};
use super::object_kind::{ObjectKind, REQUEST_HEADERS, RESPONSE_HEADERS};
use crate::raw_function;
use crate::stack::{self, LuaState};
use crate::vm::Vm;

const EITHER: [ObjectKind; 2] = [REQUEST_HEADERS, RESPONSE_HEADERS];

pub(super) fn open(lua: &Lua, vm: &Vm) -> Result<()> {
    let functions: &[raw_function::NamedFunction] =
        &[(c"__index", get), (c"__newindex", set), (c"__pairs", pairs)];
    object::metatable(lua, vm, REQUEST_HEADERS, "headers", functions)?;
    object::metatable(lua, vm, RESPONSE_HEADERS, "headers", functions)
}

fn of(call: &mut Call, kind: ObjectKind) -> &mut Headers {
    if kind == RESPONSE_HEADERS {
        call.answered = true;
        return &mut call.response.headers;
    }
    // SAFETY: a call that is found has its request.
    unsafe { &mut (*call.request).headers }
}

/// The number of fields of a name, and the first value.
fn first(headers: &Headers, name: &[u8]) -> (usize, Option<*const [u8]>) {
    let mut values = headers.get_all(Name::from(name));
    let first = values.next().map(std::ptr::from_ref);
    (usize::from(first.is_some()) + values.count(), first)
}

/// `headers[name]`: a string, an array of strings, or nil.
unsafe extern "C-unwind" fn get(state: LuaState) -> c_int {
    // SAFETY: values are copied by the push before anything else can happen; of a repeated field
    // each value is looked up again.
    unsafe {
        let CallObject { kind, call, .. } = object::call_of_either(state, EITHER);
        let Some(name) = stack::bytes(state, 2) else {
            ffi::lua_pushnil(state);
            return 1;
        };
        let (count, value) = first(read(&*call, kind), name);
        match value {
            None => ffi::lua_pushnil(state),
            Some(value) if count == 1 => stack::push(state, &*value),
            Some(_) => push_all(state, call, kind, name, count),
        }
    }
    1
}

fn read(call: &Call, kind: ObjectKind) -> &Headers {
    if kind == RESPONSE_HEADERS {
        return &call.response.headers;
    }
    // SAFETY: as in `of`.
    unsafe { &(*call.request).headers }
}

/// # Safety
/// As [`get`].
unsafe fn push_all(state: LuaState, call: *mut Call, kind: ObjectKind, name: &[u8], count: usize) {
    // SAFETY: promised by the caller.
    unsafe {
        ffi::lua_createtable(state, count as c_int, 0);
        for place in 0..count {
            let value = read(&*call, kind).get_all(Name::from(name)).nth(place);
            let Some(value) = value.map(std::ptr::from_ref) else { return };
            stack::push(state, &*value);
            ffi::lua_rawseti(state, -2, place as i64 + 1);
        }
    }
}

/// `headers[name] = value`: a string or number, an array of them, or nil to remove it.
unsafe extern "C-unwind" fn set(state: LuaState) -> c_int {
    // SAFETY: the stack holds object, name and value.
    unsafe {
        let CallObject { kind, call, .. } = object::call_of_either(state, EITHER);
        put(state, call, kind, 2, 3);
    }
    0
}

/// Sets the field whose name is at one stack index to the value at another.
///
/// # Safety
/// Called from a raw function that holds nothing to drop; `name` and `value` are absolute indexes.
pub(super) unsafe fn put(
    state: LuaState,
    call: *mut Call,
    kind: ObjectKind,
    name: c_int,
    value: c_int,
) {
    // SAFETY: what may raise comes before anything is changed; strings live in their slots.
    unsafe {
        let text = stack::check_bytes(state, name);
        let field = Name::from(text);
        if matches!(field, Name::Other(_)) && !wire::token::is_token(text) {
            stack::raise(state, "bad header name");
        }
        let kind_of_value = ffi::lua_type(state, value);
        if kind == RESPONSE_HEADERS {
            (*call).own.set_field(field, kind_of_value != ffi::LUA_TNIL);
        }
        match kind_of_value {
            ffi::LUA_TNIL => {
                of(&mut *call, kind).remove(field);
            }
            ffi::LUA_TTABLE => {
                of(&mut *call, kind).remove(field);
                for place in 1..=ffi::lua_rawlen(state, value) as i64 {
                    ffi::lua_rawgeti(state, value, place);
                    match stack::bytes(state, -1) {
                        Some(bytes) => of(&mut *call, kind).append(field, bytes),
                        None => stack::raise(state, "the values of a header are strings"),
                    }
                    ffi::lua_settop(state, -2);
                }
            }
            _ => match stack::bytes(state, value) {
                Some(bytes) => of(&mut *call, kind).set(field, bytes),
                None => stack::raise(state, "the value of a header is a string or an array"),
            },
        }
    }
}

/// `pairs(headers)`: names in lower case, each once, over a copy.
unsafe extern "C-unwind" fn pairs(state: LuaState) -> c_int {
    // SAFETY: each name is copied by its push; a name that a finalizer adds is listed or not.
    unsafe {
        let CallObject { kind, call, .. } = object::call_of_either(state, EITHER);
        ffi::lua_getglobal(state, c"next".as_ptr());
        ffi::lua_createtable(state, 0, 8);
        let mut place = 0;
        while let Some(field) = read(&*call, kind).iter().nth(place) {
            let name: *const [u8] = std::ptr::from_ref(field.name);
            push_lower(state, &*name);
            let (count, value) = first(read(&*call, kind), &*name);
            match value {
                Some(value) if count == 1 => stack::push(state, &*value),
                _ => push_all(state, call, kind, &*name, count),
            }
            ffi::lua_rawset(state, -3);
            place += 1;
        }
        ffi::lua_pushnil(state);
    }
    3
}

/// # Safety
/// `state` has a free slot and is inside a raw function.
unsafe fn push_lower(state: LuaState, name: &[u8]) {
    const SHORT: usize = 64;
    let mut lower = [0; SHORT];
    match lower.get_mut(..name.len()) {
        Some(lower) => {
            lower.copy_from_slice(name);
            lower.make_ascii_lowercase();
            // SAFETY: promised by the caller.
            unsafe { stack::push(state, lower) };
        }
        // SAFETY: as above.
        None => unsafe { stack::push(state, name) },
    }
}
