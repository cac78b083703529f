//! The objects of a call: request, response, their headers, the body.
//!
//! Each is a userdata of its kind, its VM, and the id of the call. Promises that making one costs
//! one small allocation and that an object of an ended call raises an error.

use std::ffi::c_int;

use message::{Request, Response};
use mlua::{AnyUserData, Error, Function, Lua, Result, ffi};
use wire::Known;

use super::call::Call;
use super::object_kind::{BODY, ObjectKind, REQUEST, RESPONSE};
use crate::ids::CallId;
use crate::raw_function::{self, NamedFunction};
use crate::stack::{self, LuaState};
use crate::vm::Vm;

#[repr(C)]
struct ObjectHeader {
    kind: ObjectKind,
    vm: *const Vm,
    call: CallId,
}

/// Pushes an object.
///
/// # Safety
/// `state` is of the VM and has two free slots, and the metatables were made.
pub(super) unsafe fn push(state: LuaState, vm: &Vm, kind: ObjectKind, call: CallId) {
    // SAFETY: the userdata has room for an `Object`, which needs no drop; its user value is the
    // table of cached results.
    unsafe {
        let values = c_int::from(kind == REQUEST);
        let room =
            ffi::lua_newuserdatauv(state, size_of::<ObjectHeader>(), values).cast::<ObjectHeader>();
        room.write(ObjectHeader { kind, vm, call });
        let metatable = vm.calls.metatables.of(kind).get();
        ffi::lua_rawgeti(state, ffi::LUA_REGISTRYINDEX, i64::from(metatable));
        ffi::lua_setmetatable(state, -2);
    }
}

/// The object at `index`.
///
/// # Safety
/// `state` is alive.
unsafe fn object_header<'a>(state: LuaState, index: c_int) -> Option<&'a ObjectHeader> {
    // SAFETY: only a full userdata has a length, and one of this length that begins with one of our
    // numbers was made by `push`: scripts cannot write into a userdata. It lives as long as its
    // slot holds it.
    unsafe {
        if ffi::lua_rawlen(state, index) != size_of::<ObjectHeader>() {
            return None;
        }
        ffi::lua_touserdata(state, index).cast::<ObjectHeader>().as_ref()
    }
}

/// The call of an object, and the VM of the raw function.
pub(super) struct CallObject<'a> {
    pub(super) vm: &'a Vm,
    pub(super) kind: ObjectKind,
    pub(super) id: CallId,
    pub(super) call: *mut Call,
}

/// The call of the first argument, an object of one of two kinds; raises if it is another value or
/// the call has ended.
///
/// # Safety
/// Called from a raw function that holds nothing to drop.
#[inline]
pub(super) unsafe fn call_of_either<'a>(state: LuaState, kinds: [ObjectKind; 2]) -> CallObject<'a> {
    // SAFETY: promised by the caller; the VM of an object owns the state that has the object.
    unsafe {
        let object = object_header(state, 1).filter(|object| kinds.contains(&object.kind));
        if let Some(object) = object
            && let Some(call) = (*object.vm).calls.find(object.call)
        {
            return CallObject { vm: &*object.vm, kind: object.kind, id: object.call, call };
        }
        refuse(state, kinds[0], object.is_some())
    }
}

/// # Safety
/// As [`call_of_either`].
#[cold]
unsafe fn refuse(state: LuaState, kind: ObjectKind, is_over: bool) -> ! {
    // SAFETY: promised by the caller.
    unsafe {
        if is_over {
            stack::raise(state, "this request is over")
        }
        let what = match kind {
            REQUEST => c"a request expected",
            RESPONSE => c"a response expected",
            BODY => c"a body expected: body:read()",
            _ => c"headers expected",
        };
        ffi::luaL_argerror(state, 1, what.as_ptr());
        unreachable!("luaL_argerror does not return")
    }
}

/// As [`call_of_either`], of one kind.
///
/// # Safety
/// As there.
#[inline]
pub(super) unsafe fn call_of<'a>(state: LuaState, kind: ObjectKind) -> CallObject<'a> {
    // SAFETY: promised by the caller.
    unsafe { call_of_either(state, [kind, kind]) }
}

/// The call of an object; `None` if it is of another kind or its call has ended.
fn call_of_value(lua: &Lua, object: &AnyUserData, kind: ObjectKind) -> Option<*mut Call> {
    let mut found = None;
    // SAFETY: the object is pushed and popped.
    let looked = unsafe {
        lua.exec_raw::<()>(object, |state| {
            found = object_header(state, -1).map(|object| (object.kind, object.call));
            ffi::lua_settop(state, -2);
        })
    };
    let (_, id) = found.filter(|(known, _)| looked.is_ok() && *known == kind)?;
    Vm::of(lua).ok()?.calls.find(id)
}

/// Calls `look` with the request of `object`; `None` if it is another value, or the call has ended.
/// `look` must not run Lua.
pub fn with_request<R>(
    lua: &Lua,
    object: &AnyUserData,
    look: impl FnOnce(&Request) -> R,
) -> Option<R> {
    let call = call_of_value(lua, object, REQUEST)?;
    // SAFETY: a call that is found has its request, and no Lua runs while it is looked at.
    Some(look(unsafe { &*(*call).request }))
}

/// Replaces the response of `object` with the result of `make`. Fields that the script has set
/// stay. `make` must not run Lua.
pub fn set_response(
    lua: &Lua,
    object: &AnyUserData,
    make: impl FnOnce() -> std::result::Result<Response, String>,
) -> Result<()> {
    let call = call_of_value(lua, object, RESPONSE);
    let call = call.ok_or_else(|| Error::runtime("this request is over"))?;
    // SAFETY: the call is there while its coroutine runs; nothing below runs Lua.
    let call = unsafe { &mut *call };
    if call.outlet.is_some() {
        return Err(Error::runtime("the response is being streamed"));
    }
    let mut response = make().map_err(Error::runtime)?;
    call.remove_description();
    if !call.own.has_content_type() {
        call.response.headers.remove(Known::ContentType);
    }
    for field in call.response.headers.iter() {
        response.headers.remove(field.name);
    }
    for field in call.response.headers.iter() {
        response.headers.append(field.name, field.value);
    }
    call.response = response;
    call.text.clear();
    call.replaced = false;
    call.answered = true;
    call.finished = true;
    call.wake();
    Ok(())
}

/// Makes the metatable of a kind: raw functions with the VM as their first upvalue.
pub(super) fn metatable(
    lua: &Lua,
    vm: &Vm,
    kind: ObjectKind,
    name: &str,
    functions: &[NamedFunction],
) -> Result<()> {
    let table = raw_function::table(lua, vm, functions)?;
    table.set("__name", name)?;
    table.set("__metatable", false)?;
    let mut place = 0;
    // SAFETY: the table goes into the registry.
    unsafe {
        lua.exec_raw::<()>(table, |state| {
            place = ffi::luaL_ref(state, ffi::LUA_REGISTRYINDEX);
        })?;
    }
    vm.calls.metatables.of(kind).set(place);
    Ok(())
}

/// Gives a kind its `__index`, which has the functions of `methods` as upvalues after the VM: see
/// [`push_method`].
pub(super) fn with_methods(
    lua: &Lua,
    vm: &Vm,
    kind: ObjectKind,
    index: ffi::lua_CFunction,
    methods: &[Function],
) -> Result<()> {
    let pointer: *const Vm = vm;
    let count = methods.len() as c_int;
    let place = vm.calls.metatables.of(kind).get();
    // SAFETY: the metatable gets one closure, over as many functions as were pushed; the VM owns
    // the state.
    unsafe {
        lua.exec_raw::<()>(mlua::Variadic::from_iter(methods.iter().cloned()), |state| {
            ffi::lua_pushlightuserdata(state, pointer.cast_mut().cast());
            ffi::lua_insert(state, 1);
            ffi::lua_pushcclosure(state, index, count + 1);
            ffi::lua_rawgeti(state, ffi::LUA_REGISTRYINDEX, i64::from(place));
            ffi::lua_insert(state, 1);
            ffi::lua_setfield(state, 1, c"__index".as_ptr());
            ffi::lua_settop(state, 0);
        })
    }
}

/// In an `__index` made by [`with_methods`]: pushes the method called `name`; false if there is
/// none. `names` has the order of the methods.
///
/// # Safety
/// `state` runs such a function and has a free slot.
pub(super) unsafe fn push_method(state: LuaState, names: &[&[u8]], name: &[u8]) -> bool {
    let Some(at) = names.iter().position(|known| *known == name) else { return false };
    // SAFETY: promised by the caller.
    unsafe { ffi::lua_pushvalue(state, ffi::lua_upvalueindex(at as c_int + 2)) };
    true
}
