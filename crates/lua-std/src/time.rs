//! `time`: clocks, sleeping, timers. Time-outs, throttle and debounce are in `lua/time.lua`.

use lua_vm::{native, script};
use mlua::{Lua, Result, Table};

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let functions = native::time::functions(lua)?;
    script::open(lua, "time", include_str!("../../../lua/time.lua"), functions)
}
