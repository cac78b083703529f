//! `net.cluster`: calls between processes; written in `lua/cluster.lua`.

use mlua::{Lua, Result, Table};

use lua_vm::script;

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    script::open(lua, "cluster", include_str!("../../../lua/cluster.lua"), lua.create_table()?)
}

#[cfg(test)]
mod tests;
