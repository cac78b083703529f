//! `stream`: pipelines; written in `lua/stream.lua`.

use mlua::{Lua, Result, Table};

use lua_vm::script;

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    script::open(lua, "stream", include_str!("../../../lua/stream.lua"), lua.create_table()?)
}

#[cfg(test)]
mod tests;
