//! `shared`: counters and short texts that all workers share, with an optional time to live.

use mlua::{Error, Lua, Result, Value};

use crate::context::VmContext;
use crate::shared_redis;
use crate::shared_values::{lifetime_ms, short, to_shared_value, value};
use lua_vm::Vm;
use lua_vm::timers::now_ms;

fn expires_at(ttl_s: Option<f64>, name: &str) -> Result<u64> {
    Ok(lifetime_ms(ttl_s, name)?.map_or(0, |ms| now_ms().saturating_add(ms)))
}

pub(crate) fn open(lua: &Lua) -> Result<mlua::Table> {
    let context = VmContext::of(&*Vm::of(lua)?);
    if let Some(plan) = &context.shared_redis {
        return shared_redis::open(lua, plan);
    }
    let shared = context.shared.unwrap_or_default();
    let module = lua.create_table()?;
    let table = shared.clone();
    module.set(
        "get",
        lua.create_function(move |lua, key: mlua::LuaString| {
            value(lua, table.get(short(&key.as_bytes(), "get")?))
        })?,
    )?;
    let table = shared.clone();
    module.set(
        "set",
        lua.create_function(move |_, (key, value, ttl): (mlua::LuaString, Value, Option<f64>)| {
            table.set(
                short(&key.as_bytes(), "set")?,
                to_shared_value(&value)?,
                expires_at(ttl, "set")?,
            );
            Ok(())
        })?,
    )?;
    let table = shared.clone();
    module.set(
        "add",
        lua.create_function(
            move |_, (key, by, ttl): (mlua::LuaString, Option<i64>, Option<f64>)| {
                let (key, until) = (key.as_bytes(), expires_at(ttl, "add")?);
                table
                    .add(short(&key, "add")?, by.unwrap_or(1), until)
                    .ok_or_else(|| Error::runtime("'add' needs a whole number"))
            },
        )?,
    )?;
    module.set(
        "delete",
        lua.create_function(move |_, key: mlua::LuaString| {
            Ok(shared.remove(short(&key.as_bytes(), "delete")?))
        })?,
    )?;
    Ok(module)
}
