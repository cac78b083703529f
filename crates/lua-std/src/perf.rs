//! `perf`: timed sections of a program; see `lua/perf.lua`.
//!
//! Provides the clock, in nanoseconds.

use std::sync::OnceLock;
use std::time::Instant;

use mlua::{Lua, Result, Table};

use lua_vm::script;

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    let origin = *ORIGIN.get_or_init(Instant::now);
    let raw = lua.create_table()?;
    let hrtime = move |_: &Lua, ()| Ok(origin.elapsed().as_nanos() as i64);
    raw.set("hrtime", lua.create_function(hrtime)?)?;
    script::open(lua, "perf", include_str!("../../../lua/perf.lua"), raw)
}
