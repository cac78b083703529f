//! `silly`, `tide`: the process and its end; see `lua/silly.lua`.

use lua_vm::{native, script};
use mlua::{Lua, Result, Table};

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let functions = native::silly::functions(lua)?;
    script::open(lua, "silly", include_str!("../../../lua/silly.lua"), functions)
}
