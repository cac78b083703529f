//! The two special tables: `null`, and the metatable of objects that may be empty.

use mlua::{Error, Function, Lua, MultiValue, Result, Table};

/// A read-only table that prints as "null".
pub(super) fn null(lua: &Lua) -> Result<Table> {
    let null = lua.create_table()?;
    let meta = lua.create_table()?;
    let frozen = |_: &Lua, _: MultiValue| -> Result<()> {
        Err(Error::runtime("json.null cannot be changed"))
    };
    meta.set("__tostring", lua.create_function(|_, _: MultiValue| Ok("null"))?)?;
    meta.set("__newindex", lua.create_function(frozen)?)?;
    meta.set("__name", "json.null")?;
    meta.set("__metatable", false)?;
    null.set_metatable(Some(meta))?;
    Ok(null)
}

/// The metatable of declared objects.
pub(super) fn object(lua: &Lua) -> Result<Table> {
    let meta = lua.create_table()?;
    meta.set("__name", "json.object")?;
    Ok(meta)
}

/// `object([table]) → table`: declares a table an object, so that an empty one is `{}`.
pub(super) fn mark(lua: &Lua, object: &Table) -> Result<Function> {
    let object = object.clone();
    crate::arguments::function(lua, "object", move |lua, table: Option<Table>| {
        let table = table.map_or_else(|| lua.create_table(), Ok)?;
        table.set_metatable(Some(object.clone()))?;
        Ok(table)
    })
}
