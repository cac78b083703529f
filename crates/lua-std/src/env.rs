//! `env`: settings of the program, from its command line and from files that are Lua.
//!
//! Promises that the first writer of a key wins over later files, and that values are strings.

use mlua::{Lua, Result, Table};

use lua_vm::Vm;
use lua_vm::script;

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let raw = lua.create_table()?;
    for (key, value) in &Vm::of(lua)?.options().arguments {
        // The first of two options with one key counts.
        if !raw.contains_key(key.as_str())? {
            raw.set(key.as_str(), value.as_str())?;
        }
    }
    script::open(lua, "env", include_str!("../../../lua/env.lua"), raw)
}
