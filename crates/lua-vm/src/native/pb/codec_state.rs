//! A state: schema, names, options, hooks and default tables.
//!
//! A state is a table that scripts do not see: `pb.state` wraps it. Its schema is userdata that is
//! replaced as a whole.

use std::ffi::{CStr, c_int};
use std::rc::Rc;

use mlua::{Lua, Result, Table, UserData, UserDataRef, Value, ffi};
use protobuf::Schema;

use crate::stack::LuaState;

/// Places in the table of a state.
pub(super) const SCHEMA: ffi::lua_Integer = 1;
/// The names of fields, each at its key and one.
pub(super) const KEYS: ffi::lua_Integer = 2;
/// The bits of `options`.
pub(super) const OPTIONS: ffi::lua_Integer = 3;
/// Functions by the slot of their type and one.
pub(super) const DECODE_HOOKS: ffi::lua_Integer = 4;
pub(super) const ENCODE_HOOKS: ffi::lua_Integer = 5;
/// Tables of defaults by the slot of their type and one.
pub(super) const DEFAULTS: ffi::lua_Integer = 6;

const TYPE: &CStr = c"tide.pb.schema";

/// A state without types.
pub(super) fn create(lua: &Lua) -> Result<Table> {
    let state = lua.create_table()?;
    for place in [KEYS, DECODE_HOOKS, ENCODE_HOOKS, DEFAULTS] {
        state.raw_set(place, lua.create_table()?)?;
    }
    state.raw_set(OPTIONS, 0)?;
    set_schema(lua, &state, Schema::default())?;
    Ok(state)
}

/// The current state.
pub(super) fn current(holder: &Table) -> Result<Table> {
    holder.raw_get(1)
}

/// The schema of the current state.
pub(super) fn schema(lua: &Lua, holder: &Table) -> Result<Rc<Schema>> {
    let mut found = None;
    // SAFETY: the userdata was made by `set_schema`, which scripts cannot reach; it lives while its
    // state has it.
    unsafe {
        lua.exec_raw::<()>(current(holder)?, |state| {
            ffi::lua_rawgeti(state, -1, SCHEMA);
            found = Some((*ffi::lua_touserdata(state, -1).cast::<Rc<Schema>>()).clone());
            ffi::lua_pop(state, 2);
        })?;
    }
    found.ok_or_else(|| mlua::Error::runtime("pb: the state has no schema"))
}

/// Replaces the schema of a state, and adds the names that are new.
pub(super) fn set_schema(lua: &Lua, state: &Table, schema: Schema) -> Result<()> {
    let keys: Table = state.raw_get(KEYS)?;
    for (index, name) in schema.keys().iter().enumerate().skip(keys.raw_len()) {
        keys.raw_set(index + 1, &**name)?;
    }
    let schema = Rc::new(schema);
    // SAFETY: runs in a protected call with the table on the stack; the userdata has the size asked
    // for, and is written before it can be collected.
    unsafe {
        lua.exec_raw::<()>(state, |state| {
            ffi::luaL_checkstack(state, 6, c"too many values".as_ptr());
            if ffi::luaL_newmetatable(state, TYPE.as_ptr()) != 0 {
                ffi::lua_pushcclosure(state, collect, 0);
                ffi::lua_setfield(state, -2, c"__gc".as_ptr());
            }
            let place = ffi::lua_newuserdatauv(state, size_of::<Rc<Schema>>(), 0);
            place.cast::<Rc<Schema>>().write(schema);
            ffi::lua_insert(state, -2);
            ffi::lua_setmetatable(state, -2);
            ffi::lua_rawseti(state, -2, SCHEMA);
            ffi::lua_pop(state, 1);
        })
    }
}

/// The finalizer of a schema.
///
/// # Safety
/// Lua calls it, once: scripts cannot reach the metatable.
unsafe extern "C-unwind" fn collect(state: LuaState) -> c_int {
    // SAFETY: `luaL_checkudata` answers for the type.
    unsafe {
        let schema = ffi::luaL_checkudata(state, 1, TYPE.as_ptr()).cast::<Rc<Schema>>();
        schema.drop_in_place();
    }
    0
}

/// A state as scripts have it.
struct StateHandle(Table);

impl UserData for StateHandle {}

/// Adds `state([new | nil]) → the state before`.
pub(super) fn add(lua: &Lua, table: &Table, holder: &Table) -> Result<()> {
    let shared = holder.clone();
    let switch = move |lua: &Lua, new: mlua::Variadic<Value>| {
        let before = StateHandle(current(&shared)?);
        match new.into_iter().next() {
            None => {}
            Some(Value::Nil) => shared.raw_set(1, create(lua)?)?,
            Some(Value::UserData(handle)) if handle.is::<StateHandle>() => {
                let handle: UserDataRef<StateHandle> = handle.borrow()?;
                shared.raw_set(1, &handle.0)?;
            }
            Some(other) => {
                let got = other.type_name();
                let text = format!("bad argument #1 to 'state' (pb.State expected, got {got})");
                return Err(mlua::Error::runtime(text));
            }
        }
        Ok(before)
    };
    table.set("state", lua.create_function(switch)?)
}
