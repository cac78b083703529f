//! The part of the clients of databases that is the same; see `lua/sql_pool.lua`.

use mlua::{Function, Lua, Result};

/// The function that makes this part for a module.
pub(crate) fn open(lua: &Lua) -> Result<Function> {
    let text = include_str!("../../../lua/sql_pool.lua");
    lua.load(text).set_name("=tidegate/sql_pool.lua").eval()
}
