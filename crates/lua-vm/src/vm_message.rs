//! Lua values on their way between VMs: deep copies.
//!
//! Copies nil, booleans, numbers, strings and tables of these; tables nested too deeply are an
//! error. Other values are an error that names them, or nil where Silly makes them nil.

use mlua::{Error, Lua, MultiValue, Result, Value};

use crate::limits::{MESSAGE_BYTES, MESSAGE_DEPTH, MESSAGE_VALUES};

/// A value between two VMs.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
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
    /// True if a value that cannot be copied becomes nil.
    is_lenient: bool,
}

impl MessageBudget {
    fn new(is_lenient: bool) -> MessageBudget {
        MessageBudget { values: MESSAGE_VALUES, bytes: MESSAGE_BYTES, is_lenient }
    }

    fn take(&mut self, bytes: usize) -> Result<()> {
        let left = self.values.checked_sub(1).zip(self.bytes.checked_sub(bytes));
        let Some((values, bytes)) = left else {
            return Err(Error::runtime("the value is too large to leave its VM"));
        };
        (self.values, self.bytes) = (values, bytes);
        Ok(())
    }
}

impl Message {
    /// Copies a value; one that cannot leave its VM is an error.
    pub fn copy(value: &Value) -> Result<Message> {
        Message::copy_at(value, 0, &mut MessageBudget::new(false))
    }

    /// Copies values, which share one limit; one that cannot leave its VM is nil in the copy.
    pub fn copy_lenient(values: &MultiValue) -> Result<Vec<Message>> {
        let mut room = MessageBudget::new(true);
        values.iter().map(|value| Message::copy_at(value, 0, &mut room)).collect()
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
                    let key = Message::copy_at(&key, depth + 1, room)?;
                    if key != Message::Nil {
                        pairs.push((key, Message::copy_at(&value, depth + 1, room)?));
                    }
                }
                Message::Table(pairs)
            }
            _ if room.is_lenient => Message::Nil,
            other => {
                let kind = other.type_name();
                return Err(Error::runtime(format!("a {kind} cannot leave its VM")));
            }
        })
    }

    /// Makes the value in another VM.
    pub fn into_value(self, lua: &Lua) -> Result<Value> {
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

/// Makes the values in another VM.
pub fn into_values(messages: Vec<Message>, lua: &Lua) -> Result<MultiValue> {
    messages.into_iter().map(|message| message.into_value(lua)).collect()
}
