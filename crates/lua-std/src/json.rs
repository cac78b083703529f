//! `encoding.json`: Lua values as JSON (RFC 8259) and back, at once, line by line or in pieces.

mod stream;

use lua_vm::native;
use mlua::{Lua, Result, Table};

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let table = native::json::open(lua)?;
    stream::open(lua, &table)?;
    Ok(table)
}

#[cfg(test)]
mod tests;
