//! `fs`: files and folders.
//!
//! Promises that nothing here is done on the loop: every call runs on the pool of blocking threads
//! while its coroutine waits. What fails is `nil, err`. Reading is bounded; what is no regular file
//! (a pipe, a device) is not read or written, as that could wait for ever.

mod folder;
mod handle;
mod watch;
mod whole;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use mlua::{
    FromLua, FromLuaMulti, Function, IntoLua, IntoLuaMulti, Lua, MultiValue, Result, Table, Value,
};
use net::blocking;

use lua_vm::errno;
use lua_vm::script;
use lua_vm::waits;

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let raw = lua.create_table()?;
    whole::open(lua, &raw)?;
    folder::open(lua, &raw)?;
    handle::open(lua, &raw)?;
    watch::open(lua, &raw)?;
    script::open(lua, "fs", include_str!("../../../lua/fs.lua"), raw)
}

/// A path as a script writes it: any bytes but zero.
struct Place(PathBuf);

impl FromLua for Place {
    fn from_lua(value: Value, _: &Lua) -> Result<Place> {
        match &value {
            Value::String(text) => Ok(Place(OsStr::from_bytes(&text.as_bytes()).into())),
            other => {
                let got = other.type_name();
                Err(mlua::Error::runtime(format!("a path expected, got {got}")))
            }
        }
    }
}

/// A function whose work is done off the loop.
fn off_loop<A, W, T>(lua: &Lua, begin: impl Fn(A) -> Result<W> + 'static) -> Result<Function>
where
    A: FromLuaMulti,
    W: FnOnce() -> io::Result<T> + Send + 'static,
    T: IntoLua + Send + 'static,
{
    waits::function(lua, move |_, arguments: A| {
        let work = begin(arguments)?;
        Ok(async move { Ok(Answer(blocking(work).await.and_then(|done| done))) })
    })
}

/// A value, or `nil, err`.
struct Answer<T>(io::Result<T>);

impl<T: IntoLua> IntoLuaMulti for Answer<T> {
    fn into_lua_multi(self, lua: &Lua) -> Result<MultiValue> {
        match self.0 {
            Ok(value) => value.into_lua_multi(lua),
            Err(error) => (Value::Nil, errno::of_error(&error)).into_lua_multi(lua),
        }
    }
}

/// Bytes on their way to Lua.
struct Bytes(Vec<u8>);

impl IntoLua for Bytes {
    fn into_lua(self, lua: &Lua) -> Result<Value> {
        Ok(Value::String(lua.create_string(self.0)?))
    }
}

/// A path on its way to Lua.
fn text(path: &OsStr) -> Bytes {
    Bytes(path.as_bytes().to_vec())
}

#[cfg(test)]
mod tests;
