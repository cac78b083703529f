//! `pcall` and `xpcall` of a state.
//!
//! They differ from Lua's own in two ways: an error of one of our modules arrives as a string, as
//! it does in Silly (mlua would pass an object), and nothing can be caught after `silly.exit`.

use std::ffi::c_int;

use mlua::{Function, Result, ffi};

use crate::errors::{self, make_plain};
use crate::raw_function;
use crate::stack::LuaState;
use crate::vm::Vm;

/// Replaces `pcall` and `xpcall`.
pub(crate) fn install(vm: &Vm) -> Result<()> {
    let lua = vm.lua();
    errors::install(lua)?;
    let calls = raw_function::table(lua, vm, &[(c"pcall", pcall), (c"xpcall", xpcall)])?;
    for name in ["pcall", "xpcall"] {
        lua.globals().set(name, calls.get::<Function>(name)?)?;
    }
    Ok(())
}

/// `pcall(f, …)`.
unsafe extern "C-unwind" fn pcall(state: LuaState) -> c_int {
    // SAFETY: as in Lua's own: `true` goes below the function, and the continuation sees what a
    // direct return sees.
    unsafe {
        ffi::luaL_checkany(state, 1);
        ffi::lua_pushboolean(state, 1);
        ffi::lua_insert(state, 1);
        let count = ffi::lua_gettop(state) - 2;
        let status = ffi::lua_pcallk(state, count, ffi::LUA_MULTRET, 0, 0, Some(finish));
        finish(state, status, 0)
    }
}

/// `xpcall(f, handler, …)`.
unsafe extern "C-unwind" fn xpcall(state: LuaState) -> c_int {
    // SAFETY: as in Lua's own. The stack becomes: f, handler wrapped, true, f, arguments.
    unsafe {
        ffi::luaL_checktype(state, 2, ffi::LUA_TFUNCTION);
        let count = ffi::lua_gettop(state) - 2;
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(1));
        ffi::lua_pushvalue(state, 2);
        ffi::lua_pushcclosure(state, handle, 2);
        ffi::lua_replace(state, 2);
        ffi::lua_pushboolean(state, 1);
        ffi::lua_pushvalue(state, 1);
        ffi::lua_rotate(state, 3, 2);
        let status = ffi::lua_pcallk(state, count, ffi::LUA_MULTRET, 2, 2, Some(finish));
        finish(state, status, 2)
    }
}

/// The message handler of `xpcall`: the script's, given plain text.
unsafe extern "C-unwind" fn handle(state: LuaState) -> c_int {
    // SAFETY: one argument, one result; the upvalues are the VM and the script's handler.
    unsafe {
        ffi::lua_settop(state, 1);
        let vm = raw_function::vm(state);
        // Lua calls no hook while it handles an error of one: nothing would count the handler.
        if vm.exit_code().is_some() || vm.guard.is_exhausted() {
            return 1;
        }
        make_plain(state);
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(2));
        ffi::lua_insert(state, 1);
        ffi::lua_call(state, 1, 1);
    }
    1
}

unsafe extern "C-unwind" fn finish(
    state: LuaState,
    status: c_int,
    skipped: ffi::lua_KContext,
) -> c_int {
    // SAFETY: the VM is the first upvalue of `pcall` and `xpcall`; below the results lie `skipped`
    // values, then `true`.
    unsafe {
        if status == ffi::LUA_OK || status == ffi::LUA_YIELD {
            return ffi::lua_gettop(state) - skipped as c_int;
        }
        if raw_function::vm(state).exit_code().is_some() {
            ffi::lua_error(state);
        }
        make_plain(state);
        ffi::lua_pushboolean(state, 0);
        ffi::lua_insert(state, -2);
    }
    2
}
