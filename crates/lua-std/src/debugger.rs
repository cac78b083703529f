//! `debugger`: breakpoints and steps. The commands are in `lua/debugger.lua`.

use lua_vm::{native, script};
use mlua::{Lua, Result, Table};

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let functions = native::debugger::functions(lua)?;
    script::open(lua, "debugger", include_str!("../../../lua/debugger.lua"), functions)
}
