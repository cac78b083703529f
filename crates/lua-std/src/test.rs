//! `test`: what a test of `tidegate test` checks with, and its clock; see `lua/test.lua`.

use lua_vm::{Vm, async_function, script};
use mlua::{Error, Lua, Result, Table};

use crate::limits::TEST_ADVANCE_MS;

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let raw = lua.create_table()?;
    let stop = |lua: &Lua, wall_ms: Option<u64>| {
        Vm::of(lua)?.stop_clock(wall_ms);
        Ok(())
    };
    raw.set("stop_clock", lua.create_function(stop)?)?;
    let advance = |lua: &Lua, ms: u64| {
        let vm = Vm::of(lua)?;
        if !vm.is_clock_stopped() {
            return Err(Error::runtime("the clock runs: call test.stop_clock() first"));
        }
        if ms > TEST_ADVANCE_MS {
            return Err(Error::runtime("longer than 2^32-1 milliseconds"));
        }
        Ok(async move {
            vm.advance(ms).await;
            Ok(())
        })
    };
    raw.set("advance", async_function::create(lua, advance)?)?;
    script::open(lua, "test", include_str!("../../../lua/test.lua"), raw)
}

#[cfg(test)]
mod tests;
