//! The parts of the standard library that are written in Lua, inside the binary.
//!
//! A file returns a function that is called with the table of its module's raw functions (empty if
//! there are none) and with what checks arguments (`lua/arguments.lua`), and returns the module's
//! table. Promises that an error in one of them names the file as it lies in `lua/`.

use mlua::{Function, Lua, Result, Table};

/// Runs such a file.
pub fn open(lua: &Lua, name: &str, text: &str, raw: Table) -> Result<Table> {
    let make: Function = lua.load(text).set_name(format!("=tidegate/{name}.lua")).eval()?;
    make.call((raw, check(lua)?))
}

/// What all of them check arguments with, made once for a VM.
fn check(lua: &Lua) -> Result<Function> {
    const KEY: &str = "tidegate.check";
    if let Some(known) = lua.named_registry_value::<Option<Function>>(KEY)? {
        return Ok(known);
    }
    let text = include_str!("../../../lua/arguments.lua");
    let made: Function = lua.load(text).set_name("=tidegate/arguments.lua").eval()?;
    lua.set_named_registry_value(KEY, &made)?;
    Ok(made)
}
