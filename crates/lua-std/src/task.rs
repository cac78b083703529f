//! `task`: coroutines as the scheduler sees them. Hooks are in `lua/task.lua`.

use lua_vm::{native, script};
use mlua::{Lua, Result, Table};

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let functions = native::task::functions(lua)?;
    script::open(lua, "task", include_str!("../../../lua/task.lua"), functions)
}
