//! Header fields as tables: names in lower case, with an array for a repeated name.

use message::Headers;
use mlua::{Error, Lua, LuaString, Result, Table, Value};
use wire::{Known, token};

pub fn to_table(lua: &Lua, headers: &Headers) -> Result<Table> {
    let table = lua.create_table_with_capacity(0, headers.len())?;
    for field in headers.iter() {
        let name = match field.known {
            Some(known) => lua.create_string(known.as_str().to_ascii_lowercase())?,
            None => lua.create_string(field.name.to_ascii_lowercase())?,
        };
        let value = lua.create_string(field.value)?;
        match table.raw_get::<Value>(&name)? {
            Value::Nil => table.raw_set(name, value)?,
            Value::Table(values) => values.raw_push(value)?,
            first => {
                table.raw_set(name, lua.create_sequence_from([first, Value::String(value)])?)?
            }
        }
    }
    Ok(table)
}

/// The fields of a table; values are strings, numbers, or arrays of them.
pub fn of_table(function: &str, index: usize, table: &Table) -> Result<Headers> {
    of_table_but(function, index, table, |_| false)
}

/// As [`of_table`], without the names that have another meaning for the caller.
pub fn of_table_but(
    function: &str,
    index: usize,
    table: &Table,
    other: impl Fn(&Value) -> bool,
) -> Result<Headers> {
    let wrong =
        |what: &str| Error::runtime(format!("bad argument #{index} to '{function}' ({what})"));
    let mut headers = Headers::new();
    for pair in table.pairs::<Value, Value>() {
        let (name, value) = pair?;
        let Value::String(name) = &name else { return Err(wrong("a field name is not a string")) };
        if !token::is_token(&name.as_bytes()) {
            return Err(wrong(&format!("\"{}\" is not a field name", name.to_string_lossy())));
        }
        match &value {
            value if other(value) => {}
            Value::Table(values) => {
                for value in values.sequence_values::<Value>() {
                    append(&mut headers, name, &value?).ok_or_else(|| wrong("a field value"))?;
                }
            }
            value => append(&mut headers, name, value).ok_or_else(|| wrong("a field value"))?,
        }
    }
    Ok(headers)
}

fn append(headers: &mut Headers, name: &LuaString, value: &Value) -> Option<()> {
    let name = &*name.as_bytes();
    match value {
        Value::String(text) => headers.append(name, text.as_bytes()),
        Value::Integer(number) => headers.append(name, number.to_string()),
        Value::Number(number) => headers.append(name, number.to_string()),
        _ => return None,
    }
    Some(())
}

/// The value of Content-Length, if it is a number.
pub fn length(headers: &Headers) -> Option<u64> {
    headers.get(Known::ContentLength).and_then(token::decimal)
}
