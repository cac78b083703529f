//! Restrictions of scripts in a server, compared with a program of its own.
//!
//! Promises that no script ends the process, removes the hook that counts its instructions, or,
//! unless the configuration allows it, loads a C module. It is not a security boundary: scripts can
//! access all files and processes that the server can.

use mlua::{Function, Lua, Result, Table, Value};

/// The functions of `debug` that remain: those that only read.
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
        // Keeps the searchers of preloaded modules and Lua files; removes those of C modules.
        let searchers: Table = package.get("searchers")?;
        for place in (3..=searchers.raw_len()).rev() {
            searchers.raw_set(place, Value::Nil)?;
        }
    }
    Ok(())
}
