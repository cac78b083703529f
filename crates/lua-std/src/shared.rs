//! `shared`: counters and short texts that all workers share, with an optional time to live.

use mlua::{Error, Lua, Result, Value};

use crate::context::VmContext;
use crate::limits::SHARED_BYTES;
use crate::shared_table::SharedValue;
use lua_vm::Vm;
use lua_vm::timers::now_ms;

fn expires_at(ttl_s: Option<f64>, name: &str) -> Result<u64> {
    match ttl_s {
        None => Ok(0),
        Some(ttl) if ttl > 0.0 && ttl.is_finite() => {
            Ok(now_ms().saturating_add((ttl * 1000.0).ceil() as u64))
        }
        Some(_) => Err(Error::runtime(format!("bad ttl to '{name}' (seconds above 0 expected)"))),
    }
}

fn short<'a>(bytes: &'a [u8], name: &str) -> Result<&'a [u8]> {
    if bytes.len() <= SHARED_BYTES {
        return Ok(bytes);
    }
    Err(Error::runtime(format!("'{name}' takes keys and texts of up to {SHARED_BYTES} bytes")))
}

fn to_shared_value(value: &Value) -> Result<SharedValue> {
    Ok(match value {
        Value::Nil => SharedValue::Nothing,
        Value::Integer(number) => SharedValue::Integer(*number),
        Value::Number(number) => SharedValue::Number(*number),
        Value::Boolean(truth) => SharedValue::Boolean(*truth),
        Value::String(text) => SharedValue::Bytes(short(&text.as_bytes(), "set")?.into()),
        other => {
            let found = other.type_name();
            let why = format!("bad argument #2 to 'set' (a plain value expected, got {found})");
            return Err(Error::runtime(why));
        }
    })
}

fn value(lua: &Lua, kept: SharedValue) -> Result<Value> {
    Ok(match kept {
        SharedValue::Nothing => Value::Nil,
        SharedValue::Integer(number) => Value::Integer(number),
        SharedValue::Number(number) => Value::Number(number),
        SharedValue::Boolean(truth) => Value::Boolean(truth),
        SharedValue::Bytes(bytes) => Value::String(lua.create_string(&bytes)?),
    })
}

pub(crate) fn open(lua: &Lua) -> Result<mlua::Table> {
    let shared = VmContext::of(&*Vm::of(lua)?).shared.unwrap_or_default();
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
