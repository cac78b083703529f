//! Raw functions with their VM as first upvalue.

use std::ffi::{CStr, c_int};

use mlua::ffi;
use mlua::{Lua, Result, Table};

use crate::stack::LuaState;
use crate::vm::Vm;

/// A raw function with its name.
pub(crate) type NamedFunction = (&'static CStr, ffi::lua_CFunction);

/// A table of raw functions, each with the VM as its first upvalue (see [`vm`]).
pub(crate) fn table(lua: &Lua, vm: &Vm, named: &[NamedFunction]) -> Result<Table> {
    let pointer: *const Vm = vm;
    // SAFETY: each step leaves one table on the stack; the closures reach the VM, which owns the
    // state they live in.
    unsafe {
        lua.exec_raw((), |state| {
            ffi::lua_createtable(state, 0, named.len() as c_int);
            for (name, function) in named {
                ffi::lua_pushlightuserdata(state, pointer.cast_mut().cast());
                ffi::lua_pushcclosure(state, *function, 1);
                ffi::lua_setfield(state, -2, name.as_ptr());
            }
        })
    }
}

/// The VM of a raw function made by [`table`].
///
/// # Safety
/// `state` runs such a function.
pub(crate) unsafe fn vm<'a>(state: LuaState) -> &'a Vm {
    // SAFETY: the upvalue was set by `table`, and the VM outlives its state.
    unsafe { &*ffi::lua_touserdata(state, ffi::lua_upvalueindex(1)).cast::<Vm>() }
}
