//! The parts of the standard library that are written in Lua, inside the binary.
//!
//! A file returns a function that is called with the table of its module's raw functions (empty if
//! there are none) and returns the module's table. Promises that an error in one of them names the
//! file as it lies in `lua/`.

use mlua::{Lua, Result, Table};

/// Runs such a file.
pub(crate) fn open(lua: &Lua, name: &str, text: &str, raw: Table) -> Result<Table> {
    let make: mlua::Function = lua.load(text).set_name(format!("=tidegate/{name}.lua")).eval()?;
    make.call(raw)
}

#[cfg(test)]
mod tests;
