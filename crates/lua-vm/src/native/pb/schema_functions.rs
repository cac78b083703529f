//! The types of the current state: loading, listing, looking up, removing, hooks.

use std::cell::Cell;
use std::rc::Rc;

use mlua::{
    Error, Function, IntoLuaMulti, Lua, LuaString, MultiValue, Result, Table, Value, Variadic,
};
use protobuf::{Field, FieldType, MessageType, Schema, TypeKind};

use super::codec_state::{self, DECODE_HOOKS, DEFAULTS, ENCODE_HOOKS};
use crate::arguments;

/// Adds the functions.
pub(super) fn add(lua: &Lua, table: &Table, holder: &Table) -> Result<()> {
    let shared = holder.clone();
    let load = move |lua: &Lua, data: LuaString| {
        let mut schema = (*codec_state::schema(lua, &shared)?).clone();
        Ok(match schema.load(&data.as_bytes()) {
            Ok(()) => {
                codec_state::set_schema(lua, &codec_state::current(&shared)?, schema)?;
                (true, data.as_bytes().len() + 1, None)
            }
            Err(error) => (false, error.offset + 1, Some(error.reason)),
        })
    };
    table.set("load", arguments::function(lua, "load", load)?)?;
    let shared = holder.clone();
    let kind = move |lua: &Lua, name: LuaString| {
        let schema = codec_state::schema(lua, &shared)?;
        match slot(&schema, &name) {
            Some(slot) => describe(schema.get(slot)).into_lua_multi(lua),
            None => Ok(MultiValue::new()),
        }
    };
    table.set("type", arguments::function(lua, "type", kind)?)?;
    let shared = holder.clone();
    let types = move |lua: &Lua, ()| types(lua, codec_state::schema(lua, &shared)?);
    table.set("types", lua.create_function(types)?)?;
    let shared = holder.clone();
    let fields =
        move |lua: &Lua, name: LuaString| fields(lua, codec_state::schema(lua, &shared)?, &name);
    table.set("fields", arguments::function(lua, "fields", fields)?)?;
    let shared = holder.clone();
    let field = move |lua: &Lua, (name, key): (LuaString, Value)| {
        let schema = codec_state::schema(lua, &shared)?;
        let message = slot(&schema, &name).map(|slot| schema.get(slot));
        match message.and_then(|message| Some((message, find(message, &key)?))) {
            Some((message, field)) => describe_field(lua, &schema, message, field),
            None => Ok(MultiValue::new()),
        }
    };
    table.set("field", arguments::function(lua, "field", field)?)?;
    let shared = holder.clone();
    let value = move |lua: &Lua, (name, key): (LuaString, Value)| {
        let schema = codec_state::schema(lua, &shared)?;
        let found = slot(&schema, &name).and_then(|slot| find(schema.get(slot), &key));
        match (found, key) {
            (None, _) => Ok(MultiValue::new()),
            (Some(field), Value::String(_)) => field.number.into_lua_multi(lua),
            (Some(field), _) => (&*field.name).into_lua_multi(lua),
        }
    };
    table.set("enum", arguments::function(lua, "enum", value)?)?;
    add_changes(lua, table, holder)?;
    for (name, place) in [("hook", DECODE_HOOKS), ("encode_hook", ENCODE_HOOKS)] {
        table.set(name, hook(lua, name, holder.clone(), place)?)?;
    }
    let shared = holder.clone();
    let format = move |lua: &Lua, name: String| {
        let is_loaded = codec_state::schema(lua, &shared)?.slot(&name).is_some();
        Ok(type_format(&name, is_loaded))
    };
    table.set("typefmt", arguments::function(lua, "typefmt", format)?)
}

/// Adds `clear([type[, field]])`.
fn add_changes(lua: &Lua, table: &Table, holder: &Table) -> Result<()> {
    let shared = holder.clone();
    let clear = move |lua: &Lua, (name, key): (Option<LuaString>, Option<Value>)| {
        let current = codec_state::current(&shared)?;
        let Some(name) = name else {
            for place in [DECODE_HOOKS, ENCODE_HOOKS, DEFAULTS] {
                current.raw_set(place, lua.create_table()?)?;
            }
            return codec_state::set_schema(
                lua,
                &current,
                codec_state::schema(lua, &shared)?.emptied(),
            );
        };
        let mut schema = (*codec_state::schema(lua, &shared)?).clone();
        let Some(slot) = slot(&schema, &name) else { return Ok(()) };
        match key {
            None => {
                schema.remove(&name.to_str()?);
            }
            Some(key) => {
                let field = find(schema.get(slot), &key).map(|field| field.name.clone());
                if let Some(field) = field {
                    schema.get_mut(slot).remove_named(&field);
                }
            }
        }
        let defaults: Table = current.raw_get(DEFAULTS)?;
        defaults.raw_set(slot + 1, Value::Nil)?;
        codec_state::set_schema(lua, &current, schema)
    };
    table.set("clear", arguments::function(lua, "clear", clear)?)
}

fn slot(schema: &Schema, name: &LuaString) -> Option<u32> {
    schema.slot(&name.to_str().ok()?)
}

/// A field by its number or its name.
fn find<'a>(message: &'a MessageType, key: &Value) -> Option<&'a Field> {
    match key {
        Value::Integer(number) => message.field(i32::try_from(*number).ok()?),
        Value::Number(number) if number.fract() == 0.0 => message.field(*number as i32),
        Value::String(name) => message.field_named(&name.to_str().ok()?),
        _ => None,
    }
}

/// Full name, name, kind.
fn describe(found: &MessageType) -> (String, String, &'static str) {
    let kind = match found.kind {
        Some(TypeKind::Map) => "map",
        Some(TypeKind::Enum) => "enum",
        _ => "message",
    };
    (found.name.to_string(), found.base_name().to_owned(), kind)
}

/// Name, number, type, default, label, and the name and index of its oneof.
fn describe_field(
    lua: &Lua,
    schema: &Schema,
    message: &MessageType,
    field: &Field,
) -> Result<MultiValue> {
    let kind = match field.type_slot {
        Some(slot) => schema.get(slot).name.to_string(),
        None => field.kind.name().to_owned(),
    };
    let label = match (field.is_repeated, field.is_packed) {
        (false, _) => "optional",
        (true, false) => "repeated",
        (true, true) => "packed",
    };
    let default = field.default_text.as_deref();
    let oneof = field.oneof.and_then(|index| Some((message.oneofs.get(index as usize)?, index)));
    let start = (&*field.name, field.number, kind, default, label);
    match oneof {
        None => start.into_lua_multi(lua),
        Some(((name, _), index)) => {
            let (a, b, c, d, e) = start;
            (a, b, c, d, e, &**name, index).into_lua_multi(lua)
        }
    }
}

/// An iterator of the types that are defined.
fn types(lua: &Lua, schema: Rc<Schema>) -> Result<Function> {
    let next = Cell::new(0);
    lua.create_function(move |lua, _: Variadic<Value>| {
        let defined = |slot: &u32| *slot >= next.get() && schema.get(*slot).kind.is_some();
        let Some(slot) = schema.slots().find(defined) else { return Ok(MultiValue::new()) };
        next.set(slot + 1);
        describe(schema.get(slot)).into_lua_multi(lua)
    })
}

/// An iterator of the fields of a type.
fn fields(lua: &Lua, schema: Rc<Schema>, name: &LuaString) -> Result<Function> {
    let (slot, next) = (slot(&schema, name), Cell::new(0));
    lua.create_function(move |lua, _: Variadic<Value>| {
        let message = slot.map(|slot| schema.get(slot));
        let field = message.and_then(|message| Some((message, message.fields.get(next.get())?)));
        let Some((message, field)) = field else { return Ok(MultiValue::new()) };
        next.set(next.get() + 1);
        describe_field(lua, &schema, message, field)
    })
}

/// `hook(type[, function | nil]) → the function before`
fn hook(
    lua: &Lua,
    what: &'static str,
    holder: Table,
    place: mlua::ffi::lua_Integer,
) -> Result<Function> {
    let hook = move |lua: &Lua, (name, new): (LuaString, Variadic<Value>)| {
        let schema = codec_state::schema(lua, &holder)?;
        let slot = slot(&schema, &name).ok_or_else(|| {
            Error::runtime(format!("bad argument #1 to '{what}' (type not found)"))
        })?;
        let hooks: Table = codec_state::current(&holder)?.raw_get(place)?;
        let before: Value = hooks.raw_get(slot + 1)?;
        match new.into_iter().next() {
            None => {}
            Some(new @ (Value::Nil | Value::Function(_))) => hooks.raw_set(slot + 1, new)?,
            Some(other) => {
                let got = other.type_name();
                let text = format!("bad argument #2 to '{what}' (function expected, got {got})");
                return Err(Error::runtime(text));
            }
        }
        Ok(before)
    };
    arguments::function(lua, what, hook)
}

/// `typefmt(name) → letter, wire type`: of a type its letter in `pack`, of a letter its type.
fn type_format(name: &str, is_loaded: bool) -> (String, i32) {
    let mut letters = name.chars();
    if let (Some(letter), None) = (letters.next(), letters.next()) {
        return match FieldType::of_letter(letter) {
            Some(kind) => (kind.name().to_owned(), kind as i32),
            None => ("!".to_owned(), -1),
        };
    }
    if is_loaded {
        return ("message".to_owned(), 2);
    }
    match FieldType::of_name(name) {
        Some(kind) => (kind.letter().to_string(), kind.wire_type() as i32),
        None => ("!".to_owned(), -1),
    }
}
