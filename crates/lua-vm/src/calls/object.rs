//! What a script holds of a call: request, response, their headers, the body.
//!
//! Each is a userdata of a number that says which, its VM, and the call's name. Promises that
//! making one costs one small allocation and that one whose call is over raises an error.

use std::cell::Cell;
use std::ffi::c_int;

use exchange::{Request, Response};
use mlua::{AnyUserData, Error, Function, Lua, Result, ffi};

use super::call::{Call, CallId};
use crate::stack::{self, Named, State};
use crate::vm::Vm;

/// Which object: a number that nobody else's userdata begins with, and in its last digit the place
/// of its metatable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(super) struct Kind(u64);

pub(super) const REQUEST: Kind = Kind(u64::from_be_bytes(*b"tide-rq0"));
pub(super) const RESPONSE: Kind = Kind(u64::from_be_bytes(*b"tide-rs1"));
pub(super) const REQUEST_HEADERS: Kind = Kind(u64::from_be_bytes(*b"tide-hd2"));
pub(super) const RESPONSE_HEADERS: Kind = Kind(u64::from_be_bytes(*b"tide-hd3"));
pub(super) const BODY: Kind = Kind(u64::from_be_bytes(*b"tide-bd4"));

const KINDS: usize = 5;

/// Where the registry of a VM has the metatables.
#[derive(Default)]
pub(super) struct Metatables([Cell<c_int>; KINDS]);

impl Metatables {
    #[inline]
    fn of(&self, kind: Kind) -> &Cell<c_int> {
        &self.0[(kind.0 & 0xF) as usize % KINDS]
    }
}

#[repr(C)]
struct Object {
    kind: Kind,
    vm: *const Vm,
    call: CallId,
}

/// Pushes an object.
///
/// # Safety
/// `state` is of the VM and has two free slots, and the metatables were made.
pub(super) unsafe fn push(state: State, vm: &Vm, kind: Kind, call: CallId) {
    // SAFETY: the userdata has room for an `Object`, which needs no drop; one user value is the
    // table of what was worked out once.
    unsafe {
        let values = c_int::from(kind == REQUEST);
        let room = ffi::lua_newuserdatauv(state, size_of::<Object>(), values).cast::<Object>();
        room.write(Object { kind, vm, call });
        let metatable = vm.calls.metatables.of(kind).get();
        ffi::lua_rawgeti(state, ffi::LUA_REGISTRYINDEX, i64::from(metatable));
        ffi::lua_setmetatable(state, -2);
    }
}

/// The object at `index`.
///
/// # Safety
/// `state` is alive.
unsafe fn look<'a>(state: State, index: c_int) -> Option<&'a Object> {
    // SAFETY: only a full userdata has a length, and one of this length that begins with one of our
    // numbers was made by `push`: scripts cannot write into a userdata. It lives as long as its
    // slot holds it.
    unsafe {
        if ffi::lua_rawlen(state, index) != size_of::<Object>() {
            return None;
        }
        ffi::lua_touserdata(state, index).cast::<Object>().as_ref()
    }
}

/// A call as an object names it. The reference to its VM is the raw function's.
pub(super) struct Found<'a> {
    pub(super) vm: &'a Vm,
    pub(super) kind: Kind,
    pub(super) id: CallId,
    pub(super) call: *mut Call,
}

/// The first argument's call, of an object of one of two kinds; raises if it is something else, or
/// over.
///
/// # Safety
/// Called from a raw function that holds nothing to drop.
#[inline]
pub(super) unsafe fn call_of_either<'a>(state: State, kinds: [Kind; 2]) -> Found<'a> {
    // SAFETY: promised by the caller; the VM of an object owns the state that has the object.
    unsafe {
        let object = look(state, 1).filter(|object| kinds.contains(&object.kind));
        if let Some(object) = object
            && let Some(call) = (*object.vm).calls.find(object.call)
        {
            return Found { vm: &*object.vm, kind: object.kind, id: object.call, call };
        }
        refuse(state, kinds[0], object.is_some())
    }
}

/// # Safety
/// As [`call_of_either`].
#[cold]
unsafe fn refuse(state: State, kind: Kind, is_over: bool) -> ! {
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
pub(super) unsafe fn call_of<'a>(state: State, kind: Kind) -> Found<'a> {
    // SAFETY: promised by the caller.
    unsafe { call_of_either(state, [kind, kind]) }
}

/// The call of an object in mlua's hands; `None` if it is another kind of object, or its call is
/// over.
fn call_of_value(lua: &Lua, object: &AnyUserData, kind: Kind) -> Option<*mut Call> {
    let mut found = None;
    // SAFETY: the object comes and goes.
    let looked = unsafe {
        lua.exec_raw::<()>(object, |state| {
            found = look(state, -1).map(|object| (object.kind, object.call));
            ffi::lua_settop(state, -2);
        })
    };
    let (_, id) = found.filter(|(known, _)| looked.is_ok() && *known == kind)?;
    Vm::of(lua).ok()?.calls.find(id)
}

/// Looks at the request that `object` stands for; `None` if it is something else, or over. `look`
/// must not run Lua.
pub fn with_request<R>(
    lua: &Lua,
    object: &AnyUserData,
    look: impl FnOnce(&Request) -> R,
) -> Option<R> {
    let call = call_of_value(lua, object, REQUEST)?;
    // SAFETY: a call that is found has its request, and no Lua runs while it is looked at.
    Some(look(unsafe { &*(*call).request }))
}

/// Makes the result of `make` the response that `object` stands for. Fields that the script has set
/// before stay. `make` must not run Lua.
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
    for field in call.response.headers.iter() {
        response.headers.remove(field.name);
    }
    for field in call.response.headers.iter() {
        response.headers.append(field.name, field.value);
    }
    call.response = response;
    call.text.clear();
    call.answered = true;
    call.finished = true;
    call.wake();
    Ok(())
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
    kind: Kind,
    index: ffi::lua_CFunction,
    methods: &[Function],
) -> Result<()> {
    let pointer: *const Vm = vm;
    let count = methods.len() as c_int;
    let place = vm.calls.metatables.of(kind).get();
    // SAFETY: the metatable is found at its place and gets one closure more, over as many functions
    // as came; the VM owns the state.
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

/// In an `__index` that was given methods, in the order of `names`: pushes the one of this name, or
/// nothing and says so.
///
/// # Safety
/// `state` runs such a function and has a free slot.
pub(super) unsafe fn push_method(state: State, names: &[&[u8]], name: &[u8]) -> bool {
    let Some(at) = names.iter().position(|known| *known == name) else { return false };
    // SAFETY: promised by the caller.
    unsafe { ffi::lua_pushvalue(state, ffi::lua_upvalueindex(at as c_int + 2)) };
    true
}
