//! Reads, writes and appends to whole files.
//!
//! Promises that an atomic write leaves the old file or the new one, whatever happens.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use mlua::{Lua, LuaString, Result, Table};

use super::{Bytes, PathArgument, off_loop};
use crate::limits::FILE_BYTES;

pub(super) fn open(lua: &Lua, raw: &Table) -> Result<()> {
    let read = |(PathArgument(path), limit): (PathArgument, Option<u64>)| {
        Ok(move || read(&path, limit.unwrap_or(FILE_BYTES)).map(Bytes))
    };
    raw.set("read", off_loop(lua, read)?)?;
    let write = |(PathArgument(path), data, how): (PathArgument, LuaString, String)| {
        let data = data.as_bytes().to_vec();
        Ok(move || match how.as_str() {
            "append" => append(&path, &data),
            "atomic" => replace(&path, &data),
            _ => write(&path, &data),
        })
    };
    raw.set("write", off_loop(lua, write)?)
}

/// Opens a regular file; a pipe would wait for its other end.
pub(super) fn regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(io::Error::from_raw_os_error(libc::EISDIR));
    }
    if !kind.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    Ok(file)
}

/// Reads a regular file of at most `limit` bytes.
pub(crate) fn read(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let file = regular(path, OpenOptions::new().read(true))?;
    let mut data = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut data)?;
    if data.len() as u64 > limit {
        return Err(io::Error::other(format!("the file is larger than {limit} bytes")));
    }
    Ok(data)
}

fn write(path: &Path, data: &[u8]) -> io::Result<bool> {
    let mut file = regular(path, OpenOptions::new().write(true).create(true))?;
    file.set_len(0)?;
    file.write_all(data)?;
    Ok(true)
}

fn append(path: &Path, data: &[u8]) -> io::Result<bool> {
    regular(path, OpenOptions::new().append(true).create(true))?.write_all(data)?;
    Ok(true)
}

/// Writes a temporary file, syncs it, and renames it.
fn replace(path: &Path, data: &[u8]) -> io::Result<bool> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let (temporary, mut file) = unused(folder, ".tidegate-", |path| {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
    })?;
    let mut finish = || {
        file.write_all(data)?;
        // The file keeps its permissions; a new one gets the default.
        let mode = match fs::metadata(path) {
            Ok(known) => known.permissions(),
            Err(_) => std::os::unix::fs::PermissionsExt::from_mode(0o644),
        };
        file.set_permissions(mode)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    let done = finish();
    if done.is_err() {
        // The first error is reported; a failed removal changes nothing.
        let _ = fs::remove_file(&temporary);
    }
    done.map(|()| true)
}

/// Creates a file or directory with an unused name.
pub(super) fn unused<T>(
    folder: &Path,
    prefix: &str,
    make: impl Fn(&Path) -> io::Result<T>,
) -> io::Result<(PathBuf, T)> {
    loop {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let path = folder.join(format!("{prefix}{:016x}", u64::from_ne_bytes(random)));
        match make(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return made.map(|made| (path, made)),
        }
    }
}
