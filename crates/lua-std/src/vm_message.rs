//! Lua values on their way between VMs: deep copies.
//!
//! Copies nil, booleans, numbers, strings and tables of these; other values, and tables nested too
//! deeply, are an error that names them.

use mlua::{Error, Lua, Result, Value};

use crate::limits::{MESSAGE_BYTES, MESSAGE_DEPTH, MESSAGE_VALUES};

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Message {
    Nil,
    Boolean(bool),
    Integer(i64),
    Number(f64),
    Bytes(Vec<u8>),
    Table(Vec<(Message, Message)>),
}

/// The remaining size of a message.
struct MessageBudget {
    values: usize,
    bytes: usize,
}

impl MessageBudget {
    fn take(&mut self, bytes: usize) -> Result<()> {
        let left = self.values.checked_sub(1).zip(self.bytes.checked_sub(bytes));
        let Some((values, bytes)) = left else {
            return Err(Error::runtime("the value is too large to leave its VM"));
        };
        *self = MessageBudget { values, bytes };
        Ok(())
    }
}

impl Message {
    pub(crate) fn copy(value: &Value) -> Result<Message> {
        Message::copy_at(
            value,
            0,
            &mut MessageBudget { values: MESSAGE_VALUES, bytes: MESSAGE_BYTES },
        )
    }

    fn copy_at(value: &Value, depth: usize, room: &mut MessageBudget) -> Result<Message> {
        // A table with several references is copied for each.
        room.take(value.as_string().map_or(0, |text| text.as_bytes().len()))?;
        Ok(match value {
            Value::Nil => Message::Nil,
            Value::Boolean(truth) => Message::Boolean(*truth),
            Value::Integer(number) => Message::Integer(*number),
            Value::Number(number) => Message::Number(*number),
            Value::String(text) => Message::Bytes(text.as_bytes().to_vec()),
            Value::Table(_) if depth == MESSAGE_DEPTH => {
                return Err(Error::runtime("a table deeper than 100 cannot leave its VM"));
            }
            Value::Table(table) => {
                let mut pairs = Vec::new();
                for pair in table.pairs::<Value, Value>() {
                    let (key, value) = pair?;
                    pairs.push((
                        Message::copy_at(&key, depth + 1, room)?,
                        Message::copy_at(&value, depth + 1, room)?,
                    ));
                }
                Message::Table(pairs)
            }
            other => {
                let kind = other.type_name();
                return Err(Error::runtime(format!("a {kind} cannot leave its VM")));
            }
        })
    }

    pub(crate) fn into_value(self, lua: &Lua) -> Result<Value> {
        Ok(match self {
            Message::Nil => Value::Nil,
            Message::Boolean(truth) => Value::Boolean(truth),
            Message::Integer(number) => Value::Integer(number),
            Message::Number(number) => Value::Number(number),
            Message::Bytes(bytes) => Value::String(lua.create_string(bytes)?),
            Message::Table(pairs) => {
                let table = lua.create_table_with_capacity(0, pairs.len())?;
                for (key, value) in pairs {
                    table.raw_set(key.into_value(lua)?, value.into_value(lua)?)?;
                }
                Value::Table(table)
            }
        })
    }
}
