//! `net.http`: a server and a client of HTTP/1.1 for programs.
//!
//! Owns how a script's words become requests and responses; everything on the wire is the house's:
//! the serving loop, the client's connection and its pools, with their limits. The Lua part
//! (`lua/http.lua`) is what scripts see.

mod bell;
mod client;
mod faults;
mod feed;
pub mod fields;
mod inbound;
mod input;
mod outbound;
mod request;
mod server;
mod stream;
#[cfg(test)]
mod tests;
pub(super) mod url;

use mlua::{Lua, Result, Table};

use lua_vm::script;

pub(super) use bell::EventFd;
pub(super) use client::Client;
pub use faults::reason;
pub(super) use inbound::Inbound;
pub(crate) use server::drain;
pub use server::{Observed, observe};
pub(super) use stream::Stream;
pub(super) use url::Url;

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
