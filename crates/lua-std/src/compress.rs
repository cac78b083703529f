//! `compress.gzip`, `.br`, `.zstd`, `.lz4`, `.snappy`: one interface for five formats.
//!
//! Each module has `compress(s[, level])` and `decompress(s[, limit])` for whole strings, and
//! `compressor([level])` and `decompressor([limit])` for streams. Promises that output stays within
//! its limit, and that damaged input is `nil, reason`. Never yields: large data occupies the
//! worker.

mod lz4;
mod snappy;
mod streaming;

use crate::limits;
use coding::Coding;
use lua_vm::arguments::function;
use mlua::{Error, Lua, LuaString, Result, Table, UserData, UserDataMethods};
use std::ops::RangeInclusive;

/// Compresses a stream. An error means that there is no memory or that the stream has ended.
trait StreamCompressor {
    fn write(&mut self, input: &[u8], out: &mut Vec<u8>) -> StreamResult;
    /// Flushes all input so far.
    fn flush(&mut self, out: &mut Vec<u8>) -> StreamResult;
    fn finish(&mut self, out: &mut Vec<u8>) -> StreamResult;
}

/// Decompresses a stream. It cannot be used after an error.
trait StreamDecompressor {
    fn write(&mut self, input: &[u8], out: &mut Vec<u8>) -> StreamResult;
    fn finish(&mut self, out: &mut Vec<u8>) -> StreamResult;
}

type NewCompressor = fn(u32) -> std::result::Result<Box<dyn StreamCompressor>, String>;
type NewDecompressor = fn(usize) -> std::result::Result<Box<dyn StreamDecompressor>, String>;
type StreamResult = std::result::Result<(), String>;

/// The implementation of one module.
struct Format {
    /// The valid levels, and the default.
    levels: RangeInclusive<u32>,
    level: u32,
    pack: NewCompressor,
    unpack: NewDecompressor,
    /// Functions for whole strings, if they are not a stream with one write.
    whole: Option<OneShotCodec>,
}

struct OneShotCodec {
    compress: fn(&[u8]) -> std::result::Result<Vec<u8>, String>,
    decompress: fn(&[u8], usize) -> std::result::Result<Vec<u8>, String>,
}

pub(crate) fn open_gzip(lua: &Lua) -> Result<Table> {
    open(lua, streaming::family(Coding::Gzip))
}

pub(crate) fn open_br(lua: &Lua) -> Result<Table> {
    open(lua, streaming::family(Coding::Br))
}

pub(crate) fn open_zstd(lua: &Lua) -> Result<Table> {
    open(lua, streaming::family(Coding::Zstd))
}

pub(crate) fn open_lz4(lua: &Lua) -> Result<Table> {
    open(lua, lz4::family())
}

pub(crate) fn open_snappy(lua: &Lua) -> Result<Table> {
    open(lua, snappy::family())
}

fn open(lua: &Lua, family: Format) -> Result<Table> {
    let family = std::rc::Rc::new(family);
    let table = lua.create_table()?;
    let of = family.clone();
    let compress = move |lua: &Lua, (s, level): (LuaString, Option<i64>)| {
        let level = of.level("compress", 2, level)?;
        lua.create_string(of.compress(&s.as_bytes(), level).map_err(Error::runtime)?)
    };
    table.set("compress", function(lua, "compress", compress)?)?;
    let of = family.clone();
    let decompress = move |lua: &Lua, (s, limit): (LuaString, Option<i64>)| {
        let limit = limit_bytes("decompress", 2, limit)?;
        answer(lua, of.decompress(&s.as_bytes(), limit))
    };
    table.set("decompress", function(lua, "decompress", decompress)?)?;
    let of = family.clone();
    let compressor = move |_: &Lua, level: Option<i64>| {
        let level = of.level("compressor", 1, level)?;
        Ok(Compressor { stream: Some((of.pack)(level).map_err(Error::runtime)?) })
    };
    table.set("compressor", function(lua, "compressor", compressor)?)?;
    let decompressor = move |_: &Lua, limit: Option<i64>| {
        let limit = limit_bytes("decompressor", 1, limit)?;
        Ok(Decompressor { stream: (family.unpack)(limit) })
    };
    table.set("decompressor", function(lua, "decompressor", decompressor)?)?;
    Ok(table)
}

impl Format {
    fn level(&self, name: &str, position: usize, level: Option<i64>) -> Result<u32> {
        let Some(level) = level else { return Ok(self.level) };
        let found = u32::try_from(level).ok().filter(|level| self.levels.contains(level));
        found.ok_or_else(|| {
            let (least, most) = (self.levels.start(), self.levels.end());
            Error::runtime(format!(
                "bad argument #{position} to '{name}' (a level from {least} to {most} expected, \
                 got {level})"
            ))
        })
    }

    fn compress(&self, input: &[u8], level: u32) -> std::result::Result<Vec<u8>, String> {
        if let Some(whole) = &self.whole {
            return (whole.compress)(input);
        }
        let mut stream = (self.pack)(level)?;
        let mut out = Vec::with_capacity(input.len() / 3 + 64);
        stream.write(input, &mut out)?;
        stream.finish(&mut out)?;
        Ok(out)
    }

    fn decompress(&self, input: &[u8], limit: usize) -> std::result::Result<Vec<u8>, String> {
        if let Some(whole) = &self.whole {
            return (whole.decompress)(input, limit);
        }
        let mut stream = (self.unpack)(limit)?;
        let mut out = Vec::new();
        stream.write(input, &mut out)?;
        stream.finish(&mut out)?;
        Ok(out)
    }
}

fn limit_bytes(name: &str, position: usize, limit: Option<i64>) -> Result<usize> {
    let Some(limit) = limit else { return Ok(limits::DECOMPRESS_BYTES) };
    usize::try_from(limit).map_err(|_| {
        Error::runtime(format!(
            "bad argument #{position} to '{name}' (a number of bytes expected, got {limit})"
        ))
    })
}

type CompressResult = (Option<LuaString>, Option<String>);

fn answer(lua: &Lua, outcome: std::result::Result<Vec<u8>, String>) -> Result<CompressResult> {
    match outcome {
        Ok(bytes) => Ok((Some(lua.create_string(bytes)?), None)),
        Err(reason) => Ok((None, Some(reason))),
    }
}

struct Compressor {
    /// `None` once it is finished.
    stream: Option<Box<dyn StreamCompressor>>,
}

impl Compressor {
    fn through(
        &mut self,
        lua: &Lua,
        name: &str,
        step: impl FnOnce(&mut dyn StreamCompressor, &mut Vec<u8>) -> StreamResult,
    ) -> Result<LuaString> {
        let Some(stream) = &mut self.stream else {
            return Err(Error::runtime(format!("'{name}' after 'finish'")));
        };
        let mut out = Vec::new();
        step(stream.as_mut(), &mut out).map_err(Error::runtime)?;
        lua.create_string(out)
    }
}

impl UserData for Compressor {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method_mut("write", |lua, this, s: LuaString| {
            this.through(lua, "write", |stream, out| stream.write(&s.as_bytes(), out))
        });
        methods.add_method_mut("flush", |lua, this, ()| {
            this.through(lua, "flush", |stream, out| stream.flush(out))
        });
        methods.add_method_mut("finish", |lua, this, ()| {
            let last = this.through(lua, "finish", |stream, out| stream.finish(out))?;
            this.stream = None;
            Ok(last)
        });
    }
}

struct Decompressor {
    /// An error is final.
    stream: std::result::Result<Box<dyn StreamDecompressor>, String>,
}

impl Decompressor {
    fn through(
        &mut self,
        lua: &Lua,
        step: impl FnOnce(&mut dyn StreamDecompressor, &mut Vec<u8>) -> StreamResult,
    ) -> Result<CompressResult> {
        let mut out = Vec::new();
        let outcome = match &mut self.stream {
            Ok(stream) => step(stream.as_mut(), &mut out),
            Err(reason) => Err(reason.clone()),
        };
        if let Err(reason) = &outcome {
            self.stream = Err(reason.clone());
        }
        answer(lua, outcome.map(|()| out))
    }
}

impl UserData for Decompressor {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method_mut("write", |lua, this, s: LuaString| {
            this.through(lua, |stream, out| stream.write(&s.as_bytes(), out))
        });
        methods.add_method_mut("finish", |lua, this, ()| {
            let last = this.through(lua, |stream, out| stream.finish(out));
            if this.stream.is_ok() {
                this.stream = Err("the stream is finished".to_owned());
            }
            last
        });
    }
}

/// The reason for stopping at a limit, the same for all formats.
fn too_large() -> String {
    "the unpacked data is larger than allowed".to_owned()
}

#[cfg(test)]
mod tests;
