//! Modules for `require`: those that a VM is made with, then files.

use std::cell::RefCell;
use std::rc::Rc;

use mlua::{Lua, MultiValue, Result, Table, Value};

/// Builds the table of a module, once per VM.
pub type OpenModule = fn(&Lua) -> Result<Table>;

/// A module: its name below `silly.` and `tide.`, further full names, and what builds it.
pub type Module = (&'static str, &'static [&'static str], OpenModule);

/// Registers modules with `require`. Each is opened when it is first required.
pub(crate) fn preload(lua: &Lua, modules: &[Module]) -> Result<()> {
    let package: Table = lua.globals().get("package")?;
    let loaders: Table = package.get("preload")?;
    for &(name, aliases, open) in modules {
        let opened = Rc::new(RefCell::new(lua.create_registry_value(Value::Nil)?));
        let loader = lua.create_function(move |lua, _: MultiValue| {
            if let Value::Table(table) = lua.registry_value(&opened.borrow())? {
                return Ok(table);
            }
            let table = open(lua)?;
            lua.replace_registry_value(&mut opened.borrow_mut(), &table)?;
            Ok(table)
        })?;
        for family in ["silly", "tide"] {
            let dot = if name.is_empty() { "" } else { "." };
            loaders.set(format!("{family}{dot}{name}"), &loader)?;
        }
        for alias in aliases {
            loaders.set(*alias, &loader)?;
        }
    }
    Ok(())
}

/// Sets where `require` searches files: next to the binary, in `lualib` of the working directory,
/// in the given paths, then in Lua's own places.
pub(crate) fn search_paths(lua: &Lua, path: Option<&str>, cpath: Option<&str>) -> Result<()> {
    let package: Table = lua.globals().get("package")?;
    let binary = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned()));
    let directory = binary.map(|directory| directory.display().to_string()).unwrap_or_default();
    for (key, library, pattern, given) in
        [("path", "lualib", "?.lua", path), ("cpath", "luaclib", "?.so", cpath)]
    {
        let mut path = format!("{directory}/{library}/{pattern};./{library}/{pattern};");
        if let Some(given) = given {
            path.push_str(given);
            path.push(';');
        }
        let before: String = package.get(key)?;
        package.set(key, path + &before)?;
    }
    Ok(())
}
