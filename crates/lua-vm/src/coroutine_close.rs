//! `coroutine.close` of a state.
//!
//! It differs from Lua's own in two ways: a coroutine of the scheduler that waits is removed from
//! it, and what runs while a coroutine is closed is counted where instructions are.

use std::ffi::c_int;

use mlua::{Function, Result, Table, ffi};

use crate::guard;
use crate::raw_function;
use crate::stack::LuaState;
use crate::vm::Vm;

/// Replaces `coroutine.close`.
pub(crate) fn install(vm: &Vm) -> Result<()> {
    let coroutines: Table = vm.lua().globals().get("coroutine")?;
    let original: Function = coroutines.get("close")?;
    let pointer: *const Vm = vm;
    // SAFETY: takes one function and leaves a closure over it and the VM, which owns the state.
    let own: Function = unsafe {
        vm.lua().exec_raw(original, |state| {
            ffi::lua_pushlightuserdata(state, pointer.cast_mut().cast());
            ffi::lua_insert(state, 1);
            ffi::lua_pushcclosure(state, close, 2);
        })?
    };
    coroutines.set("close", own)
}

/// `coroutine.close([thread])`.
unsafe extern "C-unwind" fn close(state: LuaState) -> c_int {
    // SAFETY: the upvalues are the VM and Lua's own function. A thread that is not the running one
    // is an argument, so it is alive; it is counted in a VM that was armed. Nothing here has to be
    // dropped when the call raises, or closes the running coroutine.
    unsafe {
        if ffi::lua_gettop(state) > 0 {
            ffi::luaL_checktype(state, 1, ffi::LUA_TTHREAD);
        }
        let vm = raw_function::vm(state);
        let thread = ffi::lua_tothread(state, 1);
        if vm.guard.is_counted() {
            guard::count(thread);
        }
        let waiting = vm.waiting_task(thread);
        ffi::lua_pushvalue(state, ffi::lua_upvalueindex(2));
        ffi::lua_insert(state, 1);
        ffi::lua_call(state, ffi::lua_gettop(state) - 1, ffi::LUA_MULTRET);
        if let Some(task) = waiting {
            vm.remove_closed(task);
        }
        ffi::lua_gettop(state)
    }
}
