//! `silly`, `tide`: the process and its end.
//!
//! Promises that nothing of the program runs after `exit`: the call does not return, and no `pcall`
//! catches it.

use std::ffi::c_int;

use mlua::{Lua, Result, Table, ffi};

use crate::raw_function;
use crate::stack::LuaState;
use crate::vm::Vm;

/// The version of Silly whose API this is.
const SILLY_VERSION: &str = "0.7";

/// The functions of the module.
pub fn functions(lua: &Lua) -> Result<Table> {
    let vm = Vm::of(lua)?;
    let raw = raw_function::table(lua, &vm, &[(c"exit", exit), (c"genid", genid)])?;
    raw.set("pid", std::process::id())?;
    raw.set("version", SILLY_VERSION)?;
    raw.set("tidegate", env!("CARGO_PKG_VERSION"))?;
    raw.set("gitsha1", "")?;
    raw.set("allocator", "mimalloc")?;
    raw.set("multiplexer", if cfg!(target_os = "linux") { "epoll" } else { "kqueue" })?;
    raw.set("timerresolution", 1)?;
    Ok(raw)
}

/// `exit([code])`
unsafe extern "C-unwind" fn exit(state: LuaState) -> c_int {
    // SAFETY: the coroutine never continues: it yields and is not resumed, or where it cannot yield
    // raises an error that our `pcall` does not catch.
    unsafe {
        let code = match ffi::lua_type(state, 1) {
            ffi::LUA_TBOOLEAN => i64::from(ffi::lua_toboolean(state, 1) == 0),
            _ => ffi::luaL_optinteger(state, 1, 0),
        };
        let vm = raw_function::vm(state);
        vm.exit((code & 0xff) as i32);
        if vm.waiter(state).is_some() && ffi::lua_isyieldable(state) != 0 {
            return ffi::lua_yieldk(state, 0, 0, None);
        }
        // Code that catches the error raises it again with its next instruction.
        ffi::lua_sethook(state, Some(raise_nil), ffi::LUA_MASKCOUNT, 1);
        if let Some(thread) = vm.tasks(|tasks| tasks.current().map(|index| tasks.get(index).thread))
        {
            ffi::lua_sethook(thread, Some(raise_nil), ffi::LUA_MASKCOUNT, 1);
        }
        ffi::lua_pushnil(state);
        ffi::lua_error(state)
    }
}

unsafe extern "C-unwind" fn raise_nil(state: LuaState, _: *mut ffi::lua_Debug) {
    // SAFETY: a hook may raise; nothing here has to be dropped.
    unsafe {
        ffi::lua_pushnil(state);
        ffi::lua_error(state)
    }
}

/// `genid() → integer`: never the same twice in one VM.
unsafe extern "C-unwind" fn genid(state: LuaState) -> c_int {
    // SAFETY: pushes one value.
    unsafe { ffi::lua_pushinteger(state, raw_function::vm(state).next_id()) };
    1
}
