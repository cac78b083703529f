//! `net.tls`: the raw calls of connections and listeners with TLS.
//!
//! A connection with TLS is one of `net.tcp`, whose stream has a TLS session; this module has only
//! the functions that differ.

use std::rc::Rc;

use mlua::{Function, IntoLuaMulti, Lua, MultiValue, Result, Value, ffi};

use super::tcp;
use crate::errno;
use crate::stack;
use crate::streams::TlsListener;
use crate::vm::Vm;

pub use tcp::{ServerIdentity, TlsSide, connector, upgrader};

/// Listens with TLS: `listener | nil, err`. Calls `accept(conn, address)` after each handshake.
pub fn listen(
    lua: &Lua,
    address: &str,
    backlog: u32,
    accept: Function,
    tls: Rc<TlsListener>,
) -> Result<MultiValue> {
    let vm = Vm::of(lua)?;
    let listener = tcp::bind(&vm, address, backlog)
        .and_then(|socket| socket.adopt().map_err(|error| errno::of_error(&error)));
    let listener = match listener {
        Ok(listener) => listener,
        Err(reason) => return (Value::Nil, reason).into_lua_multi(lua),
    };
    let local = listener.local().to_string();
    // SAFETY: takes the function, and leaves its reference as a number.
    let reference: i32 = unsafe {
        lua.exec_raw(accept, |state| {
            let reference = ffi::luaL_ref(state, ffi::LUA_REGISTRYINDEX);
            ffi::lua_pushinteger(state, reference.into());
        })?
    };
    let handle = vm.streams.listen(listener, reference, Some(tls));
    // SAFETY: pushes an address and a listener, and leaves the listener.
    unsafe {
        lua.exec_raw((), |state| {
            stack::push(state, local.as_bytes());
            tcp::push_listener(state, handle);
            ffi::lua_remove(state, 1);
        })
    }
}
