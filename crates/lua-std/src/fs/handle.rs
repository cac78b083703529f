//! Open files: read and written piece by piece.
//!
//! Promises that a piece is limited, and that the end is `nil, errno.EOF` as with connections.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::sync::{Arc, Mutex, PoisonError};

use mlua::{AnyUserData, IntoLua, Lua, LuaString, Result, Table, UserData, Value};

use super::{Bytes, PathArgument, contents, off_loop};
use crate::limits::FILE_PIECE_BYTES;

/// Coroutines use a file one after the other; the wait is on a blocking thread.
struct FileHandle(Arc<Mutex<Option<File>>>);

impl UserData for FileHandle {}

/// A new file, as userdata.
struct Opened(File);

impl IntoLua for Opened {
    fn into_lua(self, lua: &Lua) -> Result<Value> {
        let open = FileHandle(Arc::new(Mutex::new(Some(self.0))));
        Ok(Value::UserData(lua.create_userdata(open)?))
    }
}

pub(super) fn open(lua: &Lua, raw: &Table) -> Result<()> {
    let open = |(PathArgument(path), mode): (PathArgument, String)| {
        Ok(move || {
            let mut options = OpenOptions::new();
            match mode.as_str() {
                "w" => options.write(true).create(true),
                "a" => options.append(true).create(true),
                _ => options.read(true),
            };
            let file = contents::regular(&path, &mut options)?;
            if mode == "w" {
                file.set_len(0)?;
            }
            Ok(Opened(file))
        })
    };
    raw.set("open", off_loop(lua, open)?)?;
    let read = |(file, most): (AnyUserData, usize)| {
        let file = file.borrow::<FileHandle>()?.0.clone();
        Ok(move || with(&file, |file| read(file, most.clamp(1, FILE_PIECE_BYTES))))
    };
    raw.set("file_read", off_loop(lua, read)?)?;
    let write = |(file, data): (AnyUserData, LuaString)| {
        let file = file.borrow::<FileHandle>()?.0.clone();
        let data = data.as_bytes().to_vec();
        Ok(move || with(&file, |file| file.write_all(&data).map(|()| true)))
    };
    raw.set("file_write", off_loop(lua, write)?)?;
    let sync = |file: AnyUserData| {
        let file = file.borrow::<FileHandle>()?.0.clone();
        Ok(move || with(&file, |file| file.sync_all().map(|()| true)))
    };
    raw.set("file_sync", off_loop(lua, sync)?)?;
    // A finalizer cannot wait: an operation in flight keeps the file open until it is done.
    let close = |_: &Lua, file: AnyUserData| {
        if let Ok(mut file) = file.borrow::<FileHandle>()?.0.try_lock() {
            drop(file.take());
        }
        Ok(())
    };
    raw.set("file_close", lua.create_function(close)?)
}

fn with<T>(
    file: &Mutex<Option<File>>,
    work: impl FnOnce(&mut File) -> io::Result<T>,
) -> io::Result<T> {
    match file.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        Some(file) => work(file),
        None => Err(io::Error::from_raw_os_error(libc::EBADF)),
    }
}

fn read(file: &mut File, most: usize) -> io::Result<Bytes> {
    let mut data = Vec::with_capacity(most);
    file.take(most as u64).read_to_end(&mut data)?;
    if data.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(Bytes(data)) }
}
