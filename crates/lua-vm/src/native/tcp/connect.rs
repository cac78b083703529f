//! `connect`: by name or number, over TCP or a Unix socket, in the clear or with TLS.
//!
//! Promises to try the addresses of a name one after the other, within one time-out for all and for
//! the handshake.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use mlua::{Function, IntoLuaMulti, Lua, MultiValue, Result, Table, Value, ffi};
use net::tls::{CertificateName, ClientTls};
use net::{Peer, Resolver, Stream};

use crate::address;
use crate::async_function;
use crate::errno;
use crate::limits::CONNECT_MS;
use crate::stack;
use crate::streams::peer_address;
use crate::vm::Vm;

/// The target, the local address and the time-out of a connection.
struct ConnectRequest {
    to: ConnectTarget,
    from: Option<SocketAddr>,
    timeout: Duration,
}

enum ConnectTarget {
    Unix(PathBuf),
    Address(SocketAddr),
    Name(String, u16),
}

/// The TLS settings of a connection, and the name that the server must prove.
pub type ServerIdentity = (ClientTls, CertificateName);

/// The TLS of a connection, `None` in the clear; or why it cannot be made.
type IdentityResult = std::result::Result<Option<ServerIdentity>, String>;

/// `connect(address[, { bind =, timeout = } | bind]) → conn | nil, err[, detail]`. `identity`
/// makes the TLS of a connection from the host and the options.
pub fn connector(
    lua: &Lua,
    identity: impl Fn(&Lua, &str, &Value) -> Result<IdentityResult> + 'static,
) -> Result<Function> {
    async_function::create(lua, move |lua, (to, options): (String, Value)| {
        let plan = plan(&to, &options)?;
        let host = address::split(&to).0.unwrap_or("localhost");
        let identity = identity(lua, host, &options)?;
        let names = Vm::of(lua)?.resolver();
        Ok(async move {
            let identity = match identity {
                Ok(identity) => identity,
                Err(reason) => return Ok(ConnectResult(Err((reason, None)))),
            };
            let connecting = async {
                let (stream, peer) =
                    open(plan.to, plan.from, &names).await.map_err(|why| (why, None))?;
                let Some((tls, name)) = identity else { return Ok((stream, peer)) };
                match stream.connect_tls(&tls, &name).await {
                    Ok(stream) => Ok((stream, peer)),
                    Err(error) => Err((errno::of_error(&error), Some(error.to_string()))),
                }
            };
            let made = net::timer::within(plan.timeout, connecting).await;
            let timed_out = || Err((errno::of_number(libc::ETIMEDOUT), None));
            Ok(ConnectResult(made.unwrap_or_else(timed_out)))
        })
    })
}

/// Connects in the clear.
async fn open(
    to: ConnectTarget,
    from: Option<SocketAddr>,
    names: &Resolver,
) -> std::result::Result<(Stream, Peer), String> {
    match to {
        ConnectTarget::Unix(path) => {
            let stream = Stream::connect_unix(&path).await;
            stream.map(|stream| (stream, Peer::Unix)).map_err(|error| errno::of_error(&error))
        }
        ConnectTarget::Address(address) => connect_any(&[address], from).await,
        ConnectTarget::Name(host, port) => match names.resolve(&host, port).await {
            Ok(resolved) => connect_any(&resolved.addresses, from).await,
            Err(_) => Err(errno::RESOLVE.to_owned()),
        },
    }
}

fn plan(to: &str, options: &Value) -> Result<ConnectRequest> {
    let mut plan = ConnectRequest {
        to: target(to)
            .ok_or_else(|| argument(1, "an address with a port, or unix:path, expected"))?,
        from: None,
        timeout: Duration::from_millis(CONNECT_MS),
    };
    let own = |text: &str| address::socket(&with_port(text)).ok_or_else(|| argument(2, "bind"));
    match options {
        Value::Nil => {}
        Value::String(from) => plan.from = Some(own(&from.to_string_lossy())?),
        Value::Table(options) => {
            if let Some(from) = options.get::<Option<String>>("bind")? {
                plan.from = Some(own(&from)?);
            }
            if let Some(ms) = timeout(options)? {
                plan.timeout = Duration::from_millis(ms);
            }
        }
        _ => return Err(argument(2, "a table or an address expected")),
    }
    Ok(plan)
}

fn timeout(options: &Table) -> Result<Option<u64>> {
    Ok(options.get::<Option<f64>>("timeout")?.map(|ms| ms.max(0.0) as u64))
}

/// An address to bind to may leave out its port.
fn with_port(text: &str) -> String {
    match address::split(text) {
        (Some(host), None) if host.contains(':') => format!("[{host}]:0"),
        (Some(host), None) => format!("{host}:0"),
        _ => text.to_owned(),
    }
}

fn argument(index: usize, why: &str) -> mlua::Error {
    mlua::Error::runtime(format!("bad argument #{index} to 'connect' ({why})"))
}

fn target(text: &str) -> Option<ConnectTarget> {
    if let Some(path) = text.strip_prefix("unix:") {
        return (!path.is_empty()).then(|| ConnectTarget::Unix(path.into()));
    }
    if let (None, Some(port)) = address::split(text) {
        // Without a host this machine is meant.
        return Some(ConnectTarget::Address(SocketAddr::from((
            [127, 0, 0, 1],
            port.parse().ok()?,
        ))));
    }
    if let Some(address) = address::socket(text) {
        return Some(ConnectTarget::Address(address));
    }
    let (host, port) = address::split(text);
    Some(ConnectTarget::Name(host?.to_owned(), port?.parse().ok()?))
}

async fn connect_any(
    addresses: &[SocketAddr],
    from: Option<SocketAddr>,
) -> std::result::Result<(Stream, Peer), String> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        let made = match from {
            Some(from) => Stream::connect_tcp_from(from, *address).await,
            None => Stream::connect_tcp(*address).await,
        };
        match made {
            Ok(stream) => return Ok((stream, Peer::Tcp(*address))),
            Err(error) => failed = error,
        }
    }
    Err(errno::of_error(&failed))
}

/// Becomes a connection of the VM, or `nil, err, detail`.
struct ConnectResult(std::result::Result<(Stream, Peer), (String, Option<String>)>);

impl IntoLuaMulti for ConnectResult {
    fn into_lua_multi(self, lua: &Lua) -> Result<MultiValue> {
        let (stream, peer) = match self.0 {
            Ok(made) => made,
            Err((reason, None)) => return (Value::Nil, reason).into_lua_multi(lua),
            Err((reason, detail)) => return (Value::Nil, reason, detail).into_lua_multi(lua),
        };
        let handle = Vm::of(lua)?.streams.insert(stream);
        let address = peer_address(&peer);
        // SAFETY: pushes an address and a connection, and leaves the connection.
        unsafe {
            lua.exec_raw((), |state| {
                stack::push(state, address.as_bytes());
                super::push_connection(state, handle);
                ffi::lua_remove(state, 1);
            })
        }
    }
}
