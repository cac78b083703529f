//! What a script holds of a call: request, response, their headers, the body.
//!
//! Each is a userdata of a number that says which, and the call's name. Promises that making one
//! costs one small allocation and that one whose call is over raises an error.

use std::ffi::{c_int, c_void};

use mlua::{AnyUserData, Lua, Result, ffi};

use super::call::{Call, CallId};
use crate::stack::{self, Named, State};
use crate::vm::Vm;

/// Which object; also the key of its metatable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Kind(u64);

pub(super) const REQUEST: Kind = Kind(u64::from_be_bytes(*b"tide-req"));
pub(super) const RESPONSE: Kind = Kind(u64::from_be_bytes(*b"tide-res"));
pub(super) const REQUEST_HEADERS: Kind = Kind(u64::from_be_bytes(*b"tide-rqh"));
pub(super) const RESPONSE_HEADERS: Kind = Kind(u64::from_be_bytes(*b"tide-rsh"));
pub(super) const BODY: Kind = Kind(u64::from_be_bytes(*b"tide-bod"));

#[repr(C)]
struct Object {
    kind: Kind,
    call: CallId,
}

/// Five addresses, the keys of the metatables.
static METAS: [u8; 5] = [0; 5];

fn key(kind: Kind) -> *const c_void {
    let kinds = [REQUEST, RESPONSE, REQUEST_HEADERS, RESPONSE_HEADERS, BODY];
    let place = kinds.iter().position(|known| *known == kind).unwrap_or(0);
    (&raw const METAS[place]).cast()
}

/// Pushes an object.
///
/// # Safety
/// `state` has two free slots, and the metatables were made.
pub(super) unsafe fn push(state: State, kind: Kind, call: CallId) {
    // SAFETY: the userdata has room for an `Object`, which needs no drop; one user value is the
    // table of what was worked out once.
    unsafe {
        let values = c_int::from(kind == REQUEST);
        let room = ffi::lua_newuserdatauv(state, size_of::<Object>(), values).cast::<Object>();
        room.write(Object { kind, call });
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, key(kind));
        ffi::lua_setmetatable(state, -2);
    }
}

/// The object at `index`.
///
/// # Safety
/// `state` is alive.
unsafe fn look(state: State, index: c_int) -> Option<(Kind, CallId)> {
    // SAFETY: only a full userdata has a length, and one of this length that begins with one of our
    // numbers was made by `push`: scripts cannot write into a userdata.
    unsafe {
        if ffi::lua_rawlen(state, index) != size_of::<Object>() {
            return None;
        }
        let object = ffi::lua_touserdata(state, index).cast::<Object>();
        (!object.is_null()).then(|| ((*object).kind, (*object).call))
    }
}

/// The first argument's call, of an object of one of two kinds; raises if it is something else, or
/// over.
///
/// # Safety
/// Called from a raw function that holds nothing to drop.
pub(super) unsafe fn call_of_either(state: State, kinds: [Kind; 2]) -> (Kind, CallId, *mut Call) {
    // SAFETY: promised by the caller.
    unsafe {
        let Some((kind, id)) = look(state, 1).filter(|(kind, _)| kinds.contains(kind)) else {
            let what = match kinds[0] {
                REQUEST => c"a request expected",
                RESPONSE => c"a response expected",
                BODY => c"a body expected: body:read()",
                _ => c"headers expected",
            };
            ffi::luaL_argerror(state, 1, what.as_ptr());
            unreachable!("luaL_argerror does not return")
        };
        match stack::vm(state).calls.find(id) {
            Some(call) => (kind, id, call),
            None => stack::raise(state, "this request is over"),
        }
    }
}

/// As [`call_of_either`], of one kind.
///
/// # Safety
/// As there.
pub(super) unsafe fn call_of(state: State, kind: Kind) -> (CallId, *mut Call) {
    // SAFETY: promised by the caller.
    let (_, id, call) = unsafe { call_of_either(state, [kind, kind]) };
    (id, call)
}

/// The call of an object in mlua's hands; `None` if it is another kind of object, or its call is
/// over.
pub(super) fn call_of_value(lua: &Lua, object: &AnyUserData, kind: Kind) -> Option<*mut Call> {
    let mut found = None;
    // SAFETY: the object comes and goes.
    let looked = unsafe {
        lua.exec_raw::<()>(object, |state| {
            found = look(state, -1);
            ffi::lua_settop(state, -2);
        })
    };
    let (_, id) = found.filter(|(known, _)| looked.is_ok() && *known == kind)?;
    Vm::of(lua).calls.find(id)
}

/// Makes the metatable of a kind: raw functions with the VM as their first upvalue.
pub(super) fn metatable(
    lua: &Lua,
    vm: &Vm,
    kind: Kind,
    name: &str,
    functions: &[Named],
) -> Result<()> {
    let table = stack::functions(lua, vm, functions)?;
    table.set("__name", name)?;
    table.set("__metatable", false)?;
    // SAFETY: the table goes into the registry.
    unsafe {
        lua.exec_raw::<()>(table, |state| {
            ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, key(kind));
        })
    }
}

/// Makes the metatable of a kind with methods: `__index` gets the table of methods as its second
/// upvalue.
pub(super) fn with_methods(
    lua: &Lua,
    vm: &Vm,
    kind: Kind,
    index: ffi::lua_CFunction,
    methods: &mlua::Table,
) -> Result<()> {
    let pointer: *const Vm = vm;
    // SAFETY: the metatable is found under its key and gets one closure more; the VM owns the
    // state.
    unsafe {
        lua.exec_raw::<()>(methods, |state| {
            ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, key(kind));
            ffi::lua_pushlightuserdata(state, pointer.cast_mut().cast());
            ffi::lua_pushvalue(state, 1);
            ffi::lua_pushcclosure(state, index, 2);
            ffi::lua_setfield(state, -2, c"__index".as_ptr());
        })
    }
}
