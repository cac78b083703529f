//! The parts of the standard library that are written in Lua and embedded in the binary.
//!
//! A file returns a function. It is called with the table of the module's Rust functions (empty if
//! there are none) and the argument checks of `lua/arguments.lua`, and returns the module's table.
//! Promises that an error in one of the files names it as `lua/` does.

use mlua::{Function, Lua, Result, Table};

/// Opens the module of an embedded file.
pub fn open(lua: &Lua, name: &str, text: &str, raw: Table) -> Result<Table> {
    let make: Function = lua.load(text).set_name(format!("=tidegate/{name}.lua")).eval()?;
    make.call((raw, check(lua)?))
}

/// The argument checks, loaded once for a VM.
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
