//! Functions of modules: their names in argument errors, and methods as functions.

use mlua::{FromLuaMulti, Function, IntoLuaMulti, Lua, MultiValue, Result, Table};

/// Adds functions that call the method of the same name: `hash.update(state, data)` is
/// `state:update(data)`.
pub fn add_methods(lua: &Lua, module: &Table, names: &[&str]) -> Result<()> {
    for name in names {
        let text = format!("return function(object, ...) return object:{name}(...) end");
        module.set(*name, lua.load(text).eval::<Function>()?)?;
    }
    Ok(())
}

/// A function that says "bad argument #1 to 'NAME'" where the library would leave out the name.
pub fn function<A: FromLuaMulti, R: IntoLuaMulti>(
    lua: &Lua,
    name: &'static str,
    body: impl Fn(&Lua, A) -> Result<R> + 'static,
) -> Result<Function> {
    lua.create_function(move |lua, arguments: MultiValue| {
        body(lua, A::from_lua_args(arguments, 1, Some(name), lua)?)
    })
}
