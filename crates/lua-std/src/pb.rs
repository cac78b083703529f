//! `pb`, its parts and `protoc`: protocol buffers with lua-protobuf's API.
//!
//! The codec is `lua_vm::native::pb`, the schema and the compiler are crate `protobuf`. Here
//! are what works on bytes (`pb.buffer`, `pb.slice`, `pb.conv`) and what reads files.

mod buffer;
mod compiler;
mod conversions;
mod format;
mod slice;
#[cfg(test)]
mod tests;

use std::path::Path;

use lua_vm::arguments::function;
use lua_vm::{native, script};
use mlua::{Error, Function, IntoLuaMulti, Lua, LuaString, Result, Table, Value};

use crate::fs::contents;
use crate::limits::{DESCRIPTOR_BYTES, PROTOBUF_BUFFER_BYTES};
use buffer::Buffer;
use slice::Slice;

pub(crate) use buffer::open as open_buffer;
pub(crate) use compiler::open as open_compiler;
pub(crate) use conversions::open as open_conversions;
pub(crate) use slice::open as open_slice;

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let table = native::pb::open(lua, &lua.create_function(convert)?)?;
    let load: Function = table.get("load")?;
    let load_data = move |lua: &Lua, data: Value| {
        let data = lua.create_string(bytes_of("load", 1, &data)?)?;
        load.call::<mlua::MultiValue>(data)
    };
    let load = function(lua, "load", load_data)?;
    table.set("load", &load)?;
    let load_file =
        move |lua: &Lua, path: String| match contents::read(Path::new(&path), DESCRIPTOR_BYTES) {
            Ok(data) => load.call::<mlua::MultiValue>(lua.create_string(data)?),
            Err(error) => (Value::Nil, format!("{path}: {error}")).into_lua_multi(lua),
        };
    table.set("loadfile", function(lua, "loadfile", load_file)?)?;
    buffer::add_hex(lua, &table)?;
    table.set("pack_format", lua.create_function(buffer::pack)?)?;
    table.set("unpack_format", lua.create_function(slice::unpack)?)?;
    script::open(lua, "pb", include_str!("../../../lua/pb.lua"), table)
}

/// `convert(data) → string`, `convert(buffer, string) → buffer`
fn convert(lua: &Lua, (object, data): (Value, Option<LuaString>)) -> Result<Value> {
    match (&object, data) {
        (_, None) => string_value(lua, &bytes_of("decode", 2, &object)?),
        (Value::UserData(buffer), Some(data)) if buffer.is::<Buffer>() => {
            buffer.borrow_mut::<Buffer>()?.append(&data.as_bytes())?;
            Ok(object.clone())
        }
        (other, Some(_)) => Err(expected("encode", 3, "pb.Buffer", other)),
    }
}

fn string_value(lua: &Lua, bytes: &[u8]) -> Result<Value> {
    lua.create_string(bytes).map(Value::String)
}

/// The bytes of a string, a buffer, or the rest of a slice.
fn bytes_of(name: &str, index: usize, value: &Value) -> Result<Vec<u8>> {
    match value {
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::UserData(object) if object.is::<Buffer>() => {
            Ok(object.borrow::<Buffer>()?.bytes().to_vec())
        }
        Value::UserData(object) if object.is::<Slice>() => Ok(object.borrow::<Slice>()?.rest()),
        other => Err(expected(name, index, "string/buffer/slice", other)),
    }
}

fn expected(name: &str, index: usize, what: &str, got: &Value) -> Error {
    let got = got.type_name();
    Error::runtime(format!("bad argument #{index} to '{name}' ({what} expected, got {got})"))
}

/// Fails if a buffer would have more bytes than it may.
fn check_length(length: usize) -> Result<()> {
    match length > PROTOBUF_BUFFER_BYTES {
        true => Err(Error::runtime("a buffer may have 256 MiB")),
        false => Ok(()),
    }
}

fn argument(name: &str, index: usize, why: &str) -> Error {
    Error::runtime(format!("bad argument #{index} to '{name}' ({why})"))
}

/// The range of positions `i` to `j` of so many bytes, which may count from the end.
fn range(length: usize, i: Option<i64>, j: Option<i64>) -> std::ops::Range<usize> {
    let place = |position: i64| match position {
        0.. => position,
        _ if position.unsigned_abs() > length as u64 => 0,
        _ => length as i64 + position + 1,
    };
    let first = place(i.unwrap_or(1)).max(1) as usize - 1;
    let last = place(j.unwrap_or(length as i64)).clamp(0, length as i64) as usize;
    first.min(last)..last
}
