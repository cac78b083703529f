//! The request in a script's hands.
//!
//! Promises that a field costs nothing until it is asked for, and that tables made of the request
//! (`query`, `params`, `state`) are made once. `state` is the request's own: filters and handler
//! see the same table.

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use exchange::Request;
use mlua::{Lua, Result, ffi};

use super::call::Call;
use super::object::{self, Found, REQUEST, REQUEST_HEADERS};
use super::request_state;
use crate::stack::{self, State};
use crate::vm::Vm;

pub(super) fn open(lua: &Lua, vm: &Vm) -> Result<()> {
    object::metatable(lua, vm, REQUEST, "request", &[(c"__index", get), (c"__newindex", set)])
}

/// What a field of a request is.
enum Field {
    Text(*const [u8]),
    Headers,
    Body,
    Client,
    /// A table that is made once: its number among the keys of the user value.
    Table(Made),
    Nothing,
}

#[derive(Clone, Copy)]
enum Made {
    Query = 1,
    Params = 2,
    State = 3,
}

fn field(request: &Request, name: &[u8]) -> Field {
    let text = |text: &[u8]| Field::Text(std::ptr::from_ref(text));
    match name {
        b"method" => text(request.method.as_bytes()),
        b"path" => text(request.target.path_bytes()),
        b"target" => text(request.target.raw()),
        b"host" => text(request.host()),
        b"scheme" => text(request.scheme.as_str().as_bytes()),
        b"request_id" => {
            request.request_id.as_ref().map_or(Field::Nothing, |id| text(id.as_bytes()))
        }
        b"consumer" => request.consumer.as_ref().map_or(Field::Nothing, |who| text(who.as_bytes())),
        b"headers" => Field::Headers,
        b"body" => Field::Body,
        b"client_ip" => Field::Client,
        b"query" => Field::Table(Made::Query),
        b"params" => Field::Table(Made::Params),
        b"state" => Field::Table(Made::State),
        _ => Field::Nothing,
    }
}

/// `request[name]`
unsafe extern "C-unwind" fn get(state: State) -> c_int {
    // SAFETY: text is copied by the push before anything else can happen; a call has its request.
    unsafe {
        let Found { vm, id, call, .. } = object::call_of(state, REQUEST);
        let name = stack::bytes(state, 2).unwrap_or_default();
        match field(&*(*call).request, name) {
            Field::Text(text) => stack::push(state, &*text),
            Field::Headers => object::push(state, vm, REQUEST_HEADERS, id),
            Field::Body => object::push(state, vm, object::BODY, id),
            Field::Client => push_address(state, call),
            Field::Table(made) => push_made(state, call, made),
            Field::Nothing => ffi::lua_pushnil(state),
        }
    }
    1
}

/// # Safety
/// As [`get`].
unsafe fn push_address(state: State, call: *mut Call) {
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
unsafe fn push_made(state: State, call: *mut Call, made: Made) {
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
            Made::Query => push_query(state, call),
            Made::Params => push_params(state, call),
            Made::State => request_state::push_state(state, &mut *(*call).request),
        }
        ffi::lua_pushvalue(state, -1);
        ffi::lua_rawseti(state, -4, made as i64);
    }
}

/// Sets `table[key] = value`, or makes an array of a value that is there: key and value are on top.
///
/// # Safety
/// The table lies below key and value.
unsafe fn add(state: State) {
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
unsafe fn push_query(state: State, call: *mut Call) {
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
unsafe fn push_params(state: State, call: *mut Call) {
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

/// `request.path = …`: what comes after this filter sees another path; the rest is refused.
unsafe extern "C-unwind" fn set(state: State) -> c_int {
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

/// The VM a raw function belongs to, as an address to compare.
pub(super) fn identity(vm: &Vm) -> *const c_void {
    std::ptr::from_ref(vm).cast()
}

/// Keeps a reference of the registry as long as the request lives.
pub(super) fn keep(request: &mut Request, kept: request_state::State) {
    request.attached = Some(Rc::new(kept));
}
