//! `debugger`: breakpoints and steps. The commands are in `lua/debugger.lua`, the Debug Adapter
//! Protocol in `lua/debug_adapter.lua`.

use std::path::{Path, absolute};

use lua_vm::{native, script};
use mlua::{Function, Lua, Result, Table};

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let functions = native::debugger::functions(lua)?;
    // absolute(path) → the path that names the file from everywhere, without links
    functions.set("absolute", lua.create_function(|_, path: String| Ok(absolute_path(&path)))?)?;
    functions.set("adapter", lua.create_function(open_adapter)?)?;
    script::open(lua, "debugger", include_str!("../../../lua/debugger.lua"), functions)
}

fn absolute_path(path: &str) -> String {
    let path = Path::new(path);
    let found = path.canonicalize().or_else(|_| absolute(path));
    found.unwrap_or_else(|_| path.to_owned()).display().to_string()
}

/// Loads the adapter over the functions of a session.
fn open_adapter(lua: &Lua, session: Table) -> Result<Table> {
    let load = |name: &str, text: &str| -> Result<Function> {
        lua.load(text).set_name(format!("=tidegate/{name}.lua")).eval()
    };
    let values = load("debug_values", include_str!("../../../lua/debug_values.lua"))?;
    let values: Table = values.call(())?;
    let breakpoints =
        load("debug_breakpoints", include_str!("../../../lua/debug_breakpoints.lua"))?;
    let adapter = load("debug_adapter", include_str!("../../../lua/debug_adapter.lua"))?;
    adapter.call((session, &values, breakpoints.call::<Table>(&values)?))
}
