//! Replacing matches: by a template, from a table, by a function.

use super::pattern::Pattern;
use super::results;
use crate::limits::RE_OUTPUT_BYTES;
use mlua::{Error, Function, Lua, LuaString, Result, Table, Value};
use regex::bytes::Captures;

/// The replacement of a match.
enum Replacement {
    /// `$1`, `${name}`, `$$`.
    Template(LuaString),
    /// By the first group, or the whole match.
    Table(Table),
    Function(Function),
}

/// `gsub(s, pattern, replacement[, n])`: the new string, and how many were replaced.
pub(super) fn gsub(
    lua: &Lua,
    s: &LuaString,
    pattern: &Pattern,
    replacement: Value,
    most: Option<usize>,
    position: usize,
) -> Result<(LuaString, usize)> {
    let replacement = match replacement {
        Value::String(template) => Replacement::Template(template),
        number @ (Value::Integer(_) | Value::Number(_)) => {
            Replacement::Template(lua.create_string(number.to_string()?)?)
        }
        Value::Table(table) => Replacement::Table(table),
        Value::Function(function) => Replacement::Function(function),
        other => {
            return Err(Error::runtime(format!(
                "bad argument #{position} to 'gsub' (string, table or function expected, got {})",
                other.type_name()
            )));
        }
    };
    let text = s.as_bytes();
    let mut out = Vec::with_capacity(text.len());
    let (mut at, mut last, mut kept, mut count) = (0, None, 0, 0);
    while count < most.unwrap_or(usize::MAX) {
        let Some(found) = pattern.next(&text, &mut at, &mut last) else { break };
        let whole = found.get_match();
        out.extend_from_slice(&text[kept..whole.start()]);
        kept = whole.end();
        count += 1;
        put(lua, &replacement, &found, &mut out)?;
        if out.len() > RE_OUTPUT_BYTES {
            return Err(Error::runtime("re: the result is longer than 256 MiB"));
        }
    }
    out.extend_from_slice(&text[kept..]);
    Ok((lua.create_string(out)?, count))
}

fn put(
    lua: &Lua,
    replacement: &Replacement,
    found: &Captures<'_>,
    out: &mut Vec<u8>,
) -> Result<()> {
    let value: Value = match replacement {
        Replacement::Template(template) => {
            found.expand(&template.as_bytes(), out);
            return Ok(());
        }
        Replacement::Table(table) => {
            let key = results(lua, found)?.pop_front().unwrap_or(Value::Nil);
            if key.is_nil() { Value::Nil } else { table.get(key)? }
        }
        Replacement::Function(function) => function.call(results(lua, found)?)?,
    };
    match value {
        // As in `string.gsub`, nil and false keep the match.
        Value::Nil | Value::Boolean(false) => out.extend_from_slice(found.get_match().as_bytes()),
        Value::String(text) => out.extend_from_slice(&text.as_bytes()),
        number @ (Value::Integer(_) | Value::Number(_)) => {
            out.extend_from_slice(number.to_string()?.as_bytes());
        }
        other => {
            let kind = other.type_name();
            return Err(Error::runtime(format!("invalid replacement value (a {kind})")));
        }
    }
    Ok(())
}
