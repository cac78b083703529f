//! What `require` finds: one file per module.
//!
//! Owns the names. Every module answers to `silly.NAME` and `tide.NAME`; the names of 2024,
//! `core.…`, are aliases of the same table. A module is opened when it is first required.

mod hex;

use mlua::{Lua, Result, Table};

/// Builds the table of a module, once per VM.
type Open = fn(&Lua) -> Result<Table>;

/// Name below `silly.` and `tide.`, further full names, and what builds it.
const MODULES: &[(&str, &[&str], Open)] = &[("encoding.hex", &[], hex::open)];

/// Makes every module known to `require` in `lua`.
pub fn preload(lua: &Lua) -> Result<()> {
    let package: Table = lua.globals().get("package")?;
    let loaders: Table = package.get("preload")?;
    for &(name, aliases, open) in MODULES {
        let loaded = lua.create_registry_value(mlua::Value::Nil)?;
        let loaded = std::rc::Rc::new(std::cell::RefCell::new(loaded));
        let loader = lua.create_function(move |lua, _: mlua::MultiValue| {
            let known: mlua::Value = lua.registry_value(&loaded.borrow())?;
            if let mlua::Value::Table(table) = known {
                return Ok(table);
            }
            let table = open(lua)?;
            lua.replace_registry_value(&mut loaded.borrow_mut(), &table)?;
            Ok(table)
        })?;
        loaders.set(format!("silly.{name}"), &loader)?;
        loaders.set(format!("tide.{name}"), &loader)?;
        for alias in aliases {
            loaders.set(*alias, &loader)?;
        }
    }
    Ok(())
}
