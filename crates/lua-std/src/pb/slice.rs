//! `pb.slice`: reads the wire format step by step.

use mlua::{
    AnyUserData, IntoLuaMulti, Lua, LuaString, MetaMethod, MultiValue, Result, Table, UserData,
    UserDataMethods, Value, Variadic,
};
use protobuf::Reader;

use super::format::{self, View};
use super::{argument, buffer, bytes_of, expected, range};
use crate::limits::PROTOBUF_LEVELS;

/// Bytes, the view of them that is read, and the views around it.
pub(super) struct Slice {
    data: Vec<u8>,
    view: View,
    outer: Vec<View>,
}

impl Slice {
    fn new(name: &str, values: &[Value]) -> Result<Slice> {
        let position = |index: usize| match values.get(index) {
            None | Some(Value::Nil) => Ok(None),
            Some(Value::Integer(position)) => Ok(Some(*position)),
            Some(other) => Err(expected(name, index + 1, "number", other)),
        };
        let data = match values.first() {
            None | Some(Value::Nil) => Vec::new(),
            Some(value) => bytes_of(name, 1, value)?,
        };
        let whole = View { start: 0, at: 0, end: data.len() };
        let range = range(data.len(), position(1)?, position(2)?);
        let view = View { start: 0, at: range.start, end: range.end };
        Ok(Slice { data, view, outer: vec![whole] })
    }

    /// The rest of the view.
    pub(super) fn rest(&self) -> Vec<u8> {
        self.data[self.view.at..self.view.end].to_vec()
    }

    fn enter(&mut self, view: View) -> Result<()> {
        if self.outer.len() >= PROTOBUF_LEVELS {
            return Err(argument("enter", 1, "too many levels"));
        }
        self.outer.push(std::mem::replace(&mut self.view, view));
        Ok(())
    }

    /// Enters the bytes that come next, which have their length before them.
    fn enter_bytes(&mut self) -> Result<()> {
        let base = self.view.at;
        let mut reader = Reader::new(&self.data[base..self.view.end]);
        let length = reader.bytes().map(<[u8]>::len).map_err(|_| {
            let at = base - self.view.start + 1;
            argument("enter", 1, &format!("bytes wireformat expected at offset {at}"))
        })?;
        let end = base + reader.position();
        self.view.at = end;
        self.enter(View { start: end - length, at: end - length, end })
    }

    fn leave(&mut self, count: usize) -> Result<usize> {
        let used = self.outer.len();
        if count > used {
            let why = format!("level ({count}) exceed max level {used}");
            return Err(argument("leave", 2, &why));
        }
        let stays = (used - count).max(1);
        if count > 0 {
            self.view = self.outer[used - count];
            self.outer.truncate(stays);
        }
        Ok(self.outer.len())
    }
}

impl UserData for Slice {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::Len, |_, slice, ()| Ok(slice.view.end - slice.view.at));
        methods.add_meta_method(MetaMethod::ToString, |_, slice, ()| {
            Ok(format!("pb.Slice: {} bytes", slice.data.len()))
        });
        methods.add_function("unpack", unpack);
        methods.add_function("reset", reset);
        methods.add_function("delete", |_, object: AnyUserData| {
            *object.borrow_mut::<Slice>()? = Slice::new("delete", &[])?;
            Ok(())
        });
        methods.add_function("enter", enter);
        methods.add_function("leave", leave);
        methods.add_function("level", level);
        methods.add_function("tohex", buffer::to_hex);
        methods.add_function("fromhex", buffer::from_hex);
        methods.add_function("result", buffer::result);
    }
}

/// The module, which is called to make a slice.
pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    let new = |_: &Lua, values: Variadic<Value>| Slice::new("new", &values);
    table.set("new", lua.create_function(new)?)?;
    for (name, body) in [
        ("unpack", unpack as fn(&Lua, Variadic<Value>) -> Result<MultiValue>),
        ("reset", reset),
        ("enter", enter),
        ("leave", leave),
        ("level", level),
    ] {
        table.set(name, lua.create_function(body)?)?;
    }
    let delete = |lua: &Lua, object: Value| reset(lua, [object].into_iter().collect()).map(drop);
    table.set("delete", lua.create_function(delete)?)?;
    buffer::add_hex(lua, &table)?;
    let meta = lua.create_table()?;
    let call = |_: &Lua, values: Variadic<Value>| Slice::new("new", values.get(1..).unwrap_or(&[]));
    meta.set("__call", lua.create_function(call)?)?;
    table.set_metatable(Some(meta))?;
    Ok(table)
}

fn object<'a>(name: &str, values: &'a [Value]) -> Result<&'a AnyUserData> {
    match values.first() {
        Some(Value::UserData(object)) if object.is::<Slice>() => Ok(object),
        other => Err(expected(name, 1, "pb.Slice", other.unwrap_or(&Value::Nil))),
    }
}

fn optional(name: &str, values: &[Value], index: usize) -> Result<Option<i64>> {
    match values.get(index) {
        None | Some(Value::Nil) => Ok(None),
        Some(Value::Integer(number)) => Ok(Some(*number)),
        Some(other) => Err(expected(name, index + 1, "number", other)),
    }
}

/// `reset(slice[, data[, i[, j]]]) → slice`
fn reset(lua: &Lua, values: Variadic<Value>) -> Result<MultiValue> {
    let found = object("reset", &values)?;
    *found.borrow_mut::<Slice>()? = Slice::new("reset", &values[1..])?;
    found.into_lua_multi(lua)
}

/// `enter(slice[, i[, j]]) → slice`
fn enter(lua: &Lua, values: Variadic<Value>) -> Result<MultiValue> {
    let found = object("enter", &values)?;
    let mut slice = found.borrow_mut::<Slice>()?;
    match optional("enter", &values, 1)? {
        None => slice.enter_bytes()?,
        Some(i) => {
            let View { start, end, .. } = slice.view;
            let range = range(end - start, Some(i), optional("enter", &values, 2)?);
            let begin = start + range.start;
            slice.enter(View { start: begin, at: begin, end: start + range.end })?;
        }
    }
    drop(slice);
    found.into_lua_multi(lua)
}

/// `leave(slice[, count]) → slice, level`
fn leave(lua: &Lua, values: Variadic<Value>) -> Result<MultiValue> {
    let found = object("leave", &values)?;
    let count = optional("leave", &values, 1)?.unwrap_or(1);
    let mut slice = found.borrow_mut::<Slice>()?;
    let used = slice.outer.len() as i64;
    let count = if count < 0 { used + count + 1 } else { count };
    let level = slice.leave(usize::try_from(count).unwrap_or(0))?;
    drop(slice);
    (found, level).into_lua_multi(lua)
}

/// `level(slice) → count`, `level(slice, n) → position, first, last`
fn level(lua: &Lua, values: Variadic<Value>) -> Result<MultiValue> {
    let found = object("level", &values)?;
    let slice = found.borrow::<Slice>()?;
    let used = slice.outer.len() as i64;
    let Some(level) = optional("level", &values, 1)? else { return used.into_lua_multi(lua) };
    let level = if level < 0 { used + level + 1 } else { level };
    let view = match usize::try_from(level) {
        Ok(level) if level == slice.outer.len() => Some(&slice.view),
        Ok(level) => slice.outer.get(level),
        Err(_) => None,
    };
    match view {
        Some(view) => (view.at + 1, view.start + 1, view.end).into_lua_multi(lua),
        None => Ok(MultiValue::new()),
    }
}

/// `unpack(data, format, …) → values`
pub(super) fn unpack(lua: &Lua, values: Variadic<Value>) -> Result<MultiValue> {
    let letters: &LuaString = match values.get(1) {
        Some(Value::String(letters)) => letters,
        other => return Err(expected("unpack", 2, "string", other.unwrap_or(&Value::Nil))),
    };
    let (letters, arguments) = (letters.to_str()?, &values[2..]);
    if let Ok(found) = object("unpack", &values) {
        let mut slice = found.borrow_mut::<Slice>()?;
        let Slice { data, view, .. } = &mut *slice;
        return Ok(format::unpack(lua, &letters, arguments, data, view)?.into_iter().collect());
    }
    let data = bytes_of("unpack", 1, values.first().unwrap_or(&Value::Nil))?;
    let mut view = View { start: 0, at: 0, end: data.len() };
    Ok(format::unpack(lua, &letters, arguments, &data, &mut view)?.into_iter().collect())
}
