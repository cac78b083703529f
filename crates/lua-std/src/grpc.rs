//! `net.grpc`: servers and clients of gRPC. `lua/grpc.lua` makes calls of the streams of
//! `net.http`; the syntax of the protocol is `wire::grpc`.

use std::time::Duration;

use lua_vm::script;
use mlua::{Lua, LuaString, Result, Table};
use wire::grpc::{Code, decode_message, encode_message, timeout_value};

#[cfg(test)]
mod tests;

/// Status codes with the names that Silly has.
const CODES: [(&str, &str); 17] = [
    ("OK", "OK"),
    ("Canceled", "CANCELLED"),
    ("Unknown", "UNKNOWN"),
    ("InvalidArgument", "INVALID_ARGUMENT"),
    ("DeadlineExceeded", "DEADLINE_EXCEEDED"),
    ("NotFound", "NOT_FOUND"),
    ("AlreadyExists", "ALREADY_EXISTS"),
    ("PermissionDenied", "PERMISSION_DENIED"),
    ("ResourceExhausted", "RESOURCE_EXHAUSTED"),
    ("FailedPrecondition", "FAILED_PRECONDITION"),
    ("Aborted", "ABORTED"),
    ("OutOfRange", "OUT_OF_RANGE"),
    ("Unimplemented", "UNIMPLEMENTED"),
    ("Internal", "INTERNAL"),
    ("Unavailable", "UNAVAILABLE"),
    ("DataLoss", "DATA_LOSS"),
    ("Unauthenticated", "UNAUTHENTICATED"),
];

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let raw = lua.create_table()?;
    let names = lua.create_table()?;
    for (number, (name, _)) in CODES.iter().enumerate() {
        names.raw_set(number, *name)?;
    }
    raw.set("names", names)?;
    let escape =
        |_: &Lua, text: LuaString| Ok(encode_message(&text.to_string_lossy()).into_owned());
    raw.set("escape", lua.create_function(escape)?)?;
    let unescape = |_: &Lua, text: LuaString| Ok(decode_message(&text.as_bytes()));
    raw.set("unescape", lua.create_function(unescape)?)?;
    let timeout = |_: &Lua, ms: u32| Ok(timeout_value(Duration::from_millis(ms.into())));
    raw.set("timeout", lua.create_function(timeout)?)?;
    let of_http = |_: &Lua, status: u16| Ok(Code::of_http(status).number());
    raw.set("of_http", lua.create_function(of_http)?)?;
    script::open(lua, "grpc", include_str!("../../../lua/grpc.lua"), raw)
}

/// The codes under both of their names.
pub(crate) fn open_codes(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    for (number, (name, upper)) in CODES.iter().enumerate() {
        table.set(*name, number)?;
        table.set(*upper, number)?;
    }
    Ok(table)
}
