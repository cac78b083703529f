//! `pb.buffer`: bytes that grow by values in the wire format.

use lua_vm::arguments::function;
use mlua::{Lua, MetaMethod, Result, Table, UserData, UserDataMethods, Value, Variadic};

use super::{bytes_of, check_length, expected, format, range, string_value};

/// A buffer.
#[derive(Default)]
pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn append(&mut self, data: &[u8]) -> Result<()> {
        check_length(self.0.len() + data.len())?;
        self.0.extend_from_slice(data);
        Ok(())
    }

    fn of(name: &'static str, values: &[Value], first: usize) -> Result<Buffer> {
        let mut buffer = Buffer::default();
        for (index, value) in values.iter().enumerate() {
            buffer.append(&bytes_of(name, first + index, value)?)?;
        }
        Ok(buffer)
    }
}

impl UserData for Buffer {
    fn add_methods<M: UserDataMethods<Self>>(methods: &mut M) {
        methods.add_meta_method(MetaMethod::Len, |_, buffer, ()| Ok(buffer.0.len()));
        methods.add_meta_method(MetaMethod::ToString, |_, buffer, ()| {
            Ok(format!("pb.Buffer: {} bytes", buffer.0.len()))
        });
        methods.add_function("reset", reset);
        methods.add_function("delete", delete);
        methods.add_function("pack", pack);
        methods.add_function("tohex", to_hex);
        methods.add_function("fromhex", from_hex);
        methods.add_function("result", result);
    }
}

/// The module, which is called to make a buffer.
pub(crate) fn open(lua: &Lua) -> Result<Table> {
    let table = lua.create_table()?;
    let new = |_: &Lua, values: Variadic<Value>| Buffer::of("new", &values, 1);
    table.set("new", lua.create_function(new)?)?;
    table.set("reset", lua.create_function(reset)?)?;
    table.set("delete", lua.create_function(delete)?)?;
    table.set("pack", lua.create_function(pack)?)?;
    add_hex(lua, &table)?;
    let meta = lua.create_table()?;
    let call =
        |_: &Lua, values: Variadic<Value>| Buffer::of("new", values.get(1..).unwrap_or(&[]), 1);
    meta.set("__call", lua.create_function(call)?)?;
    table.set_metatable(Some(meta))?;
    Ok(table)
}

/// Adds what takes strings too: `tohex`, `fromhex`, `result`.
pub(super) fn add_hex(lua: &Lua, table: &Table) -> Result<()> {
    table.set("tohex", function(lua, "tohex", to_hex)?)?;
    table.set("fromhex", function(lua, "fromhex", from_hex)?)?;
    table.set("result", function(lua, "result", result)?)
}

/// `reset(buffer, …) → buffer`
fn reset(_: &Lua, values: Variadic<Value>) -> Result<Value> {
    let buffer = values.first().cloned().unwrap_or(Value::Nil);
    let Value::UserData(object) = &buffer else {
        return Err(expected("reset", 1, "pb.Buffer", &buffer));
    };
    let new = Buffer::of("reset", values.get(1..).unwrap_or(&[]), 1)?;
    *object.borrow_mut::<Buffer>()? = new;
    Ok(buffer)
}

fn delete(_: &Lua, object: mlua::AnyUserData) -> Result<()> {
    *object.borrow_mut::<Buffer>()? = Buffer::default();
    Ok(())
}

/// `pack(buffer, format, …) → buffer`, `pack(format, …) → string`
pub(super) fn pack(lua: &Lua, values: Variadic<Value>) -> Result<Value> {
    let first = values.first().cloned().unwrap_or(Value::Nil);
    let is_buffer = matches!(&first, Value::UserData(object) if object.is::<Buffer>());
    let skipped = usize::from(is_buffer);
    let Some(Value::String(letters)) = values.get(skipped) else {
        let got = values.get(skipped).cloned().unwrap_or(Value::Nil);
        return Err(expected("pack", 1, "string", &got));
    };
    let arguments = &values[skipped + 1..];
    // Lengths are written within what is packed before it joins the buffer.
    match &first {
        Value::UserData(object) if is_buffer => {
            let mut buffer = object.borrow_mut::<Buffer>()?;
            let mut out = std::mem::take(&mut buffer.0);
            let before = out.len();
            let packed = format::pack(&letters.to_str()?, arguments, skipped + 2, &mut out);
            if packed.is_err() {
                out.truncate(before);
            }
            buffer.0 = out;
            packed?;
            drop(buffer);
            Ok(first.clone())
        }
        _ => {
            let mut out = Vec::new();
            format::pack(&letters.to_str()?, arguments, 2, &mut out)?;
            string_value(lua, &out)
        }
    }
}

/// `tohex(data[, i[, j]]) → text`: two digits for each byte, with blanks between them.
pub(super) fn to_hex(_: &Lua, (data, i, j): (Value, Option<i64>, Option<i64>)) -> Result<String> {
    let data = bytes_of("tohex", 1, &data)?;
    let bytes = &data[range(data.len(), i, j)];
    let pairs: Vec<String> = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    Ok(pairs.join(" "))
}

/// `fromhex(text[, i[, j]]) → bytes`; what is not a digit is skipped.
pub(super) fn from_hex(
    lua: &Lua,
    (data, i, j): (Value, Option<i64>, Option<i64>),
) -> Result<Value> {
    let data = bytes_of("fromhex", 1, &data)?;
    let text = &data[range(data.len(), i, j)];
    let digits: Vec<u32> = text.iter().filter_map(|byte| char::from(*byte).to_digit(16)).collect();
    let bytes: Vec<u8> =
        digits.chunks_exact(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect();
    string_value(lua, &bytes)
}

/// `result(data[, i[, j]]) → string`
pub(super) fn result(lua: &Lua, (data, i, j): (Value, Option<i64>, Option<i64>)) -> Result<Value> {
    let data = bytes_of("result", 1, &data)?;
    string_value(lua, &data[range(data.len(), i, j)])
}
