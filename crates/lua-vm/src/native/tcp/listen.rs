//! `tcp.listen`, in the forms of all dialects.
//!
//! `listen(address, fn[, backlog])`, `listen{ addr =, accept = | callback =, backlog = }`; the
//! function gets the connection and the peer's address. Never waits.

use std::ffi::c_int;

use mlua::ffi;
use net::{BoundSocket, ListenOptions, Listening};

use crate::address;
use crate::errno;
use crate::limits::BACKLOG;
use crate::raw_function;
use crate::stack::{self, LuaState};
use crate::vm::Vm;

/// `listen(…) → listener | nil, err`
pub(super) unsafe extern "C-unwind" fn listen(state: LuaState) -> c_int {
    // SAFETY: what is held while something may raise are Lua values only.
    unsafe {
        if ffi::lua_type(state, 1) == ffi::LUA_TTABLE {
            unpack_fields(state);
        }
        if ffi::lua_type(state, 1) != ffi::LUA_TSTRING {
            return ffi::luaL_argerror(state, 1, c"an address expected".as_ptr());
        }
        if ffi::lua_type(state, 2) != ffi::LUA_TFUNCTION {
            return ffi::luaL_argerror(state, 2, c"an accept function expected".as_ptr());
        }
        let backlog = ffi::luaL_optinteger(state, 3, i64::from(BACKLOG));
        let backlog = u32::try_from(backlog).unwrap_or(BACKLOG).max(1);
        ffi::lua_settop(state, 2);
        let accept = ffi::luaL_ref(state, ffi::LUA_REGISTRYINDEX);
        let values = begin(state, accept, backlog);
        if values == 2 {
            ffi::luaL_unref(state, ffi::LUA_REGISTRYINDEX, accept);
        }
        values
    }
}

/// Makes positional arguments of a table's fields.
///
/// # Safety
/// The first argument is a table; nothing is held.
unsafe fn unpack_fields(state: LuaState) {
    // SAFETY: promised by the caller.
    unsafe {
        ffi::lua_settop(state, 1);
        ffi::lua_getfield(state, 1, c"addr".as_ptr());
        if ffi::lua_getfield(state, 1, c"accept".as_ptr()) == ffi::LUA_TNIL {
            ffi::lua_settop(state, 2);
            ffi::lua_getfield(state, 1, c"callback".as_ptr());
        }
        ffi::lua_getfield(state, 1, c"backlog".as_ptr());
        ffi::lua_remove(state, 1);
    }
}

/// Leaves the listener, or `nil` and why not.
///
/// # Safety
/// The address is the only value on the stack.
unsafe fn begin(state: LuaState, accept: c_int, backlog: u32) -> c_int {
    // SAFETY: the address stays on the stack while it is looked at.
    unsafe {
        let vm = raw_function::vm(state);
        let text = String::from_utf8_lossy(stack::bytes(state, 1).unwrap_or_default());
        let listener = bind(vm, &text, backlog)
            .and_then(|socket| socket.adopt().map_err(|error| errno::of_error(&error)));
        match listener {
            Ok(listener) => {
                let local = listener.local().to_string();
                let handle = vm.streams.listen(listener, accept, None);
                stack::push(state, local.as_bytes());
                super::push_listener(state, handle);
                1
            }
            Err(reason) => stack::refuse(state, &reason),
        }
    }
}

/// A socket that listens: with several VMs each has its own on the same address.
pub fn bind(vm: &Vm, text: &str, backlog: u32) -> Result<BoundSocket, String> {
    let invalid = || errno::of_number(libc::EINVAL);
    let bind = address::bind(text).ok_or_else(invalid)?;
    let options = ListenOptions { backlog, ..ListenOptions::default() };
    let socket = match &vm.options().bind {
        Some(bind_socket) => bind_socket(&bind, &options),
        None => Listening::bind(&bind, 1, &options).map(|listening| listening.into_sockets().pop()),
    };
    socket.map_err(|error| errno::of_error(&error.error))?.ok_or_else(invalid)
}
