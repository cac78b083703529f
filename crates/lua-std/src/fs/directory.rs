//! Directories, metadata and names of files.
//!
//! Promises that symbolic links are not followed by `stat`, `list` and `remove` unless requested,
//! and that a list is limited.

use std::fs::{self, DirBuilder, FileType, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use mlua::{IntoLua, Lua, Result, Table, Value};

use super::{Bytes, PathArgument, contents, off_loop, text};
use crate::limits::FOLDER_ENTRIES;

pub(super) fn open(lua: &Lua, raw: &Table) -> Result<()> {
    let stat = |(PathArgument(path), follow): (PathArgument, Option<bool>)| {
        Ok(move || match follow {
            Some(false) => fs::symlink_metadata(&path).map(Stat),
            _ => fs::metadata(&path).map(Stat),
        })
    };
    raw.set("stat", off_loop(lua, stat)?)?;
    raw.set("list", off_loop(lua, |PathArgument(path)| Ok(move || list(&path)))?)?;
    let mkdir = |(PathArgument(path), parents): (PathArgument, bool)| {
        Ok(move || DirBuilder::new().recursive(parents).create(&path).map(|()| true))
    };
    raw.set("mkdir", off_loop(lua, mkdir)?)?;
    let remove = |(PathArgument(path), recursive): (PathArgument, bool)| {
        Ok(move || remove(&path, recursive).map(|()| true))
    };
    raw.set("remove", off_loop(lua, remove)?)?;
    let rename = |(PathArgument(from), PathArgument(to)): (PathArgument, PathArgument)| {
        Ok(move || fs::rename(from, to).map(|()| true))
    };
    raw.set("rename", off_loop(lua, rename)?)?;
    let temp = |(folder, prefix, directory): (Option<PathArgument>, Option<String>, bool)| {
        let folder = folder.map_or_else(std::env::temp_dir, |PathArgument(folder)| folder);
        let prefix = prefix.unwrap_or_else(|| "tidegate-".to_owned());
        if prefix.contains('/') {
            return Err(mlua::Error::runtime("temp: the prefix must not contain '/'"));
        }
        Ok(move || temp(&folder, &prefix, directory))
    };
    raw.set("temp", off_loop(lua, temp)?)
}

fn kind(file: FileType) -> &'static str {
    match file {
        file if file.is_file() => "file",
        file if file.is_dir() => "directory",
        file if file.is_symlink() => "link",
        _ => "other",
    }
}

struct Stat(Metadata);

impl IntoLua for Stat {
    fn into_lua(self, lua: &Lua) -> Result<Value> {
        let Stat(found) = self;
        let table = lua.create_table_with_capacity(0, 5)?;
        table.set("type", kind(found.file_type()))?;
        table.set("size", found.size())?;
        table.set("mode", found.mode() & 0o7777)?;
        table.set("mtime", found.mtime() as f64 + found.mtime_nsec() as f64 / 1e9)?;
        table.set("links", found.nlink())?;
        Ok(Value::Table(table))
    }
}

struct Entries(Vec<(Bytes, &'static str)>);

impl IntoLua for Entries {
    fn into_lua(self, lua: &Lua) -> Result<Value> {
        let list = lua.create_table_with_capacity(self.0.len(), 0)?;
        for (name, kind) in self.0 {
            let entry = lua.create_table_with_capacity(0, 2)?;
            entry.set("name", name)?;
            entry.set("type", kind)?;
            list.push(entry)?;
        }
        Ok(Value::Table(list))
    }
}

fn list(path: &Path) -> io::Result<Entries> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if entries.len() == FOLDER_ENTRIES {
            let text = format!("the directory has more than {FOLDER_ENTRIES} entries");
            return Err(io::Error::other(text));
        }
        entries.push((text(&entry.file_name()), kind(entry.file_type()?)));
    }
    entries.sort_by(|a, b| a.0.0.cmp(&b.0.0));
    Ok(Entries(entries))
}

fn remove(path: &Path, recursive: bool) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.is_dir() {
        return fs::remove_file(path);
    }
    if recursive { fs::remove_dir_all(path) } else { fs::remove_dir(path) }
}

/// Accessible only to this user.
fn temp(folder: &Path, prefix: &str, directory: bool) -> io::Result<Bytes> {
    let (path, ()) = contents::unused(folder, prefix, |path| {
        if directory {
            return DirBuilder::new().mode(0o700).create(path);
        }
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(drop)
    })?;
    Ok(text(path.as_os_str()))
}
