//! `net.http`: a server and a client of HTTP/1.1 and HTTP/2 for programs.
//!
//! Converts a script's values to requests and responses. The serving loop, the client's connection
//! and its pools, with their limits, are those of `http-client`. Scripts see the Lua part,
//! `lua/http.lua`.

mod body_reader;
mod body_writer;
mod client_exchange;
mod faults;
pub mod fields;
mod request;
mod server;
mod server_exchange;
mod stream;
#[cfg(test)]
mod tests;
mod url;
mod waker_set;

use mlua::{Lua, Result, Table};

use lua_vm::script;

pub use faults::reason;
pub(super) use request::client_of;
pub(crate) use server::drain;
pub use server::{ListenerMetrics, observe};
pub(super) use server_exchange::ServerExchange;
pub(super) use stream::Stream;
pub(super) use waker_set::WakerSet;

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let raw = lua.create_table()?;
    raw.set("listen", lua.create_function(server::listen)?)?;
    stream::add_waiting(lua, &raw)?;
    request::add(lua, &raw)?;
    script::open(lua, "http", include_str!("../../../lua/http.lua"), raw)
}

pub(crate) fn open_helper(lua: &Lua) -> Result<Table> {
    let raw = lua.create_table()?;
    let query = |lua: &Lua, text: mlua::LuaString| stream::query(lua, &text.as_bytes());
    raw.set("query", lua.create_function(query)?)?;
    script::open(lua, "http_helper", include_str!("../../../lua/http_helper.lua"), raw)
}
