//! `pb.conv`: integers of the wire format, by type.

use lua_vm::arguments::function;
use lua_vm::native::pb::{integer_value, of_value};
use mlua::{Lua, Result, Table, Value};
use protobuf::{zigzag32, zigzag64};

use super::expected;
use super::format::{unzigzag32, unzigzag64};

/// A function of integers.
type Convert = fn(u64) -> i64;

const INTEGERS: &[(&str, Convert)] = &[
    ("encode_int32", |value| i64::from(value as i32)),
    ("decode_int32", |value| i64::from(value as i32)),
    ("encode_uint32", |value| i64::from(value as u32)),
    ("decode_uint32", |value| i64::from(value as u32)),
    ("encode_sint32", |value| i64::from(zigzag32(value as i32))),
    ("decode_sint32", unzigzag32),
    ("encode_sint64", |value| zigzag64(value as i64) as i64),
    ("decode_sint64", unzigzag64),
];

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    for (name, convert) in INTEGERS {
        let body =
            move |lua: &Lua, value: Value| integer_value(lua, convert(integer(name, &value)?));
        table.set(*name, function(lua, name, body)?)?;
    }
    let body = |lua: &Lua, value: f64| integer_value(lua, i64::from((value as f32).to_bits()));
    table.set("encode_float", function(lua, "encode_float", body)?)?;
    let body = |lua: &Lua, value: f64| integer_value(lua, value.to_bits() as i64);
    table.set("encode_double", function(lua, "encode_double", body)?)?;
    let body = |_: &Lua, value: Value| {
        Ok(f64::from(f32::from_bits(integer("decode_float", &value)? as u32)))
    };
    table.set("decode_float", function(lua, "decode_float", body)?)?;
    let body = |_: &Lua, value: Value| Ok(f64::from_bits(integer("decode_double", &value)?));
    table.set("decode_double", function(lua, "decode_double", body)?)?;
    Ok(table)
}

fn integer(name: &str, value: &Value) -> Result<u64> {
    of_value(value).ok_or_else(|| expected(name, 1, "number/string", value))
}
