//! Tables as structs and back.
//!
//! A struct is its length, the number of its fields, for each field how many tags are between it
//! and the one before, and then the values; all integers are little-endian.

use mlua::{Error, Lua, Result, Table, Value};

use super::schema::{Field, Schema, Shape, ValueType};
use crate::limits::{ZPROTO_BYTES, ZPROTO_DEFAULTS};

const LENGTH_BYTES: usize = 4;

fn wrong(field: &Field, what: &str, got: &Value) -> Error {
    Error::runtime(format!("'{}': {what} expected, got {}", field.name, got.type_name()))
}

/// Appends a struct. The schema bounds the recursion.
pub(super) fn encode(schema: &Schema, of: usize, table: &Table, out: &mut Vec<u8>) -> Result<()> {
    let mut present: Vec<(&Field, Value)> = Vec::new();
    for field in &schema.structs[of].fields {
        match table.get(&*field.name)? {
            Value::Nil => {}
            value => present.push((field, value)),
        }
    }
    let begin = begin_length(out);
    out.extend_from_slice(&(present.len() as u16).to_le_bytes());
    // Tags begin with that of the first field of the type.
    let mut next = schema.structs[of].fields.first().map_or(0, |field| u32::from(field.tag));
    for (field, _) in &present {
        let tag = u32::from(field.tag);
        out.extend_from_slice(&((tag - next) as u16).to_le_bytes());
        next = tag + 1;
    }
    for (field, value) in &present {
        encode_field(schema, field, value, out)?;
    }
    end_length(out, begin, None);
    Ok(())
}

fn encode_field(schema: &Schema, field: &Field, value: &Value, out: &mut Vec<u8>) -> Result<()> {
    if field.shape == Shape::Single {
        return encode_value(schema, field, value, out);
    }
    let Value::Table(table) = value else { return Err(wrong(field, "table", value)) };
    let (begin, mut count) = (begin_length(out), 0);
    if field.shape == Shape::List {
        loop {
            match table.get(count + 1)? {
                Value::Nil => break,
                element => encode_value(schema, field, &element, out)?,
            }
            count += 1;
        }
    } else {
        for pair in table.pairs::<Value, Value>() {
            encode_value(schema, field, &pair?.1, out)?;
            count += 1;
        }
    }
    end_length(out, begin, Some(count));
    Ok(())
}

/// Leaves room for a length or a count; returns where what it is about begins.
fn begin_length(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    out.len()
}

/// Writes the count, or the length of what was appended since `begin`, before it.
fn end_length(out: &mut [u8], begin: usize, count: Option<usize>) {
    // ZPROTO_BYTES bounds both.
    let value = count.unwrap_or(out.len() - begin) as u32;
    out[begin - LENGTH_BYTES..begin].copy_from_slice(&value.to_le_bytes());
}

fn encode_value(schema: &Schema, field: &Field, value: &Value, out: &mut Vec<u8>) -> Result<()> {
    match (field.kind, value) {
        (ValueType::Boolean, Value::Boolean(value)) => out.push(u8::from(*value)),
        (ValueType::Integer { bytes, .. }, Value::Integer(value)) => {
            out.extend_from_slice(&value.to_le_bytes()[..bytes]);
        }
        (ValueType::Integer { bytes, .. }, Value::Number(number))
            if number.fract() == 0.0 && number.abs() < 9.2e18 =>
        {
            out.extend_from_slice(&(*number as i64).to_le_bytes()[..bytes]);
        }
        (ValueType::Float, Value::Number(value)) => {
            out.extend_from_slice(&(*value as f32).to_le_bytes());
        }
        (ValueType::Float, Value::Integer(value)) => {
            out.extend_from_slice(&(*value as f32).to_le_bytes());
        }
        (ValueType::String | ValueType::Blob, Value::String(text)) => {
            let text = text.as_bytes();
            if text.len() > ZPROTO_BYTES {
                return Err(too_large());
            }
            let begin = begin_length(out);
            out.extend_from_slice(&text);
            end_length(out, begin, None);
        }
        (ValueType::Struct(of), Value::Table(table)) => encode(schema, of, table, out)?,
        (kind, other) => {
            let what = match kind {
                ValueType::Boolean => "boolean",
                ValueType::Integer { .. } => "integer",
                ValueType::Float => "number",
                ValueType::String | ValueType::Blob => "string",
                ValueType::Struct(_) => "table",
            };
            return Err(wrong(field, what, other));
        }
    }
    if out.len() > ZPROTO_BYTES { Err(too_large()) } else { Ok(()) }
}

fn too_large() -> Error {
    Error::runtime(format!("the data would be longer than {} MiB", ZPROTO_BYTES >> 20))
}

/// Why data is not decoded.
pub(super) enum DecodeError {
    Data(String),
    Lua(Error),
}

impl From<Error> for DecodeError {
    fn from(error: Error) -> DecodeError {
        DecodeError::Lua(error)
    }
}

type Decoded<T> = std::result::Result<T, DecodeError>;

/// What is not read.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Decoded<&'a [u8]> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or_else(|| DecodeError::Data("the data breaks off".to_owned()))?;
        self.0 = rest;
        Ok(taken)
    }

    fn integer(&mut self, bytes: usize, is_signed: bool) -> Decoded<i64> {
        let mut wide = [0; 8];
        wide[..bytes].copy_from_slice(self.take(bytes)?);
        let shift = 64 - 8 * bytes as u32;
        let value = u64::from_le_bytes(wide) << shift;
        Ok(if is_signed { value as i64 >> shift } else { (value >> shift) as i64 })
    }

    fn length(&mut self) -> Decoded<usize> {
        Ok(self.integer(LENGTH_BYTES, false)? as usize)
    }
}

/// The table of a struct, and how many bytes it has. What is behind a field that is not known is
/// left out.
pub(super) fn decode(
    lua: &Lua,
    schema: &Schema,
    of: usize,
    data: &[u8],
) -> Decoded<(Table, usize)> {
    let mut cursor = Cursor(data);
    let length = cursor.length()?;
    let mut body = Cursor(cursor.take(length)?);
    let count = body.integer(2, false)? as usize;
    let mut tags = Cursor(body.take(count * 2)?);
    let fields = &schema.structs[of];
    let mut next = fields.fields.first().map_or(0, |field| u32::from(field.tag));
    let table = lua.create_table()?;
    for _ in 0..count {
        let tag = next + tags.integer(2, false)? as u32;
        let Some(field) = fields.field(tag) else { break };
        let value = decode_field(lua, schema, field, &mut body)?;
        table.raw_set(&*field.name, value)?;
        next = tag + 1;
    }
    Ok((table, LENGTH_BYTES + length))
}

fn decode_field(
    lua: &Lua,
    schema: &Schema,
    field: &Field,
    body: &mut Cursor<'_>,
) -> Decoded<Value> {
    if field.shape == Shape::Single {
        return decode_value(lua, schema, field, body);
    }
    let count = body.length()?;
    // An element has a byte or more.
    if count > body.0.len() {
        return Err(DecodeError::Data("the data breaks off".to_owned()));
    }
    let list = lua.create_table()?;
    let key = schema.map_key(field);
    for index in 1..=count {
        let value = decode_value(lua, schema, field, body)?;
        match (key, &value) {
            (Some(key), Value::Table(element)) => {
                let name: Value = element.raw_get(&*key.name)?;
                let is_key =
                    !name.is_nil() && !matches!(name, Value::Number(name) if name.is_nan());
                if !is_key {
                    let text = format!("an element of '{}' has no '{}'", field.name, key.name);
                    return Err(DecodeError::Data(text));
                }
                list.raw_set(name, value)?;
            }
            _ => list.raw_set(index, value)?,
        }
    }
    Ok(Value::Table(list))
}

fn decode_value(
    lua: &Lua,
    schema: &Schema,
    field: &Field,
    body: &mut Cursor<'_>,
) -> Decoded<Value> {
    Ok(match field.kind {
        ValueType::Boolean => Value::Boolean(body.integer(1, false)? != 0),
        ValueType::Integer { bytes, is_signed } => Value::Integer(body.integer(bytes, is_signed)?),
        ValueType::Float => Value::Number(f32::from_bits(body.integer(4, false)? as u32).into()),
        ValueType::String | ValueType::Blob => {
            let length = body.length()?;
            Value::String(lua.create_string(body.take(length)?)?)
        }
        ValueType::Struct(of) => {
            let (table, used) = decode(lua, schema, of, body.0)?;
            body.take(used)?;
            Value::Table(table)
        }
    })
}

/// A struct with zeros, empty strings and empty tables.
pub(super) fn default(lua: &Lua, schema: &Schema, of: usize) -> Result<Table> {
    let mut left = ZPROTO_DEFAULTS;
    default_struct(lua, schema, of, &mut left)
}

fn default_struct(lua: &Lua, schema: &Schema, of: usize, left: &mut usize) -> Result<Table> {
    // A struct in several fields of each struct around it would be there without end.
    *left = left.checked_sub(1).ok_or_else(|| {
        Error::runtime(format!("the default has more than {ZPROTO_DEFAULTS} structs"))
    })?;
    let table = lua.create_table()?;
    for field in &schema.structs[of].fields {
        let value = match (field.shape, field.kind) {
            (Shape::List | Shape::Map(_), _) => Value::Table(lua.create_table()?),
            (Shape::Single, ValueType::Boolean) => Value::Boolean(false),
            (Shape::Single, ValueType::Integer { .. }) => Value::Integer(0),
            (Shape::Single, ValueType::Float) => Value::Number(0.0),
            (Shape::Single, ValueType::String | ValueType::Blob) => {
                Value::String(lua.create_string("")?)
            }
            (Shape::Single, ValueType::Struct(of)) => {
                Value::Table(default_struct(lua, schema, of, left)?)
            }
        };
        table.raw_set(&*field.name, value)?;
    }
    Ok(table)
}
