//! `trace`: the id that log lines of a coroutine carry; see `lua/trace.lua`.

use std::ffi::c_int;

use mlua::{Lua, Result, Table, ffi};

use crate::script;
use crate::stack::{self, State};
use crate::vm::Vm;

pub(super) fn open(lua: &Lua) -> Result<Table> {
    let vm = Vm::of(lua)?;
    let raw = stack::functions(lua, &vm, &[(c"get", get), (c"set", set)])?;
    script::open(lua, "trace", include_str!("../../../../lua/trace.lua"), raw)
}

unsafe extern "C-unwind" fn get(state: State) -> c_int {
    // SAFETY: pushes one value.
    unsafe {
        let id = stack::vm(state)
            .tasks(|tasks| tasks.current().map_or(0, |index| tasks.get(index).trace));
        ffi::lua_pushinteger(state, id as i64);
    }
    1
}

unsafe extern "C-unwind" fn set(state: State) -> c_int {
    // SAFETY: nothing here has to be dropped.
    unsafe {
        let id = ffi::luaL_checkinteger(state, 1) as u64;
        stack::vm(state).tasks(|tasks| {
            if let Some(index) = tasks.current() {
                tasks.get(index).trace = id;
            }
        });
    }
    0
}
