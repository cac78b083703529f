//! `fs`: files and directories.
//!
//! Promises that no call blocks the worker: it runs on the pool of blocking threads while its
//! coroutine waits. A failure is `nil, err`. Reading is limited; only regular files are read and
//! written, as a pipe or device could block for ever.

pub(crate) mod contents;
mod directory;
mod handle;
mod watch;

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use mlua::{
    FromLua, FromLuaMulti, Function, IntoLua, IntoLuaMulti, Lua, MultiValue, Result, Table, Value,
};
use net::blocking;

use lua_vm::async_function;
use lua_vm::errno;
use lua_vm::script;

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let raw = lua.create_table()?;
    contents::open(lua, &raw)?;
    directory::open(lua, &raw)?;
    handle::open(lua, &raw)?;
    watch::open(lua, &raw)?;
    script::open(lua, "fs", include_str!("../../../lua/fs.lua"), raw)
}

/// A path argument: any bytes except zero.
struct PathArgument(PathBuf);

impl FromLua for PathArgument {
    fn from_lua(value: Value, _: &Lua) -> Result<PathArgument> {
        match &value {
            Value::String(text) => Ok(PathArgument(OsStr::from_bytes(&text.as_bytes()).into())),
            other => {
                let got = other.type_name();
                Err(mlua::Error::runtime(format!("a path expected, got {got}")))
            }
        }
    }
}

/// Makes a function that runs on the pool of blocking threads.
fn off_loop<A, W, T>(lua: &Lua, begin: impl Fn(A) -> Result<W> + 'static) -> Result<Function>
where
    A: FromLuaMulti,
    W: FnOnce() -> io::Result<T> + Send + 'static,
    T: IntoLua + Send + 'static,
{
    async_function::create(lua, move |_, arguments: A| {
        let work = begin(arguments)?;
        Ok(async move { Ok(FsResult(blocking(work).await.and_then(|done| done))) })
    })
}

/// A value, or `nil, err`.
struct FsResult<T>(io::Result<T>);

impl<T: IntoLua> IntoLuaMulti for FsResult<T> {
    fn into_lua_multi(self, lua: &Lua) -> Result<MultiValue> {
        match self.0 {
            Ok(value) => value.into_lua_multi(lua),
            Err(error) => (Value::Nil, errno::of_error(&error)).into_lua_multi(lua),
        }
    }
}

/// Bytes, as a Lua string.
struct Bytes(Vec<u8>);

impl IntoLua for Bytes {
    fn into_lua(self, lua: &Lua) -> Result<Value> {
        Ok(Value::String(lua.create_string(self.0)?))
    }
}

/// A path, as a Lua string.
fn text(path: &OsStr) -> Bytes {
    Bytes(path.as_bytes().to_vec())
}

#[cfg(test)]
mod tests;
