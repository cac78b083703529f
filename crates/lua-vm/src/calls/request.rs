//! The request object.
//!
//! Promises that a field costs nothing until it is read, and that tables made of the request
//! (`query`, `params`, `state`) are made once. `state` is the request's own: filters and handler
//! see the same table.

use std::ffi::c_int;

use message::Request;
use mlua::{Lua, Result, ffi};

use super::call::Call;
use super::object::{self, CallObject};
use super::object_kind::{BODY, REQUEST, REQUEST_HEADERS};
use super::request_state;
use crate::stack::{self, LuaState};
use crate::vm::Vm;

pub(super) fn open(lua: &Lua, vm: &Vm) -> Result<()> {
    object::metatable(lua, vm, REQUEST, "request", &[(c"__index", get), (c"__newindex", set)])
}

/// The value of a field of a request.
enum RequestField {
    Text(*const [u8]),
    Headers,
    Body,
    Client,
    /// A table that is made once.
    Table(RequestTable),
    Nothing,
}

#[derive(Clone, Copy)]
enum RequestTable {
    Query = 1,
    Params = 2,
    State = 3,
}

fn field(request: &Request, name: &[u8]) -> RequestField {
    let text = |text: &[u8]| RequestField::Text(std::ptr::from_ref(text));
    match name {
        b"method" => text(request.method.as_bytes()),
        b"path" => text(request.target.path_bytes()),
        b"target" => text(request.target.raw()),
        b"host" => text(request.host()),
        b"scheme" => text(request.scheme.as_str().as_bytes()),
        b"request_id" => {
            request.request_id.as_ref().map_or(RequestField::Nothing, |id| text(id.as_bytes()))
        }
        b"consumer" => {
            request.consumer_name().map_or(RequestField::Nothing, |name| text(name.as_bytes()))
        }
        b"headers" => RequestField::Headers,
        b"body" => RequestField::Body,
        b"client_ip" => RequestField::Client,
        b"query" => RequestField::Table(RequestTable::Query),
        b"params" => RequestField::Table(RequestTable::Params),
        b"state" => RequestField::Table(RequestTable::State),
        _ => RequestField::Nothing,
    }
}

/// `request[name]`
unsafe extern "C-unwind" fn get(state: LuaState) -> c_int {
    // SAFETY: text is copied by the push before anything else can happen; a call has its request.
    unsafe {
        let CallObject { vm, id, call, .. } = object::call_of(state, REQUEST);
        let name = stack::bytes(state, 2).unwrap_or_default();
        match field(&*(*call).request, name) {
            RequestField::Text(text) => stack::push(state, &*text),
            RequestField::Headers => object::push(state, vm, REQUEST_HEADERS, id),
            RequestField::Body => object::push(state, vm, BODY, id),
            RequestField::Client => push_address(state, call),
            RequestField::Table(made) => push_made(state, call, made),
            RequestField::Nothing => ffi::lua_pushnil(state),
        }
    }
    1
}

/// # Safety
/// As [`get`].
unsafe fn push_address(state: LuaState, call: *mut Call) {
    use std::io::Write;
    let mut text = [0_u8; 48];
    let mut rest = &mut text[..];
    // SAFETY: promised by the caller. An address is shorter than the room.
    unsafe {
        let _ = write!(rest, "{}", (*(*call).request).client_ip);
        let length = 48 - rest.len();
        stack::push(state, &text[..length]);
    }
}

/// # Safety
/// As [`get`]: the request is the first value.
unsafe fn push_made(state: LuaState, call: *mut Call, made: RequestTable) {
    // SAFETY: promised by the caller.
    unsafe {
        if ffi::lua_getiuservalue(state, 1, 1) != ffi::LUA_TTABLE {
            ffi::lua_createtable(state, 3, 0);
            ffi::lua_pushvalue(state, -1);
            ffi::lua_setiuservalue(state, 1, 1);
        }
        if ffi::lua_rawgeti(state, -1, made as i64) == ffi::LUA_TTABLE {
            return;
        }
        match made {
            RequestTable::Query => push_query(state, call),
            RequestTable::Params => push_params(state, call),
            RequestTable::State => request_state::push_state(state, &mut *(*call).request),
        }
        ffi::lua_pushvalue(state, -1);
        ffi::lua_rawseti(state, -4, made as i64);
    }
}

/// Sets `table[key] = value`, or makes an array of a value that is there: key and value are on top.
///
/// # Safety
/// The table lies below key and value.
unsafe fn add(state: LuaState) {
    // SAFETY: promised by the caller.
    unsafe {
        ffi::lua_pushvalue(state, -2);
        match ffi::lua_rawget(state, -4) {
            ffi::LUA_TNIL => {
                ffi::lua_settop(state, -2);
                ffi::lua_rawset(state, -3);
            }
            ffi::LUA_TTABLE => {
                ffi::lua_insert(state, -2);
                ffi::lua_rawseti(state, -2, ffi::lua_rawlen(state, -2) as i64 + 1);
                ffi::lua_settop(state, -3);
            }
            _ => {
                ffi::lua_createtable(state, 2, 0);
                ffi::lua_insert(state, -3);
                ffi::lua_rawseti(state, -3, 1);
                ffi::lua_rawseti(state, -2, 2);
                ffi::lua_rawset(state, -3);
            }
        }
    }
}

/// # Safety
/// As [`get`].
unsafe fn push_query(state: LuaState, call: *mut Call) {
    // SAFETY: promised by the caller. The pairs are copied out first, because making a table may
    // run a finalizer, which may change the request.
    unsafe {
        ffi::luaL_checkstack(state, 8, c"query".as_ptr());
        ffi::lua_createtable(state, 0, 4);
        let pairs: Vec<(Vec<u8>, Vec<u8>)> = match (*(*call).request).target.query() {
            None => return,
            Some(query) => wire::target::query_pairs(query)
                .map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
        };
        for (name, value) in &pairs {
            stack::push(state, name);
            stack::push(state, value);
            add(state);
        }
    }
}

/// # Safety
/// As [`get`].
unsafe fn push_params(state: LuaState, call: *mut Call) {
    // SAFETY: as in `push_query`.
    unsafe {
        ffi::lua_createtable(state, 0, 2);
        let request = &*(*call).request;
        let path = request.target.routed_path();
        let pairs: Vec<(String, String)> = request
            .params
            .names()
            .filter_map(|name| Some((name.to_owned(), request.params.get(path, name)?.to_owned())))
            .collect();
        for (name, value) in &pairs {
            stack::push(state, name.as_bytes());
            stack::push(state, value.as_bytes());
            ffi::lua_rawset(state, -3);
        }
    }
}

/// `request.path = …`: later filters and the handler see the new path; other fields are rejected.
unsafe extern "C-unwind" fn set(state: LuaState) -> c_int {
    // SAFETY: the stack holds object, name and value.
    unsafe {
        let call = object::call_of(state, REQUEST).call;
        if stack::bytes(state, 2) != Some(b"path") {
            stack::raise(state, "of a request only the path, headers and state can be set");
        }
        let path = stack::check_bytes(state, 3);
        if path.first() != Some(&b'/') || !replace_path(&mut *(*call).request, path) {
            stack::raise(state, "bad path");
        }
    }
    0
}

fn replace_path(request: &mut Request, path: &[u8]) -> bool {
    let mut raw = Vec::with_capacity(path.len());
    wire::target::encode_path(path, &mut raw);
    request.target.replace_path(&raw).is_ok()
}
