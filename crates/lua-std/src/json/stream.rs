//! The incremental decoder: values one after the other, with optional white space between them.
//!
//! Finds the end of a value without scanning it twice, buffers no more than its limit, and decodes
//! with `decode`.

use crate::limits;
use lua_vm::arguments;
use mlua::{AnyUserData, Error, Function, Lua, MultiValue, Result, Table, UserData, Value};

/// Puts `decoder` into the module's table, which has `decode`.
pub(super) fn open(lua: &Lua, table: &Table) -> Result<()> {
    let decode: Function = table.get("decode")?;
    let new = move |_: &Lua, options: Option<Table>| {
        let limit = match options {
            Some(options) => options.get::<Option<usize>>("limit")?,
            None => None,
        };
        Ok(Stream {
            decode: decode.clone(),
            scan: Scan::default(),
            limit_bytes: limit.unwrap_or(limits::JSON_STREAM_BYTES),
            ended: false,
        })
    };
    table.set("decoder", arguments::function(lua, "decoder", new)?)
}

struct Stream {
    decode: Function,
    scan: Scan,
    limit_bytes: usize,
    ended: bool,
}

impl UserData for Stream {
    fn add_methods<M: mlua::UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method_mut("feed", |_, stream, piece: mlua::LuaString| {
            if stream.ended {
                return Err(Error::runtime("feed after finish"));
            }
            stream.scan.buffer.extend_from_slice(&piece.as_bytes());
            Ok(())
        });
        methods.add_method_mut("finish", |_, stream, ()| {
            stream.ended = true;
            Ok(())
        });
        methods.add_function("next", |lua, stream: AnyUserData| next(lua, &stream));
    }
}

/// `next() → value | nil | nil, reason`: a single nil requests more input.
fn next(lua: &Lua, stream: &AnyUserData) -> Result<MultiValue> {
    let (text, decode) = {
        let mut stream = stream.borrow_mut::<Stream>()?;
        let (ended, limit_bytes) = (stream.ended, stream.limit_bytes);
        let Some(range) = stream.scan.value(ended) else {
            let reason = if ended && !stream.scan.is_empty() {
                "the text ends within a value".to_owned()
            } else if stream.scan.pending() > limit_bytes {
                format!("a value is longer than {limit_bytes} bytes")
            } else {
                return Ok(MultiValue::new());
            };
            stream.scan.clear();
            stream.ended = true;
            return refuse(lua, &reason);
        };
        if range.len() > limit_bytes {
            return refuse(lua, &format!("a value is longer than {limit_bytes} bytes"));
        }
        (lua.create_string(&stream.scan.buffer[range])?, stream.decode.clone())
    };
    // The stream is not borrowed here: a finalizer may run and use it.
    decode.call(text)
}

fn refuse(lua: &Lua, reason: &str) -> Result<MultiValue> {
    let reason = Value::String(lua.create_string(reason)?);
    Ok([Value::Nil, reason].into_iter().collect())
}

/// The scanner of the incomplete value.
#[derive(Debug, Default)]
struct Scan {
    buffer: Vec<u8>,
    /// The start of the incomplete value; values before it were returned.
    start: usize,
    /// The end of the scanned bytes.
    at: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
}

impl Scan {
    /// The next whole value. A number or word ends where something else begins, or at the end.
    fn value(&mut self, ended: bool) -> Option<std::ops::Range<usize>> {
        if self.start == self.at {
            self.discard();
            let rest = &self.buffer[self.start..];
            let blank = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            self.start += blank;
            self.at = self.start;
        }
        let first = *self.buffer.get(self.start)?;
        let end = match first {
            b'{' | b'[' | b'"' => self.enclosed(),
            b'}' | b']' | b',' | b':' => Some(self.start + 1),
            _ => self.word(ended),
        }?;
        let range = self.start..end;
        (self.start, self.at, self.depth, self.in_string) = (end, end, 0, false);
        Some(range)
    }

    /// The end of a string or container.
    fn enclosed(&mut self) -> Option<usize> {
        while let Some(&byte) = self.buffer.get(self.at) {
            self.at += 1;
            if self.escaped {
                self.escaped = false;
                continue;
            }
            match byte {
                b'\\' if self.in_string => self.escaped = true,
                b'"' => self.in_string = !self.in_string,
                b'{' | b'[' if !self.in_string => self.depth += 1,
                b'}' | b']' if !self.in_string => self.depth -= 1,
                _ => continue,
            }
            if self.depth == 0 && !self.in_string && !self.escaped {
                return Some(self.at);
            }
        }
        None
    }

    fn word(&mut self, ended: bool) -> Option<usize> {
        let part = |byte: &u8| !byte.is_ascii_whitespace() && !b"{}[],:\"".contains(byte);
        self.at += self.buffer[self.at..].iter().take_while(|byte| part(byte)).count();
        (ended || self.at < self.buffer.len()).then_some(self.at)
    }

    /// Bytes of the incomplete value.
    fn pending(&self) -> usize {
        self.buffer.len() - self.start
    }

    fn is_empty(&self) -> bool {
        self.start == self.buffer.len()
    }

    fn clear(&mut self) {
        *self = Self::default();
    }

    /// Drops returned bytes when they are most of the buffer.
    fn discard(&mut self) {
        if self.start * 2 >= self.buffer.len() {
            self.buffer.drain(..self.start);
            (self.start, self.at) = (0, 0);
        }
    }
}
