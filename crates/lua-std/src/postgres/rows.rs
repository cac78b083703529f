//! The rows of a result as Lua values.

use std::rc::Rc;

use mlua::{Lua, LuaString, Result, Table, Value};
use wire::postgres::{self, Array, ArrayItem, DataRow, Fault};

use super::{MessageError, Step};

/// The result that is being read.
#[derive(Default)]
pub(super) struct ResultRows {
    columns: Rc<[(LuaString, u32)]>,
    rows: Option<Table>,
    count: usize,
    bytes: usize,
    /// What a statement without rows gives.
    completed: Option<Table>,
}

impl ResultRows {
    pub(super) fn new(lua: &Lua, columns: Rc<[(LuaString, u32)]>) -> Result<ResultRows> {
        let rows = (!columns.is_empty()).then(|| lua.create_table()).transpose()?;
        Ok(ResultRows { columns, rows, ..ResultRows::default() })
    }

    /// Adds a row; false if the result becomes larger than `max_bytes`.
    pub(super) fn add(
        &mut self,
        lua: &Lua,
        mut row: DataRow<'_>,
        bytes: usize,
        max_bytes: usize,
    ) -> Step<bool> {
        self.bytes += bytes;
        if self.bytes > max_bytes {
            return Ok(false);
        }
        if row.len() != self.columns.len() {
            return Err(Fault::Malformed.into());
        }
        let table = lua.create_table_with_capacity(0, self.columns.len())?;
        for (name, kind) in self.columns.iter() {
            if let Some(text) = row.next_value()? {
                table.raw_set(name, value(lua, postgres::value(*kind, text)?)?)?;
            }
        }
        self.count += 1;
        self.rows.as_ref().ok_or(Fault::Malformed)?.raw_set(self.count, table)?;
        Ok(true)
    }

    /// The statement has ended, with a tag such as `INSERT 0 1`.
    pub(super) fn complete(&mut self, lua: &Lua, tag: &[u8]) -> Result<()> {
        let tag = String::from_utf8_lossy(tag);
        let is_number = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
        let words: Vec<&str> = tag.split(' ').collect();
        let command: Vec<&str> = words.iter().copied().filter(|word| !is_number(word)).collect();
        let affected = words.last().and_then(|word| word.parse::<i64>().ok()).unwrap_or(0);
        let table = lua.create_table_with_capacity(0, 3)?;
        table.set("type", "OK")?;
        table.set("command", command.join(" "))?;
        table.set("affected_rows", affected)?;
        self.completed = Some(table);
        Ok(())
    }

    /// The rows, or what a statement without rows gives; `None` if it has not ended.
    pub(super) fn finish(self) -> Option<Table> {
        let completed = self.completed?;
        Some(self.rows.unwrap_or(completed))
    }
}

fn value(lua: &Lua, value: postgres::Value<'_>) -> Step<Value> {
    Ok(match value {
        postgres::Value::Boolean(truth) => Value::Boolean(truth),
        postgres::Value::Integer(number) => Value::Integer(number),
        postgres::Value::Float(number) => Value::Number(number),
        postgres::Value::Text(text) => Value::String(lua.create_string(text)?),
        postgres::Value::Bytes(bytes) => Value::String(lua.create_string(bytes)?),
        postgres::Value::Array(array) => Value::Table(list(lua, array)?),
    })
}

/// A list with its length as `n`: an element that is null is nil.
fn list(lua: &Lua, mut array: Array<'_>) -> Step<Table> {
    // The arrays that are open, each with the number of its elements.
    let mut open = vec![(lua.create_table()?, 0)];
    loop {
        let item = match array.next_item()? {
            ArrayItem::Begin => {
                open.push((lua.create_table()?, 0));
                continue;
            }
            ArrayItem::End => {
                let Some((table, count)) = open.pop() else { return Err(Fault::Malformed.into()) };
                table.raw_set("n", count)?;
                if open.is_empty() {
                    return Ok(table);
                }
                Value::Table(table)
            }
            ArrayItem::Null => Value::Nil,
            ArrayItem::Value(item) => value(lua, item)?,
            ArrayItem::Unescaped(text) => value(lua, postgres::value(array.kind(), &text)?)?,
        };
        let (table, count) = open.last_mut().ok_or(MessageError::Fault(Fault::Malformed))?;
        *count += 1;
        table.raw_set(*count, item)?;
    }
}
