//! `net.websocket`: both sides of RFC 6455, over `http-server` and `http-client`.
//!
//! Promises what `websocket/socket.rs` does, that written text is UTF-8, and that a collected
//! socket is closed. Extensions are not supported.

mod handshake;
mod sides;
mod socket;
#[cfg(test)]
mod tests;

use std::rc::Rc;
use std::time::Duration;

use http_client::{ClientOptions, PoolLimits, Url};
use message::{Body, Fault, Headers};
use mlua::{
    Error, IntoLuaMulti, Lua, LuaString, MultiValue, Result, Table, UserData, UserDataMethods,
    UserDataRef, Value,
};
use wire::websocket::{CONTROL_BYTES_MAX, Message, Opcode, is_close_code};

use super::http::{Stream, client_of, fields};
use crate::limits::{HTTP_CONNECT_MS, WEBSOCKET_BYTES};
use crate::tls::client_tls;
use lua_vm::Vm;
use lua_vm::async_function;
use lua_vm::errno;
use lua_vm::script;
use socket::Socket;

/// A socket, as a script holds it.
struct Handle(Rc<Socket>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close(Some(1001), b"");
    }
}

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let raw = lua.create_table()?;
    raw.set("upgrade", lua.create_function(upgrade)?)?;
    raw.set("connect", connect(lua)?)?;
    let read =
        async_function::create(lua, |_, (handle, ms): (UserDataRef<Handle>, Option<u64>)| {
            let socket = handle.0.clone();
            Ok(async move {
                let span = Duration::from_millis(ms.unwrap_or(u64::from(u32::MAX)));
                let read = net::timer::within(span, socket.read()).await;
                Ok(Read(read.unwrap_or_else(|| Err(errno::of_number(libc::ETIMEDOUT)))))
            })
        })?;
    raw.set("read", read)?;
    let room = async_function::create(lua, |_, handle: UserDataRef<Handle>| {
        let socket = handle.0.clone();
        Ok(async move {
            Ok(match socket.wait_for_room().await {
                true => (true, None),
                false => (false, Some(errno::CLOSED)),
            })
        })
    })?;
    raw.set("room", room)?;
    script::open(lua, "websocket", include_str!("../../../lua/websocket.lua"), raw)
}

fn limit(options: Option<&Table>) -> Result<usize> {
    let given = options.map(|options| options.get::<Option<usize>>("max_message")).transpose()?;
    Ok(given.flatten().unwrap_or(WEBSOCKET_BYTES))
}

/// `upgrade(exchange, options) → socket | nil, err, status`
fn upgrade(
    _: &Lua,
    (stream, options): (UserDataRef<Stream>, Option<Table>),
) -> Result<(Option<Handle>, Option<&'static str>, Option<u16>)> {
    let protocol = options.as_ref().map(|options| options.get::<Option<String>>("protocol"));
    let protocol = protocol.transpose()?.flatten();
    let headers = match handshake::answer(&stream.0, protocol.as_deref()) {
        Ok(headers) => headers,
        Err((status, reason)) => return Ok((None, Some(reason), Some(status))),
    };
    let socket = Rc::new(Socket::new(false, limit(options.as_ref())?));
    Ok(match stream.0.hand_over(headers, sides::serve(socket.clone())) {
        true => (Some(Handle(socket)), None, None),
        false => (None, Some("the response has begun already"), None),
    })
}

/// `connect(url, header, options) → socket, remoteaddr | nil, err`
fn connect(lua: &Lua) -> Result<mlua::Function> {
    type CallArguments = (LuaString, Option<Table>, Option<Table>);
    let plain = Rc::new(client_of(PoolLimits::default(), options_of_client(), None));
    async_function::create(lua, move |lua, (text, table, options): CallArguments| {
        let url = Url::parse(&text.to_string_lossy(), "ws", "wss");
        let tls = match &url {
            Ok(url) if url.is_secure => Some(client_tls(options.as_ref(), &[b"http/1.1"])?),
            _ => None,
        };
        let headers = match &table {
            Some(table) => fields::of_table("connect", 2, table)?,
            None => Headers::new(),
        };
        let limit = limit(options.as_ref())?;
        let reason = |fault: Fault| super::http::reason(&fault);
        let (plain, names) = (plain.clone(), Vm::of(lua)?.resolver());
        Ok(async move {
            let reached = async {
                let url = url?;
                let client = match tls.transpose()? {
                    None => plain,
                    tls => Rc::new(client_of(PoolLimits::default(), options_of_client(), tls)),
                };
                let (request, accept) = handshake::request(&url, headers)?;
                let connection = client.connect(&names, &url).await.map_err(reason)?;
                let address = connection.address().to_string();
                let sent = client.send(connection, &request, Body::Empty).await;
                let mut response = sent.map_err(reason)?;
                let status = response.status;
                let refused = || format!("the server responded with {status} instead of 101");
                let tunnel = response.takeover.take().ok_or_else(refused)?;
                if response.headers.get("sec-websocket-accept") != Some(accept.as_bytes()) {
                    return Err(
                        "the server's Sec-WebSocket-Accept does not match the key".to_owned()
                    );
                }
                let socket = Rc::new(Socket::new(true, limit));
                sides::connect(socket.clone(), tunnel);
                Ok((Handle(socket), address))
            };
            Ok(match reached.await {
                Ok((handle, address)) => (Some(handle), address),
                Err(reason) => (None, reason),
            })
        })
    })
}

fn options_of_client() -> Rc<ClientOptions> {
    Rc::new(ClientOptions {
        response: Duration::from_millis(HTTP_CONNECT_MS),
        // A WebSocket has no idle time-out.
        tunnel_idle: Duration::from_millis(u64::from(u32::MAX)),
        via: false,
        ..ClientOptions::default()
    })
}

/// Becomes data and type, or `nil, reason, ""`.
struct Read(std::result::Result<Message, String>);

impl IntoLuaMulti for Read {
    fn into_lua_multi(self, lua: &Lua) -> Result<MultiValue> {
        let (data, kind) = match self.0 {
            Ok(Message::Text(data)) => (data, "text"),
            Ok(Message::Binary(data)) => (data, "binary"),
            Ok(Message::Ping(data)) => (data, "ping"),
            Ok(Message::Pong(data)) => (data, "pong"),
            Ok(Message::Close(code, reason)) => {
                return (lua.create_string(reason)?, "close", code).into_lua_multi(lua);
            }
            Err(reason) => return (Value::Nil, reason, "").into_lua_multi(lua),
        };
        (lua.create_string(data)?, kind).into_lua_multi(lua)
    }
}

impl UserData for Handle {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("take", |lua, Handle(socket), ()| match socket.take() {
            Some(read) => Read(read).into_lua_multi(lua),
            None => Ok(MultiValue::new()),
        });
        // The third value is true if the caller has to wait for space.
        methods.add_method("write", |_, Handle(socket), (data, kind): (LuaString, LuaString)| {
            let data = data.as_bytes();
            let opcode = opcode(&kind.as_bytes(), &data)?;
            Ok(match socket.send(opcode, &data) {
                Ok(()) => (true, None, socket.is_full()),
                Err(reason) => (false, Some(reason), false),
            })
        });
        methods.add_method("isalive", |_, Handle(socket), ()| Ok(socket.is_open()));
        type CloseArguments = (Option<u16>, Option<LuaString>);
        methods.add_method("close", |_, Handle(socket), (code, reason): CloseArguments| {
            let code = code.unwrap_or(1000);
            let reason = reason.map(|reason| reason.as_bytes().to_vec()).unwrap_or_default();
            if !is_close_code(code) {
                return Err(wrong("close", 1, "1000 to 1014 or 3000 to 4999 expected"));
            }
            if reason.len() > CONTROL_BYTES_MAX - 2 || std::str::from_utf8(&reason).is_err() {
                return Err(wrong("close", 2, "UTF-8 of at most 123 bytes expected"));
            }
            let first = socket.close(Some(code), &reason);
            Ok((first, (!first).then_some(errno::CLOSED)))
        });
    }
}

fn opcode(kind: &[u8], data: &[u8]) -> Result<Opcode> {
    let opcode = match kind {
        b"text" if std::str::from_utf8(data).is_err() => {
            return Err(wrong("write", 1, "a text is UTF-8"));
        }
        b"text" => Opcode::Text,
        b"binary" => Opcode::Binary,
        b"ping" => Opcode::Ping,
        b"pong" => Opcode::Pong,
        _ => return Err(wrong("write", 2, "text, binary, ping or pong expected")),
    };
    if opcode.is_control() && data.len() > CONTROL_BYTES_MAX {
        return Err(wrong("write", 1, "at most 125 bytes in a ping or pong"));
    }
    Ok(opcode)
}

fn wrong(function: &str, index: usize, why: &str) -> Error {
    Error::runtime(format!("bad argument #{index} to '{function}' ({why})"))
}
