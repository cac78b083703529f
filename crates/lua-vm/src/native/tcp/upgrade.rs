//! TLS on a connection in use, as its client or its server: for protocols that begin in the clear.
//!
//! Promises that no byte received in the clear is taken for one of the session, and that a
//! connection whose handshake failed is broken.

use std::io;
use std::time::Duration;

use mlua::{Function, IntoLuaMulti, Lua, MultiValue, Result, Table, Value};
use net::Stream;
use net::tls::{AcceptError, ServerTls};

use super::ServerIdentity;
use crate::address;
use crate::async_function;
use crate::errno;
use crate::ids::StreamHandle;
use crate::limits::{CONNECT_MS, TLS_HANDSHAKE_MS};
use crate::vm::Vm;

/// The side of a handshake, with its settings.
pub enum TlsSide {
    Client(ServerIdentity),
    Server(ServerTls),
}

type SideResult = std::result::Result<TlsSide, String>;

/// `upgrade(conn, options) → true | nil, err[, detail]`. `side` makes the settings from the peer's
/// host and the options. Nothing may be unsent.
pub fn upgrader(
    lua: &Lua,
    side: impl Fn(&Lua, &str, Option<&Table>) -> Result<SideResult> + 'static,
) -> Result<Function> {
    async_function::create(lua, move |lua, (connection, options): (Table, Option<Table>)| {
        let handle = super::handle_of(&connection, "upgrade")?;
        let peer: String = connection.raw_get("remoteaddr")?;
        let side = side(lua, address::split(&peer).0.unwrap_or("localhost"), options.as_ref())?;
        let default = match side {
            Ok(TlsSide::Server(_)) => TLS_HANDSHAKE_MS,
            _ => CONNECT_MS,
        };
        let given = options.map(|options| options.get::<Option<u64>>("timeout")).transpose()?;
        let timeout = Duration::from_millis(given.flatten().unwrap_or(default));
        let vm = Vm::of(lua)?;
        let begun = side.and_then(|side| Ok((side, vm.streams.take_stream(handle)?)));
        Ok(async move {
            let (side, stream) = match begun {
                Ok(begun) => begun,
                Err(reason) => return Ok(UpgradeResult::Refused(reason)),
            };
            let made = net::timer::within(timeout, handshake(stream, &side)).await;
            Ok(UpgradeResult::Ended(handle, made.unwrap_or(Err(io::ErrorKind::TimedOut.into()))))
        })
    })
}

async fn handshake(stream: Stream, side: &TlsSide) -> io::Result<Stream> {
    match side {
        TlsSide::Client((tls, name)) => stream.connect_tls(tls, name).await,
        TlsSide::Server(tls) => stream.accept_tls(tls).await.map_err(|error| match error {
            AcceptError::PlainText(..) => io::Error::other("the client speaks plain text"),
            AcceptError::Failed(error) => error,
        }),
    }
}

enum UpgradeResult {
    /// The handshake has not begun; the connection is as it was.
    Refused(String),
    Ended(StreamHandle, io::Result<Stream>),
}

impl IntoLuaMulti for UpgradeResult {
    fn into_lua_multi(self, lua: &Lua) -> Result<MultiValue> {
        let (handle, made) = match self {
            UpgradeResult::Refused(reason) => return (Value::Nil, reason).into_lua_multi(lua),
            UpgradeResult::Ended(handle, made) => (handle, made),
        };
        let streams = &Vm::of(lua)?.streams;
        let error = match made {
            Ok(stream) => {
                return if streams.put_stream(handle, Ok(stream)) {
                    true.into_lua_multi(lua)
                } else {
                    (Value::Nil, errno::CLOSED).into_lua_multi(lua)
                };
            }
            Err(error) => error,
        };
        let reason = match error.kind() {
            io::ErrorKind::TimedOut => errno::of_number(libc::ETIMEDOUT),
            io::ErrorKind::Other => errno::TLS.to_owned(),
            _ => errno::of_error(&error),
        };
        streams.put_stream(handle, Err(&reason));
        (Value::Nil, reason, error.to_string()).into_lua_multi(lua)
    }
}
