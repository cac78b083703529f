//! `trace`: the id that log lines of a coroutine carry; see `lua/trace.lua`.

use lua_vm::{Vm, script};
use mlua::{Lua, Result, Table};

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let functions = lua.create_table()?;
    let get = |lua: &Lua, ()| Ok(Vm::of(lua)?.trace_id() as i64);
    functions.set("get", lua.create_function(get)?)?;
    let set = |lua: &Lua, id: i64| {
        Vm::of(lua)?.set_trace_id(id as u64);
        Ok(())
    };
    functions.set("set", lua.create_function(set)?)?;
    script::open(lua, "trace", include_str!("../../../lua/trace.lua"), functions)
}
