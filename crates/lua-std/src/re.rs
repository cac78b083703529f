//! `re`: regular expressions whose time is linear in the text, whatever the pattern.
//!
//! Caches a few compiled patterns that are given as strings. Promises a limit on a pattern's
//! memory, and the conventions of Lua's own `string` functions: positions from one, captures as
//! results, the whole match if there are none. Text is bytes; `.` and classes are characters of
//! UTF-8 unless a pattern says `(?-u)`.

mod pattern;
mod replace;

use lua_vm::arguments::function;
use mlua::{
    Error, FromLua, Function, IntoLua, Lua, LuaString, MultiValue, Result, Table, UserData,
    UserDataMethods, Value,
};
use pattern::{Pattern, PatternCache};
use regex::bytes::Captures;
use std::rc::Rc;

type Optional = (LuaString, Target, Option<i64>);

pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let kept = Rc::new(PatternCache::default());
    let table = lua.create_table()?;
    let compile = |_: &Lua, pattern: LuaString| {
        Ok(match Pattern::new(&pattern.as_bytes()) {
            Ok(pattern) => (Some(pattern), None),
            Err(reason) => (None, Some(reason)),
        })
    };
    table.set("compile", function(lua, "compile", compile)?)?;
    let with = kept.clone();
    let body =
        move |lua: &Lua, (s, p, init): Optional| matched(lua, &s, &with.resolve(p, "match")?, init);
    table.set("match", function(lua, "match", body)?)?;
    let with = kept.clone();
    let body =
        move |lua: &Lua, (s, p, init): Optional| find(lua, &s, &with.resolve(p, "find")?, init);
    table.set("find", function(lua, "find", body)?)?;
    let with = kept.clone();
    let body = move |lua: &Lua, (s, p, init): Optional| {
        captures(lua, &s, &with.resolve(p, "captures")?, init)
    };
    table.set("captures", function(lua, "captures", body)?)?;
    let with = kept.clone();
    let body =
        move |lua: &Lua, (s, p): (LuaString, Target)| gmatch(lua, s, with.resolve(p, "gmatch")?);
    table.set("gmatch", function(lua, "gmatch", body)?)?;
    let with = kept.clone();
    let body = move |lua: &Lua, (s, p, r, n): (LuaString, Target, Value, Option<usize>)| {
        replace::gsub(lua, &s, &with.resolve(p, "gsub")?, r, n, 3)
    };
    table.set("gsub", function(lua, "gsub", body)?)?;
    let with = kept;
    let body = move |lua: &Lua, (s, p, n): (LuaString, Target, Option<usize>)| {
        split(lua, &s, &with.resolve(p, "split")?, n)
    };
    table.set("split", function(lua, "split", body)?)?;
    table.set("escape", function(lua, "escape", |_, s: String| Ok(regex::escape(&s)))?)?;
    Ok(table)
}

impl UserData for Pattern {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_method("match", |lua, p, (s, init): (LuaString, Option<i64>)| {
            matched(lua, &s, p, init)
        });
        methods.add_method("find", |lua, p, (s, init): (LuaString, Option<i64>)| {
            find(lua, &s, p, init)
        });
        methods.add_method("captures", |lua, p, (s, init): (LuaString, Option<i64>)| {
            captures(lua, &s, p, init)
        });
        methods.add_method("gmatch", |lua, p, s: LuaString| gmatch(lua, s, p.clone()));
        methods.add_method("gsub", |lua, p, (s, r, n): (LuaString, Value, Option<usize>)| {
            replace::gsub(lua, &s, &p.clone(), r, n, 2)
        });
        methods
            .add_method("split", |lua, p, (s, n): (LuaString, Option<usize>)| split(lua, &s, p, n));
    }
}

/// A pattern as a string, or compiled.
enum Target {
    Text(LuaString),
    Compiled(Pattern),
}

impl FromLua for Target {
    fn from_lua(value: Value, _: &Lua) -> Result<Self> {
        match &value {
            Value::String(text) => Ok(Self::Text(text.clone())),
            Value::UserData(data) if data.is::<Pattern>() => {
                Ok(Self::Compiled(data.borrow::<Pattern>()?.clone()))
            }
            other => Err(Error::runtime(format!("pattern expected, got {}", other.type_name()))),
        }
    }
}

/// The start offset, as `string.find` counts; `None` past the end.
fn start(init: Option<i64>, length: usize) -> Option<usize> {
    let at = match init.unwrap_or(1) {
        at if at > 0 => usize::try_from(at - 1).ok()?,
        0 => 0,
        back => length.saturating_sub(usize::try_from(back.unsigned_abs()).ok()?),
    };
    (at <= length).then_some(at)
}

fn first<'a>(pattern: &Pattern, text: &'a [u8], init: Option<i64>) -> Option<Captures<'a>> {
    pattern.captures_at(text, start(init, text.len())?)
}

/// `match(s, pattern[, init])`: the captures, or the whole match; nil if there is none.
fn matched(lua: &Lua, s: &LuaString, pattern: &Pattern, init: Option<i64>) -> Result<MultiValue> {
    match first(pattern, &s.as_bytes(), init) {
        Some(found) => results(lua, &found),
        None => Ok([Value::Nil].into_iter().collect()),
    }
}

/// `find(s, pattern[, init])`: first and last position, then the captures.
fn find(lua: &Lua, s: &LuaString, pattern: &Pattern, init: Option<i64>) -> Result<MultiValue> {
    let text = s.as_bytes();
    let Some(found) = first(pattern, &text, init) else {
        return Ok([Value::Nil].into_iter().collect());
    };
    let whole = found.get_match();
    let mut values = match found.len() {
        1 => MultiValue::new(),
        _ => results(lua, &found)?,
    };
    values.push_front(whole.end().into_lua(lua)?);
    values.push_front((whole.start() + 1).into_lua(lua)?);
    Ok(values)
}

/// `captures(s, pattern[, init])`: a table with the whole match at 0, groups by number and name.
fn captures(lua: &Lua, s: &LuaString, pattern: &Pattern, init: Option<i64>) -> Result<Value> {
    let text = s.as_bytes();
    let Some(found) = first(pattern, &text, init) else { return Ok(Value::Nil) };
    let table = lua.create_table()?;
    for (number, (group, name)) in found.iter().zip(pattern.capture_names()).enumerate() {
        let Some(group) = group else { continue };
        let value = lua.create_string(group.as_bytes())?;
        if let Some(name) = name {
            table.raw_set(name, &value)?;
        }
        table.raw_set(number, value)?;
    }
    Ok(Value::Table(table))
}

/// `gmatch(s, pattern)`: an iterator over the results of `match`.
fn gmatch(lua: &Lua, s: LuaString, pattern: Pattern) -> Result<Function> {
    let (mut at, mut last) = (0, None);
    lua.create_function_mut(move |lua, ()| match pattern.next(&s.as_bytes(), &mut at, &mut last) {
        Some(found) => results(lua, &found),
        None => Ok([Value::Nil].into_iter().collect()),
    })
}

/// `split(s, pattern[, n])`: the pieces between the matches, `n` at most.
fn split(lua: &Lua, s: &LuaString, pattern: &Pattern, most: Option<usize>) -> Result<Table> {
    let text = s.as_bytes();
    let pieces: Vec<LuaString> = pattern
        .splitn(&text, most.unwrap_or(usize::MAX))
        .map(|piece| lua.create_string(piece))
        .collect::<Result<_>>()?;
    lua.create_sequence_from(pieces)
}

/// The groups as results, the whole match if there are none.
fn results(lua: &Lua, found: &Captures<'_>) -> Result<MultiValue> {
    let skipped = usize::from(found.len() > 1);
    let value = |group: Option<regex::bytes::Match<'_>>| match group {
        Some(group) => lua.create_string(group.as_bytes()).map(Value::String),
        None => Ok(Value::Nil),
    };
    found.iter().skip(skipped).map(value).collect()
}

#[cfg(test)]
mod tests;
