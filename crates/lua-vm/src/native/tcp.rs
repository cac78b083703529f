//! `net.tcp`: connections and listeners.
//!
//! Promises the names of all of Silly's dialects with the return values of the latest: each
//! function is a method too (`tcp.read(conn, …)` is `conn:read(…)`), `read` gives `nil, errno.EOF`
//! at the end of the stream, `nil, errno.TIMEDOUT` after its time-out and `nil, errno.CLOSED` on a
//! closed connection. These calls are frequent: they are raw functions without an allocation except
//! the string that Lua gets.

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use mlua::{Function, Lua, Result, Table, Value, ffi};
use net::Accepted;

use crate::calls::FunctionRef;
use crate::ids::StreamHandle;
use crate::raw_function;
use crate::stack::{self, LuaState};
use crate::streams::peer_address;
use crate::tasks::{EndObserver, OnTaskEnd, TaskEnd};
use crate::vm::{Turn, Vm};

mod connect;
mod listen;
mod read;
mod upgrade;
mod write;

pub use connect::{ServerIdentity, connector};
pub use listen::bind;
pub use upgrade::{TlsSide, upgrader};

/// The object of a listener: a userdata with two user values, its address and a table of the
/// script's own fields. A connection is a table instead, so that a method is found without a call:
/// its handle is at [`HANDLE`] as a light userdata, which a script cannot make.
#[repr(C)]
struct ListenerObject {
    magic: u64,
    handle: StreamHandle,
}

const LISTENER: u64 = u64::from_be_bytes(*b"tide-lis");
/// The two user values.
const ADDRESS: c_int = 1;
const FIELDS: c_int = 2;
/// The index of the handle in a connection.
const HANDLE: i64 = 1;

/// Their addresses are the keys of the metatables in the registry.
static CONNECTION_META: u8 = 1;
static LISTENER_META: u8 = 2;

fn key(meta: &'static u8) -> *const c_void {
    std::ptr::from_ref(meta).cast()
}

/// The functions of the module. `extend` adds what is written in Lua; connections have the result
/// as their methods.
pub fn open(lua: &Lua, extend: impl FnOnce(Table) -> Result<Table>) -> Result<Table> {
    let vm = Vm::of(lua)?;
    let named: Vec<raw_function::NamedFunction> =
        [read::FUNCTIONS, write::FUNCTIONS, FUNCTIONS].concat();
    let table = extend(raw_function::table(lua, &vm, &named)?)?;
    let connection = raw_function::table(lua, &vm, &[(c"__gc", collect), (c"__close", collect)])?;
    connection.set("__name", "connection")?;
    connection.set("__index", &table)?;
    register(lua, &CONNECTION_META, connection)?;
    let listener = raw_function::table(lua, &vm, &[(c"close", close_listener)])?;
    register(lua, &LISTENER_META, listener_metatable(lua, &vm, &listener)?)?;
    let listen = raw_function::table(lua, &vm, &[(c"listen", listen::listen)])?;
    table.set("listen", listen.get::<Function>("listen")?)?;
    table.set("connect", connector(lua, |_, _, _| Ok(Ok(None)))?)?;
    table.set("alpnproto", alpn_protocol(lua)?)?;
    Ok(table)
}

const FUNCTIONS: &[raw_function::NamedFunction] = &[
    (c"close", close),
    (c"isalive", is_alive),
    (c"limit", limit),
    (c"linelimit", line_limit),
    (c"outputlimit", output_limit),
    (c"deadline", deadline),
    (c"unreadbytes", unread_bytes),
    (c"recvsize", unread_bytes),
    (c"unsentbytes", unsent_bytes),
    (c"sendsize", unsent_bytes),
];

fn listener_metatable(lua: &Lua, vm: &Vm, methods: &Table) -> Result<Table> {
    let functions: &[raw_function::NamedFunction] =
        &[(c"__gc", keep), (c"__close", keep), (c"__newindex", set_field)];
    let table = raw_function::table(lua, vm, functions)?;
    table.set("__name", "listener")?;
    // SAFETY: one closure with the methods as its upvalue.
    unsafe {
        lua.exec_raw((table, methods), |state| {
            ffi::lua_pushcclosure(state, get_field, 1);
            ffi::lua_setfield(state, -2, c"__index".as_ptr());
        })
    }
}

/// Stores a metatable in the registry for raw functions.
fn register(lua: &Lua, meta: &'static u8, table: Table) -> Result<()> {
    // SAFETY: the table leaves the stack for the registry.
    unsafe {
        lua.exec_raw::<()>(table, |state| {
            ffi::lua_rawsetp(state, ffi::LUA_REGISTRYINDEX, key(meta));
        })
    }
}

/// Pushes the object of a connection whose peer's address is on top of the stack, and stays there.
///
/// # Safety
/// `state` has two free slots.
pub(crate) unsafe fn push_connection(state: LuaState, handle: StreamHandle) {
    let bits = u64::from(handle.generation) << 32 | u64::from(handle.index);
    // SAFETY: a new table with two fields; the pointer is never followed.
    unsafe {
        ffi::lua_createtable(state, 1, 1);
        ffi::lua_pushlightuserdata(state, std::ptr::without_provenance_mut(bits as usize));
        ffi::lua_rawseti(state, -2, HANDLE);
        ffi::lua_pushvalue(state, -2);
        ffi::lua_setfield(state, -2, c"remoteaddr".as_ptr());
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, key(&CONNECTION_META));
        ffi::lua_setmetatable(state, -2);
    }
}

/// Calls `function(connection, address)` in a new coroutine for an accepted connection, which is
/// closed when the coroutine has ended; then `ended` is dropped. The module must have been opened.
pub fn serve_connection(
    turn: &Turn<'_>,
    function: &Rc<FunctionRef>,
    accepted: Accepted,
    ended: impl Sized + 'static,
) {
    let Accepted { stream, peer } = accepted;
    let address = peer_address(&peer);
    let handle = turn.streams.insert(stream);
    // Holds the VM as long as the connection is open.
    let held = function.clone();
    let on_end: OnTaskEnd = Box::new(move |_: &Lua, _: TaskEnd| {
        let vm = held.running().vm();
        vm.streams.close(vm, handle);
        drop(ended);
    });
    let index = turn.new_task();
    let thread = turn.tasks(|tasks| {
        tasks.observe(index, EndObserver::Callback(on_end));
        tasks.get(index).thread
    });
    // SAFETY: the thread is empty and has room for a call's worth of values.
    unsafe {
        ffi::lua_rawgeti(thread, ffi::LUA_REGISTRYINDEX, i64::from(function.reference()));
        stack::push(thread, address.as_bytes());
        push_connection(thread, handle);
        ffi::lua_insert(thread, -2);
    }
    turn.run(index, 2);
}

/// # Safety
/// As [`push_connection`], with the listener's own address.
pub(super) unsafe fn push_listener(state: LuaState, handle: StreamHandle) {
    // SAFETY: the userdata has room for an `Object`, which needs no drop; Lua aligns it for any
    // scalar.
    unsafe {
        let room =
            ffi::lua_newuserdatauv(state, size_of::<ListenerObject>(), 2).cast::<ListenerObject>();
        room.write(ListenerObject { magic: LISTENER, handle });
        ffi::lua_pushvalue(state, -2);
        ffi::lua_setiuservalue(state, -2, ADDRESS);
        ffi::lua_rawgetp(state, ffi::LUA_REGISTRYINDEX, key(&LISTENER_META));
        ffi::lua_setmetatable(state, -2);
    }
}

/// The listener at `index`, if it is one.
///
/// # Safety
/// `state` is alive.
unsafe fn listener(state: LuaState, index: c_int) -> Option<StreamHandle> {
    // SAFETY: only a full userdata has a length, and one of this length that begins with our magic
    // number was made by `push_listener`: scripts cannot write into a userdata.
    unsafe {
        if ffi::lua_rawlen(state, index) != size_of::<ListenerObject>() {
            return None;
        }
        let object = ffi::lua_touserdata(state, index).cast::<ListenerObject>();
        (!object.is_null() && (*object).magic == LISTENER).then(|| (*object).handle)
    }
}

/// The handle of the connection at `index`, if it is one. Leaves a value on the stack if there is
/// a table at `index`.
///
/// # Safety
/// `state` is alive and has a free slot.
#[inline]
unsafe fn push_handle(state: LuaState, index: c_int) -> Option<StreamHandle> {
    // SAFETY: promised by the caller; the pointer is a number.
    unsafe {
        if ffi::lua_type(state, index) != ffi::LUA_TTABLE
            || ffi::lua_rawgeti(state, index, HANDLE) != ffi::LUA_TLIGHTUSERDATA
        {
            return None;
        }
        let bits = ffi::lua_touserdata(state, -1).addr() as u64;
        Some(StreamHandle { index: bits as u32, generation: (bits >> 32) as u32 })
    }
}

/// The connection that is the first argument; raises if it is not one.
///
/// # Safety
/// Called from a raw function that holds nothing to drop.
unsafe fn connection(state: LuaState) -> StreamHandle {
    // SAFETY: promised by the caller.
    unsafe {
        let (handle, count) = connection_of_frequent_call(state);
        ffi::lua_settop(state, count);
        handle
    }
}

/// As [`connection`], with the number of arguments, behind which it leaves a value: removing that
/// would be one of eight calls of Lua's API that a read makes.
///
/// # Safety
/// As [`connection`].
#[inline]
unsafe fn connection_of_frequent_call(state: LuaState) -> (StreamHandle, c_int) {
    // SAFETY: promised by the caller.
    unsafe {
        let count = ffi::lua_gettop(state);
        let Some(handle) = push_handle(state, 1) else {
            ffi::luaL_argerror(state, 1, c"a connection expected".as_ptr());
            unreachable!("luaL_argerror does not return")
        };
        (handle, count)
    }
}

/// `conn:close() → ok, err`: also closes a listener.
unsafe extern "C-unwind" fn close(state: LuaState) -> c_int {
    // SAFETY: nothing here has to be dropped.
    unsafe {
        if listener(state, 1).is_some() {
            return close_listener(state);
        }
        let handle = connection(state);
        let vm = raw_function::vm(state);
        let closed = vm.streams.close(vm, handle);
        closing(state, closed)
    }
}

/// `listener:close() → ok, err`
unsafe extern "C-unwind" fn close_listener(state: LuaState) -> c_int {
    // SAFETY: as `close`.
    unsafe {
        let Some(handle) = listener(state, 1) else {
            return ffi::luaL_argerror(state, 1, c"a listener expected".as_ptr());
        };
        let vm = raw_function::vm(state);
        let closed = vm.streams.close_listener(vm, handle);
        closing(state, closed)
    }
}

/// # Safety
/// `state` has two free slots.
unsafe fn closing(state: LuaState, closed: bool) -> c_int {
    // SAFETY: promised by the caller.
    unsafe {
        if !closed {
            return stack::refuse_false(state, crate::errno::CLOSED);
        }
        ffi::lua_pushboolean(state, 1);
    }
    1
}

/// `__gc` and `__close` of a connection.
unsafe extern "C-unwind" fn collect(state: LuaState) -> c_int {
    // SAFETY: nothing here has to be dropped, and the streams are not borrowed.
    unsafe {
        if let Some(handle) = push_handle(state, 1) {
            raw_function::vm(state).streams.collected(handle);
        }
    }
    0
}

/// A listener lives until it is closed, even if its object is collected.
unsafe extern "C-unwind" fn keep(_: LuaState) -> c_int {
    0
}

/// `__index`: methods, then the peer's address (`listener.addr`: its own), then the script's own
/// fields.
unsafe extern "C-unwind" fn get_field(state: LuaState) -> c_int {
    // SAFETY: the first upvalue is the table of methods.
    unsafe {
        ffi::lua_pushvalue(state, 2);
        if ffi::lua_rawget(state, ffi::lua_upvalueindex(1)) != ffi::LUA_TNIL {
            return 1;
        }
        if ffi::lua_type(state, 2) == ffi::LUA_TSTRING && stack::bytes(state, 2) == Some(b"addr") {
            ffi::lua_getiuservalue(state, 1, ADDRESS);
            return 1;
        }
        if ffi::lua_getiuservalue(state, 1, FIELDS) == ffi::LUA_TTABLE {
            ffi::lua_pushvalue(state, 2);
            ffi::lua_rawget(state, -2);
            return 1;
        }
        ffi::lua_pushnil(state);
    }
    1
}

/// `__newindex`: a script may keep fields of its own on a listener.
unsafe extern "C-unwind" fn set_field(state: LuaState) -> c_int {
    // SAFETY: the stack holds object, key, value; a nil key raises in `lua_rawset`.
    unsafe {
        if ffi::lua_getiuservalue(state, 1, FIELDS) != ffi::LUA_TTABLE {
            ffi::lua_createtable(state, 0, 2);
            ffi::lua_pushvalue(state, -1);
            ffi::lua_setiuservalue(state, 1, FIELDS);
        }
        ffi::lua_pushvalue(state, 2);
        ffi::lua_pushvalue(state, 3);
        ffi::lua_rawset(state, -3);
    }
    0
}

/// `conn:alpnproto() → protocol | nil`: what ALPN has agreed on.
fn alpn_protocol(lua: &Lua) -> Result<Function> {
    lua.create_function(|lua, connection: Table| {
        let handle = handle_of(&connection, "alpnproto")?;
        Ok(Vm::of(lua)?.streams.protocol(handle).map(String::from))
    })
}

/// Closes a connection with a reset, for tests; false if it was closed.
pub fn reset(lua: &Lua, connection: &Table) -> Result<bool> {
    let (vm, handle) = (Vm::of(lua)?, handle_of(connection, "reset")?);
    Ok(vm.streams.reset(&vm, handle))
}

/// The handle of a connection, the first argument of `function`.
fn handle_of(connection: &Table, function: &str) -> Result<StreamHandle> {
    let Value::LightUserData(bits) = connection.raw_get(HANDLE)? else {
        let text = format!("bad argument #1 to '{function}' (a connection expected)");
        return Err(mlua::Error::runtime(text));
    };
    let bits = bits.0.addr() as u64;
    Ok(StreamHandle { index: bits as u32, generation: (bits >> 32) as u32 })
}

/// `conn:isalive()`: neither closed nor broken, and the peer has not ended.
unsafe extern "C-unwind" fn is_alive(state: LuaState) -> c_int {
    // SAFETY: nothing here has to be dropped.
    unsafe {
        let handle = connection(state);
        let streams = &raw_function::vm(state).streams;
        let alive = streams.with(handle, |c| c.broken.is_none() && !c.ended).unwrap_or(false);
        ffi::lua_pushboolean(state, c_int::from(alive));
    }
    1
}

/// `conn:limit(n)`: unread bytes beyond which the peer is held back; nil or a negative for none.
unsafe extern "C-unwind" fn limit(state: LuaState) -> c_int {
    // SAFETY: nothing here has to be dropped.
    unsafe {
        let handle = connection(state);
        let limit = usize::try_from(ffi::luaL_optinteger(state, 2, -1)).unwrap_or(usize::MAX);
        raw_function::vm(state).streams.set_limit(handle, limit.max(1));
    }
    0
}

/// `conn:linelimit(n)`: unread bytes without its delimiter that end a read with `errno.MSGSIZE`.
unsafe extern "C-unwind" fn line_limit(state: LuaState) -> c_int {
    // SAFETY: nothing here has to be dropped.
    unsafe {
        let handle = connection(state);
        let limit = usize::try_from(ffi::luaL_optinteger(state, 2, -1)).unwrap_or(usize::MAX);
        raw_function::vm(state).streams.with(handle, |c| c.line_limit = limit.max(1));
    }
    0
}

/// `conn:outputlimit(n)`: unsent bytes beyond which a write closes the connection.
unsafe extern "C-unwind" fn output_limit(state: LuaState) -> c_int {
    // SAFETY: nothing here has to be dropped.
    unsafe {
        let handle = connection(state);
        let limit = usize::try_from(ffi::luaL_optinteger(state, 2, -1)).unwrap_or(usize::MAX);
        raw_function::vm(state).streams.with(handle, |c| c.output_limit = limit);
    }
    0
}

/// `conn:deadline(ms)`: no read lasts beyond that from now; nil for none.
unsafe extern "C-unwind" fn deadline(state: LuaState) -> c_int {
    // SAFETY: nothing here has to be dropped.
    unsafe {
        let handle = connection(state);
        let vm = raw_function::vm(state);
        let at = (ffi::lua_type(state, 2) > ffi::LUA_TNIL)
            .then(|| vm.timers.now_ms() + super::time::check_span(state, 2));
        vm.streams.with(handle, |c| c.deadline_ms = at);
    }
    0
}

/// `conn:unreadbytes()`
unsafe extern "C-unwind" fn unread_bytes(state: LuaState) -> c_int {
    // SAFETY: nothing here has to be dropped.
    unsafe {
        let handle = connection(state);
        let count = raw_function::vm(state).streams.with(handle, |c| c.input.len()).unwrap_or(0);
        ffi::lua_pushinteger(state, count as i64);
    }
    1
}

/// `conn:unsentbytes()`
unsafe extern "C-unwind" fn unsent_bytes(state: LuaState) -> c_int {
    // SAFETY: nothing here has to be dropped.
    unsafe {
        let handle = connection(state);
        let count = raw_function::vm(state).streams.with(handle, |c| c.unsent()).unwrap_or(0);
        ffi::lua_pushinteger(state, count as i64);
    }
    1
}
