//! `store.redis`: the bytes of commands and replies; the client is `lua/redis.lua`.
//!
//! Converts Lua values to commands and replies to Lua values. Promises that received bytes are
//! parsed once however they are split, and that the size of a reply is limited.

use mlua::{Error, Lua, LuaString, MultiValue, Result, Table, UserData, UserDataMethods, Value};
use wire::resp;
use wire::resp::reply::{Item, Limits, Reader};

use crate::limits::{REDIS_KEPT_BYTES, REDIS_REPLY_BYTES};
use lua_vm::arguments::function;
use lua_vm::script;

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let raw = lua.create_table()?;
    raw.set("encode", lua.create_function(encode)?)?;
    let reader = |_: &Lua, limit: Option<usize>| {
        let bytes = limit.unwrap_or(REDIS_REPLY_BYTES);
        let limits = Limits { bytes, ..Limits::default() };
        Ok(Replies { bytes: Vec::new(), start: 0, reader: Reader::default(), limits })
    };
    raw.set("reader", function(lua, "reader", reader)?)?;
    script::open(lua, "redis", include_str!("../../../lua/redis.lua"), raw)
}

/// `encode(name, …) → string`: strings, and numbers and booleans, which are sent as text.
fn encode(lua: &Lua, words: MultiValue) -> Result<LuaString> {
    let mut out = Vec::with_capacity(64);
    resp::array_head(words.len(), &mut out);
    for (at, word) in words.iter().enumerate() {
        match word {
            Value::String(text) => resp::bulk(&text.as_bytes(), &mut out),
            Value::Integer(number) => {
                resp::bulk(itoa::Buffer::new().format(*number).as_bytes(), &mut out);
            }
            Value::Number(_) => {
                let text = lua.coerce_string(word.clone())?;
                resp::bulk(
                    &text.map(|text| text.as_bytes().to_vec()).unwrap_or_default(),
                    &mut out,
                );
            }
            Value::Boolean(flag) => {
                resp::bulk(if *flag { b"true" } else { b"false" }, &mut out);
            }
            other => {
                let name = words.front().and_then(Value::as_string);
                let name = name.map(|name| name.to_string_lossy()).unwrap_or_default();
                return Err(Error::runtime(format!(
                    "bad argument #{at} to '{name}' (string, number or boolean expected, got {})",
                    other.type_name()
                )));
            }
        }
    }
    lua.create_string(out)
}

/// The received bytes of one connection.
struct Replies {
    bytes: Vec<u8>,
    /// The start of the incomplete reply.
    start: usize,
    reader: Reader,
    limits: Limits,
}

impl Replies {
    fn feed(&mut self, bytes: &[u8]) {
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.bytes.shrink_to(REDIS_KEPT_BYTES);
        } else {
            self.bytes.drain(..self.start);
        }
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// `true, value`; `false, error`; `"push", message`; `"fault", reason`; nil if the reply is
    /// incomplete.
    fn next(&mut self, lua: &Lua) -> Result<(Value, Value)> {
        let unread = &self.bytes[self.start..];
        let length = match self.reader.read(unread, &self.limits) {
            Ok(Some(length)) => length,
            Ok(None) => return Ok((Value::Nil, Value::Nil)),
            Err(fault) => return Ok((text(lua, b"fault")?, text(lua, fault.text().as_bytes())?)),
        };
        let items = self.reader.items();
        let answer = match items.first() {
            Some(Item::Error(range)) => (Value::Boolean(false), text(lua, &unread[range.clone()])?),
            Some(Item::Push(_)) => (text(lua, b"push")?, value(lua, unread, &mut items.iter())?),
            _ => (Value::Boolean(true), value(lua, unread, &mut items.iter())?),
        };
        self.start += length;
        Ok(answer)
    }
}

impl UserData for Replies {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method_mut("feed", |_, this, bytes: LuaString| {
            this.feed(&bytes.as_bytes());
            Ok(())
        });
        methods.add_method_mut("next", |lua, this, ()| this.next(lua));
    }
}

fn text(lua: &Lua, bytes: &[u8]) -> Result<Value> {
    Ok(Value::String(lua.create_string(bytes)?))
}

/// Converts the next value; the reader limits its depth.
fn value(lua: &Lua, bytes: &[u8], items: &mut std::slice::Iter<'_, Item>) -> Result<Value> {
    let Some(item) = items.next() else { return Ok(Value::Nil) };
    Ok(match item {
        Item::Text(range) => text(lua, &bytes[range.clone()])?,
        // Within an array an error is a table, as it is in scripts that Redis runs.
        Item::Error(range) => {
            Value::Table(lua.create_table_from([("err", text(lua, &bytes[range.clone()])?)])?)
        }
        Item::Integer(number) => Value::Integer(*number),
        Item::Double(number) => Value::Number(*number),
        Item::Boolean(flag) => Value::Boolean(*flag),
        Item::Null => Value::Nil,
        Item::Array(count) | Item::Set(count) | Item::Push(count) => {
            let table = lua.create_table_with_capacity(*count, 0)?;
            let mut holes = false;
            for at in 1..=*count {
                let one = value(lua, bytes, items)?;
                holes |= one.is_nil();
                table.raw_set(at, one)?;
            }
            // The length of a table with a null is undefined.
            if holes {
                table.raw_set("n", *count)?;
            }
            Value::Table(table)
        }
        Item::Map(count) => {
            let table = lua.create_table_with_capacity(0, *count)?;
            for _ in 0..*count {
                let (key, one) = (value(lua, bytes, items)?, value(lua, bytes, items)?);
                let usable = !key.is_nil() && !matches!(key, Value::Number(n) if n.is_nan());
                if usable {
                    table.raw_set(key, one)?;
                }
            }
            Value::Table(table)
        }
    })
}

#[cfg(test)]
mod tests;
