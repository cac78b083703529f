//! `test`: what a test of `tidegate test` checks with, its clock and its network; see
//! `lua/test.lua` and `lua/test_network.lua`.

use std::net::IpAddr;

use lua_vm::{Vm, async_function, native, script};
use mlua::{Error, Lua, Result, Table};
use net::MemoryNetwork;

use crate::context::VmContext;
use crate::limits::TEST_ADVANCE_MS;

/// The registry key of the network of a VM.
const NETWORK: &str = "tidegate.test.network";

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
    raw.set("network", lua.create_function(|lua, ()| network(lua))?)?;
    script::open(lua, "test", include_str!("../../../lua/test.lua"), raw)
}

/// The network of a VM, which lasts as long as it does.
struct TestNetwork(MemoryNetwork);

/// `network() → network`: from now on this VM listens and connects in memory.
fn network(lua: &Lua) -> Result<Table> {
    if let Some(known) = lua.named_registry_value::<Option<Table>>(NETWORK)? {
        return Ok(known);
    }
    // The workers of a server share their thread with its listeners and upstreams.
    if VmContext::of(&*Vm::of(lua)?).member.is_none() {
        return Err(Error::runtime("a server has no network in memory: it is for tests"));
    }
    lua.set_app_data(TestNetwork(MemoryNetwork::enter()));
    let raw = lua.create_table()?;
    let host = |lua: &Lua, (name, address): (String, String)| {
        let address: IpAddr = address.parse().map_err(|_| {
            Error::runtime(format!(
                "bad argument #2 to 'host' (\"{address}\" is not an IP address)"
            ))
        })?;
        if let Some(network) = lua.app_data_ref::<TestNetwork>() {
            network.0.set_host(&name, address);
        }
        Ok(())
    };
    raw.set("host", lua.create_function(host)?)?;
    let reset = |lua: &Lua, connection: Table| native::tcp::reset(lua, &connection);
    raw.set("reset", lua.create_function(reset)?)?;
    let let_read = |lua: &Lua, ()| {
        let vm = Vm::of(lua)?;
        Ok(async move {
            vm.let_read().await;
            Ok(())
        })
    };
    raw.set("let_read", async_function::create(lua, let_read)?)?;
    let text = include_str!("../../../lua/test_network.lua");
    let network = script::open(lua, "test_network", text, raw)?;
    lua.set_named_registry_value(NETWORK, &network)?;
    Ok(network)
}

#[cfg(test)]
mod tests;
