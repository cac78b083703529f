//! The server's stream functions for `lua/http.lua`.
//!
//! Promises that each function returns `true` or `false, reason`, or the value or `nil, reason`.
//! Parts of a request are converted to Lua values only when they are read.

use std::rc::Rc;

use message::{Fault, FaultKind};
use mlua::{
    Error, IntoLuaMulti, Lua, LuaString, MultiValue, Result, Table, UserData, UserDataMethods,
    Value,
};

use super::body_reader::{BodyReader, ReadAmount, ReadResult};
use super::fields;
use super::server_exchange::ServerExchange;
use crate::limits::HTTP_UNSENT_BYTES;
use lua_vm::async_function;
use lua_vm::errno;
use lua_vm::streams::peer_address;
use wire::Version;

#[derive(Clone)]
pub(crate) struct Stream(pub(crate) Rc<ServerExchange>);

/// `true`, or `false` and the reason.
pub(super) type Done = (bool, Option<String>);

pub(super) fn done(outcome: std::result::Result<(), impl Into<String>>) -> Done {
    match outcome {
        Ok(()) => (true, None),
        Err(reason) => (false, Some(reason.into())),
    }
}

impl UserData for Stream {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("get", |lua, Stream(inbound), key: LuaString| {
            get(lua, inbound, &key.as_bytes())
        });
        methods.add_method("take", |lua, Stream(inbound), count: Option<usize>| {
            read_now(lua, &inbound.input, count)
        });
        methods.add_method("respond", |_, Stream(inbound), given: (i64, Option<Table>)| {
            let (status, table) = given;
            let status = u16::try_from(status).ok().filter(|status| (200..=599).contains(status));
            let Some(status) = status else {
                let text = "bad argument #1 to 'respond' (a status from 200 to 599 expected)";
                return Err(Error::runtime(text));
            };
            let headers = match &table {
                Some(table) => fields::of_table("respond", 2, table)?,
                None => message::Headers::new(),
            };
            Ok(done(inbound.respond(status, headers)))
        });
        // The third value is true if the caller has to wait for space.
        methods.add_method("write", |_, Stream(inbound), data: LuaString| {
            let (ok, reason) = done(inbound.write(&data.as_bytes()));
            Ok((ok, reason, inbound.output.unsent() > HTTP_UNSENT_BYTES))
        });
        // The last piece is sent together with the end, whatever its size.
        methods.add_method("last", |_, Stream(inbound), data: LuaString| {
            let piece = bytes::Bytes::copy_from_slice(&data.as_bytes());
            Ok(done(inbound.output.push(piece)))
        });
        methods.add_method("release", |_, Stream(inbound), ()| {
            inbound.release();
            Ok(())
        });
        methods.add_method("isalive", |_, Stream(inbound), ()| Ok(!inbound.is_gone()));
        methods.add_method("close", |_, Stream(inbound), ()| {
            let fault = Fault::unanswered(FaultKind::Internal, "the handler closed the connection");
            Ok(done(inbound.fail(fault).then_some(()).ok_or(errno::CLOSED)))
        });
        methods.add_method("finish", |_, Stream(inbound), table: Option<Table>| {
            let trailers = table.map(|table| fields::of_table("closewrite", 2, &table));
            let first = !inbound.output.is_closed();
            inbound.finish(trailers.transpose()?);
            Ok(done(first.then_some(()).ok_or(errno::CLOSED)))
        });
    }
}

/// The result of a read without waiting; nothing if it has to wait.
pub(super) fn read_now(lua: &Lua, input: &BodyReader, count: Option<usize>) -> Result<MultiValue> {
    match input.take(ReadAmount::of(count)?) {
        Some(read) => ReadResult(read).into_lua_multi(lua),
        None => Ok(MultiValue::new()),
    }
}

fn get(lua: &Lua, inbound: &ServerExchange, key: &[u8]) -> Result<Value> {
    let text = |bytes: &[u8]| lua.create_string(bytes).map(Value::String);
    match key {
        b"method" => text(inbound.method.as_bytes()),
        b"path" => text(inbound.target.path_bytes()),
        b"target" => text(inbound.target.raw()),
        b"version" if inbound.version == Version::Http2 => text(b"HTTP/2"),
        b"version" => text(inbound.version.as_str().as_bytes()),
        b"remoteaddr" => text(peer_address(&inbound.peer).as_bytes()),
        b"scheme" => text(inbound.scheme.as_str().as_bytes()),
        b"header" => fields::to_table(lua, &inbound.headers).map(Value::Table),
        b"query" => query(lua, inbound.target.query().unwrap_or_default()).map(Value::Table),
        b"eof" => Ok(Value::Boolean(inbound.input.is_ended())),
        b"trailer" => match &*inbound.input.trailers.borrow() {
            Some(trailers) => fields::to_table(lua, trailers).map(Value::Table),
            None => Ok(Value::Nil),
        },
        _ => Ok(Value::Nil),
    }
}

/// The pairs of a query, decoded; the last of a name counts.
pub(super) fn query(lua: &Lua, query: &[u8]) -> Result<Table> {
    let table = lua.create_table()?;
    for (name, value) in wire::target::query_pairs(query) {
        table.raw_set(lua.create_string(&*name)?, lua.create_string(&*value)?)?;
    }
    Ok(table)
}

/// Adds the functions that wait: `read`, `readall`, `room`.
pub(super) fn add_waiting(lua: &Lua, table: &Table) -> Result<()> {
    type CallArguments = (mlua::UserDataRef<Stream>, Option<usize>, Option<u64>);
    let read = async_function::create(lua, |_, (stream, count, ms): CallArguments| {
        let (inbound, want) = (stream.0.clone(), ReadAmount::of(count)?);
        Ok(async move { Ok(inbound.input.read(want, ms).await) })
    })?;
    table.set("read", read)?;
    type All = (mlua::UserDataRef<Stream>, Option<u64>);
    let readall = async_function::create(lua, |_, (stream, ms): All| {
        let inbound = stream.0.clone();
        Ok(async move { Ok(inbound.input.read(ReadAmount::All, ms).await) })
    })?;
    table.set("readall", readall)?;
    let room =
        async_function::create(lua, |_, (stream, at_most): (mlua::UserDataRef<Stream>, usize)| {
            let inbound = stream.0.clone();
            Ok(async move {
                let room = inbound.output.wait_for_room(at_most).await;
                Ok(done(room.then_some(()).ok_or(errno::CLOSED)))
            })
        })?;
    table.set("room", room)
}
