//! `tcp.connect`: by name or number, over TCP or a Unix socket.
//!
//! Promises to try the addresses of a name one after the other, within one time-out for all.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use mlua::{Function, IntoLua, IntoLuaMulti, Lua, MultiValue, Result, Table, Value, ffi};
use net::{Peer, Stream};

use crate::address;
use crate::errno;
use crate::limits::CONNECT_MS;
use crate::stack;
use crate::streams::peer_address;
use crate::vm::Vm;
use crate::waits;

/// Where to, from where, for how long.
struct ConnectRequest {
    to: ConnectTarget,
    from: Option<SocketAddr>,
    patience: Duration,
}

enum ConnectTarget {
    Unix(PathBuf),
    Address(SocketAddr),
    Name(String, u16),
}

/// `connect(address[, { bind =, timeout = } | bind]) → conn | nil, err`
pub(super) fn function(lua: &Lua) -> Result<Function> {
    waits::function(lua, |lua, (to, options): (String, Value)| {
        let plan = plan(&to, &options)?;
        let names = Vm::of(lua)?.names();
        Ok(async move {
            let patience = plan.patience;
            let made = match plan.to {
                ConnectTarget::Unix(path) => {
                    let connected = Stream::connect_unix(&path);
                    net::timer::within(patience, connected).await.map(|made| {
                        made.map(|stream| (stream, Peer::Unix)).map_err(|e| errno::of_error(&e))
                    })
                }
                ConnectTarget::Address(address) => {
                    net::timer::within(patience, reach(&[address], plan.from)).await
                }
                ConnectTarget::Name(host, port) => {
                    net::timer::within(patience, async move {
                        match names.resolve(&host, port).await {
                            Ok(answer) => reach(&answer.addresses, plan.from).await,
                            Err(_) => Err(errno::RESOLVE.to_owned()),
                        }
                    })
                    .await
                }
            };
            let made = made.unwrap_or_else(|| Err(errno::of_number(libc::ETIMEDOUT)));
            Ok(ConnectResult(made))
        })
    })
}

fn plan(to: &str, options: &Value) -> Result<ConnectRequest> {
    let mut plan = ConnectRequest {
        to: target(to)
            .ok_or_else(|| argument(1, "an address with a port, or unix:path, expected"))?,
        from: None,
        patience: Duration::from_millis(CONNECT_MS),
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
                plan.patience = Duration::from_millis(ms);
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

async fn reach(
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

/// Becomes a connection of the VM, or `nil, err`.
struct ConnectResult(std::result::Result<(Stream, Peer), String>);

impl IntoLuaMulti for ConnectResult {
    fn into_lua_multi(self, lua: &Lua) -> Result<MultiValue> {
        let (stream, peer) = match self.0 {
            Ok(made) => made,
            Err(reason) => return (Value::Nil, reason.into_lua(lua)?).into_lua_multi(lua),
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
