//! `pool`: reuse of objects that are expensive to open; written in `lua/pool.lua`.

use mlua::{Lua, Result, Table};

use lua_vm::script;

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    script::open(lua, "pool", include_str!("../../../lua/pool.lua"), lua.create_table()?)
}

#[cfg(test)]
mod tests;
