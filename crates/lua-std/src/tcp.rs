//! `net.tcp`: connections and listeners; see `lua/tcp.lua`.

use lua_vm::{native, script};
use mlua::{Lua, Result, Table};

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    native::tcp::open(lua, |functions| {
        script::open(lua, "tcp", include_str!("../../../lua/tcp.lua"), functions)
    })
}
