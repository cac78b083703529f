//! What a script in a server may not do that a program of its own may.
//!
//! Promises that none ends the process, takes the hook off that counts its instructions, or, unless
//! the configuration says so, loads a module in C. It is no wall against who means harm: files and
//! processes are as open as to the server.

use mlua::{Function, Lua, Result, Table, Value};

/// What is left of `debug`: looking, not changing.
const DEBUG: &[&str] = &["traceback", "getinfo", "getlocal"];

pub(crate) fn close(lua: &Lua, native_modules: bool) -> Result<()> {
    let globals = lua.globals();
    let debug: Table = globals.get("debug")?;
    for pair in debug.pairs::<Value, Value>() {
        let (name, _) = pair?;
        let kept = name.as_string().is_some_and(|name| DEBUG.iter().any(|kept| *name == **kept));
        if !kept {
            debug.raw_set(name, Value::Nil)?;
        }
    }
    let exit = lua.create_function(|_, _: mlua::MultiValue| -> Result<()> {
        Err(mlua::Error::runtime("a script cannot end the server"))
    })?;
    let os: Table = globals.get("os")?;
    os.set("exit", &exit)?;
    let require: Function = globals.get("require")?;
    let silly: Table = require.call("silly")?;
    silly.set("exit", &exit)?;
    if !native_modules {
        let package: Table = globals.get("package")?;
        package.set("cpath", "")?;
        package.set("loadlib", Value::Nil)?;
        // Preloaded modules and files of Lua; not those in C, nor in a library for all.
        let searchers: Table = package.get("searchers")?;
        for place in (3..=searchers.raw_len()).rev() {
            searchers.raw_set(place, Value::Nil)?;
        }
    }
    Ok(())
}
