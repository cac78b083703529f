//! `zproto`: Silly's own schema language and encoding, and its packing of zero bytes.
//!
//! A schema is checked once; types cannot contain themselves, so all recursion is bounded by it.
//! What is decoded may come from anywhere.

mod codec;
mod packing;
mod schema;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;

use lua_vm::arguments::function;
use mlua::{
    Error, Function, IntoLua, IntoLuaMulti, Lua, LuaString, MultiValue, Result, Table, UserData,
    UserDataMethods, Value,
};

use crate::fs::contents;
use crate::limits::ZPROTO_SOURCE_BYTES;
use schema::{Field, Schema, Shape};

/// What Silly's decoder returns for damaged data.
const DAMAGED: i64 = -3;

/// A schema as programs have it.
struct Protocol(Rc<Schema>);

/// `parse`, `load`, `pack` and `unpack` are called with the module or with a schema before their
/// arguments: `zproto:parse(text)`.
pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    table.set("parse", function(lua, "parse", parse)?)?;
    table.set("load", function(lua, "load", load)?)?;
    table.set("pack", function(lua, "pack", pack)?)?;
    table.set("unpack", function(lua, "unpack", unpack)?)?;
    Ok(table)
}

impl UserData for Protocol {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_function("parse", parse);
        methods.add_function("load", load);
        methods.add_function("pack", pack);
        methods.add_function("unpack", unpack);
        methods.add_method("tag", |_, Protocol(schema), name: Value| {
            Ok(name.as_string().and_then(|name| schema.named(&name.as_bytes())).map(|of| of.tag))
        });
        methods.add_method("encode", encode);
        methods.add_method("decode", decode);
        methods.add_method("default", |lua, Protocol(schema), name: Value| {
            codec::default(lua, schema, find(schema, "default", &name)?)
        });
        methods.add_method("travel", travel);
    }
}

/// `parse(text) → schema | nil, err`
fn parse(lua: &Lua, (_, text): (Value, LuaString)) -> Result<MultiValue> {
    match schema::parse(&text.as_bytes()) {
        Ok(schema) => Protocol(Rc::new(schema)).into_lua_multi(lua),
        Err(reason) => (Value::Nil, reason).into_lua_multi(lua),
    }
}

/// `load(path) → schema | nil, err`
fn load(lua: &Lua, (_, path): (Value, String)) -> Result<MultiValue> {
    let text = contents::read(Path::new(&path), ZPROTO_SOURCE_BYTES as u64);
    let text = text.map_err(|error| format!("{path}: {error}"));
    match text.and_then(|text| schema::parse(&text)) {
        Ok(schema) => Protocol(Rc::new(schema)).into_lua_multi(lua),
        Err(reason) => (Value::Nil, reason).into_lua_multi(lua),
    }
}

/// The struct of the file's top level with this name or this number.
fn find(schema: &Schema, function: &str, key: &Value) -> Result<usize> {
    let argument = |why: String| Error::runtime(format!("bad argument #1 to '{function}' ({why})"));
    let (found, what) = match key {
        Value::String(name) => {
            let name = name.as_bytes();
            (schema.position(&name), format!("'{}'", String::from_utf8_lossy(&name)))
        }
        Value::Integer(tag) => (schema.tagged(*tag), format!("with the tag {tag}")),
        other => {
            let got = other.type_name();
            return Err(argument(format!("name or tag of a struct expected, got {got}")));
        }
    };
    let missing = || argument(format!("no struct {what}; the schema has {}", schema.names()));
    found.ok_or_else(missing)
}

/// A string, or with `raw` its parts as Silly has them: data and size.
fn result(lua: &Lua, data: &[u8], is_raw: bool) -> Result<MultiValue> {
    let text = lua.create_string(data)?;
    if is_raw { (text, data.len()).into_lua_multi(lua) } else { text.into_lua_multi(lua) }
}

/// `encode(name | tag, table[, raw]) → string`
fn encode(
    lua: &Lua,
    Protocol(schema): &Protocol,
    (key, table, is_raw): (Value, Table, Option<bool>),
) -> Result<MultiValue> {
    let of = find(schema, "encode", &key)?;
    let mut out = Vec::new();
    codec::encode(schema, of, &table, &mut out)?;
    result(lua, &out, is_raw == Some(true))
}

/// `decode(name | tag, data[, size]) → table, size | nil, -3, reason`
fn decode(
    lua: &Lua,
    Protocol(schema): &Protocol,
    (key, data, size): (Value, LuaString, Option<usize>),
) -> Result<MultiValue> {
    let of = find(schema, "decode", &key)?;
    let data = data.as_bytes();
    match codec::decode(lua, schema, of, prefix(&data, size)) {
        Ok((table, used)) => (table, used).into_lua_multi(lua),
        Err(codec::DecodeError::Data(reason)) => (Value::Nil, DAMAGED, reason).into_lua_multi(lua),
        Err(codec::DecodeError::Lua(error)) => Err(error),
    }
}

fn prefix(data: &[u8], size: Option<usize>) -> &[u8] {
    &data[..size.unwrap_or(data.len()).min(data.len())]
}

/// The arguments behind data: `[size][, raw]`.
fn size_and_raw(first: &Value, second: &Value) -> (Option<usize>, bool) {
    match first {
        Value::Integer(size) => {
            (Some(usize::try_from(*size).unwrap_or(0)), matches!(second, Value::Boolean(true)))
        }
        other => (None, matches!(other, Value::Boolean(true))),
    }
}

type PackArguments = (Value, LuaString, Value, Value);

/// `pack(data[, size][, raw]) → string`
fn pack(lua: &Lua, (_, data, first, second): PackArguments) -> Result<MultiValue> {
    let (size, is_raw) = size_and_raw(&first, &second);
    result(lua, &packing::pack(prefix(&data.as_bytes(), size)), is_raw)
}

/// `unpack(data[, size][, raw]) → string | nil, reason`
fn unpack(lua: &Lua, (_, data, first, second): PackArguments) -> Result<MultiValue> {
    let (size, is_raw) = size_and_raw(&first, &second);
    match packing::unpack(prefix(&data.as_bytes(), size)) {
        Ok(data) => result(lua, &data, is_raw),
        Err(reason) => (Value::Nil, reason).into_lua_multi(lua),
    }
}

/// `travel("struct"[, name | tag])` → iterator of positions, names and handles;
/// `travel("field", name | tag)` → iterator of positions and fields.
fn travel(
    lua: &Lua,
    Protocol(schema): &Protocol,
    (what, key): (Option<String>, Value),
) -> Result<Function> {
    let of = if key.is_nil() { None } else { Some(find(schema, "travel", &key)?) };
    let (schema, next) = (Rc::clone(schema), Cell::new(0));
    let step = move || next.replace(next.get() + 1);
    match (what.as_deref().unwrap_or("field"), of) {
        ("struct", of) => lua.create_function(move |lua, _: MultiValue| {
            let children = of.map_or(&schema.roots, |of| &schema.structs[of].children);
            let at = step();
            match children.get(at) {
                Some(child) => (at + 1, &*schema.structs[*child].name, *child).into_lua_multi(lua),
                None => Ok(MultiValue::new()),
            }
        }),
        ("field", Some(of)) => lua.create_function(move |lua, _: MultiValue| {
            let at = step();
            match schema.structs[of].fields.get(at) {
                Some(field) => (at + 1, describe(lua, &schema, field)?).into_lua_multi(lua),
                None => Ok(MultiValue::new()),
            }
        }),
        ("field", None) => {
            Err(Error::runtime("bad argument #2 to 'travel' (name or tag of a struct expected)"))
        }
        (other, _) => {
            let text =
                format!("bad argument #1 to 'travel' (invalid option '{other}': field, struct)");
            Err(Error::runtime(text))
        }
    }
}

/// A field as `travel` shows it.
fn describe(lua: &Lua, schema: &Schema, field: &Field) -> Result<Value> {
    let table = lua.create_table()?;
    table.set("name", &*field.name)?;
    table.set("tag", field.tag)?;
    table.set("type", schema.type_name(field))?;
    table.set("array", field.shape != Shape::Single)?;
    if let Some(key) = schema.map_key(field) {
        table.set("mapkey", &*key.name)?;
    }
    table.into_lua(lua)
}
