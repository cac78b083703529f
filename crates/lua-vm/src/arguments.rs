//! Functions whose mistaken arguments are named.

use mlua::{FromLuaMulti, Function, IntoLuaMulti, Lua, MultiValue, Result};

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
