//! `pb`: Lua tables as messages of protocol buffers and back, with lua-protobuf's API.
//!
//! Owns the states of `pb.state`: a schema (crate `protobuf`), options, hooks and default tables.
//! `encode` and `decode` use Lua's stack directly and follow the schema field by field. Promises
//! that fields are written in the order of their numbers, and bounds on depth and size.
//!
//! A call keeps its schema on the stack of Lua. A change of types makes a new schema, so Lua code
//! that runs during the call (a hook, a finalizer) may load types.

mod codec_state;
mod decode;
mod defaults;
mod encode;
mod frame;
mod integer;
mod options;
mod schema_functions;
mod scratch;

use std::ffi::c_int;

use mlua::{Function, IntoLua, Lua, Result, Table, Value, ffi};

pub use integer::of_value;

/// The raw functions. `convert` turns a buffer or a slice into a string, and appends to a buffer:
/// `convert(data) → string`, `convert(buffer, string) → buffer`.
pub fn open(lua: &Lua, convert: &Function) -> Result<Table> {
    let table = lua.create_table()?;
    // What all functions share: the current state.
    let holder = lua.create_table()?;
    holder.raw_set(1, codec_state::create(lua)?)?;
    lua.set_named_registry_value(REGISTERED, &holder)?;
    for (name, function) in [
        ("decode", decode::decode as ffi::lua_CFunction),
        ("encode", encode::encode),
        ("defaults", defaults::defaults),
    ] {
        table.set(name, native(lua, function, &holder, convert)?)?;
    }
    schema_functions::add(lua, &table, &holder)?;
    options::add(lua, &table, &holder)?;
    codec_state::add(lua, &table, &holder)?;
    Ok(table)
}

/// Where a VM has the table of its current state.
const REGISTERED: &str = "tidegate.pb";

/// An integer as the option `int64_as_…` of the current state has it.
pub fn integer_value(lua: &Lua, value: i64) -> Result<Value> {
    let holder: Option<Table> = lua.named_registry_value(REGISTERED)?;
    let Some(holder) = holder else { return Ok(Value::Integer(value)) };
    let options: u32 = codec_state::current(&holder)?.raw_get(codec_state::OPTIONS)?;
    match integer::as_text(value, options) {
        Some(text) => text.into_lua(lua),
        None => Ok(Value::Integer(value)),
    }
}

/// Upvalues of the raw functions.
const HOLDER: c_int = 1;
const SCRATCH: c_int = 2;
const CONVERT: c_int = 3;

/// A raw function with a buffer of its own.
fn native(
    lua: &Lua,
    function: ffi::lua_CFunction,
    holder: &Table,
    convert: &Function,
) -> Result<Function> {
    // SAFETY: runs in a protected call with two values on the stack. The buffer goes between them,
    // so the three are the upvalues in their order.
    unsafe {
        lua.exec_raw((holder, convert), |state| {
            ffi::luaL_checkstack(state, 6, c"too many values".as_ptr());
            scratch::push(state);
            ffi::lua_insert(state, -2);
            ffi::lua_pushcclosure(state, function, 3);
        })
    }
}
