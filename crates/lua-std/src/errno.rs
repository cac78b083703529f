//! `errno`: error texts by name.
//!
//! Promises that errors can be compared: `errno.EOF` is the string that `read` returns.

use mlua::{Lua, Result, Table};

use lua_vm::errno;

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    let ours = [
        ("RESOLVE", errno::RESOLVE),
        ("NOSOCKET", errno::NOSOCKET),
        ("CLOSING", errno::CLOSING),
        ("CLOSED", errno::CLOSED),
        ("EOF", errno::EOF),
        ("TLS", errno::TLS),
    ];
    for (name, text) in ours {
        table.set(name, text)?;
    }
    for (name, number) in errno::SYSTEM {
        table.set(*name, errno::of_number(*number))?;
    }
    let meta = lua.create_table()?;
    // An unknown name has a text too.
    meta.set(
        "__index",
        lua.create_function(|_, (table, name): (Table, mlua::LuaString)| {
            let text = format!("Unknown error '{}'", name.to_string_lossy());
            table.raw_set(name, text.as_str())?;
            Ok(text)
        })?,
    )?;
    table.set_metatable(Some(meta))?;
    Ok(table)
}
