//! The letters of `pack` and `unpack`.

use lua_vm::native::pb::{integer_value, of_value};
use mlua::{Error, Lua, Result, Value};
use protobuf::{FieldType, Reader, WireError, write_varint, zigzag32, zigzag64};

use super::{argument, bytes_of, check_length, expected};
use crate::limits::PROTOBUF_LEVELS;

/// The values that are packed; the first one is argument `first` of the call.
struct Values<'a> {
    values: &'a [Value],
    next: usize,
    first: usize,
}

impl<'a> Values<'a> {
    fn next(&mut self) -> (&'a Value, usize) {
        let (value, index) = (self.values.get(self.next), self.first + self.next);
        self.next += 1;
        (value.unwrap_or(&Value::Nil), index)
    }

    fn integer(&mut self) -> Result<u64> {
        let (value, index) = self.next();
        of_value(value).ok_or_else(|| expected("pack", index, "number/string", value))
    }
}

/// Appends values in the wire format.
pub(super) fn pack(letters: &str, values: &[Value], first: usize, out: &mut Vec<u8>) -> Result<()> {
    let mut values = Values { values, next: 0, first };
    // Where the values between parentheses begin.
    let mut open = Vec::new();
    for letter in letters.chars() {
        match letter {
            'v' => write_varint(out, values.integer()?),
            'd' => out.extend_from_slice(&(values.integer()? as u32).to_le_bytes()),
            'q' => out.extend_from_slice(&values.integer()?.to_le_bytes()),
            'c' | 's' => {
                let (value, index) = values.next();
                let bytes = bytes_of("pack", index, value)?;
                if letter == 's' {
                    write_varint(out, bytes.len() as u64);
                }
                out.extend_from_slice(&bytes);
            }
            '#' => {
                let (value, index) = values.next();
                let begin = of_value(value).and_then(|begin| usize::try_from(begin).ok());
                let begin = begin.filter(|begin| *begin <= out.len());
                let begin = begin.ok_or_else(|| argument("pack", index, "position expected"))?;
                insert_length(out, begin);
            }
            '(' if open.len() >= PROTOBUF_LEVELS => {
                return Err(argument("pack", 1, "format level overflow"));
            }
            '(' => open.push(out.len()),
            ')' => {
                let begin = open.pop();
                let begin = begin.ok_or_else(|| argument("pack", 1, "unexpected ')' in format"))?;
                insert_length(out, begin);
            }
            _ => {
                let kind = FieldType::of_letter(letter);
                let kind = kind.ok_or_else(|| invalid_format("pack", letter))?;
                let (value, index) = values.next();
                append(kind, letter, value, index, out)?;
            }
        }
        check_length(out.len())?;
    }
    if open.is_empty() { Ok(()) } else { Err(argument("pack", 1, "unmatch '(' in format")) }
}

/// Writes the length of what was appended since `begin` before it.
fn insert_length(out: &mut Vec<u8>, begin: usize) {
    let mut length = Vec::new();
    write_varint(&mut length, (out.len() - begin) as u64);
    out.splice(begin..begin, length);
}

fn append(
    kind: FieldType,
    letter: char,
    value: &Value,
    index: usize,
    out: &mut Vec<u8>,
) -> Result<()> {
    let integer = || {
        let what = format!("number expected for type '{}'", kind.name());
        of_value(value)
            .ok_or_else(|| argument("pack", index, &format!("{what}, got {}", value.type_name())))
    };
    let float = || match value {
        Value::Number(number) => Ok(*number),
        Value::Integer(number) => Ok(*number as f64),
        other => Err(expected("pack", index, "number", other)),
    };
    match kind {
        FieldType::Bool => out.push(u8::from(!matches!(value, Value::Nil | Value::Boolean(false)))),
        FieldType::Double => out.extend_from_slice(&float()?.to_le_bytes()),
        FieldType::Float => out.extend_from_slice(&(float()? as f32).to_le_bytes()),
        FieldType::Fixed32 | FieldType::Sfixed32 => {
            out.extend_from_slice(&(integer()? as u32).to_le_bytes());
        }
        FieldType::Fixed64 | FieldType::Sfixed64 => {
            out.extend_from_slice(&integer()?.to_le_bytes());
        }
        FieldType::Int32 => write_varint(out, i64::from(integer()? as i32) as u64),
        FieldType::Uint32 => write_varint(out, u64::from(integer()? as u32)),
        FieldType::Sint32 => write_varint(out, zigzag32(integer()? as i32).into()),
        FieldType::Sint64 => write_varint(out, zigzag64(integer()? as i64)),
        FieldType::Int64 | FieldType::Uint64 | FieldType::Enum => write_varint(out, integer()?),
        FieldType::String | FieldType::Bytes => {
            let bytes = bytes_of("pack", index, value)?;
            write_varint(out, bytes.len() as u64);
            out.extend_from_slice(&bytes);
        }
        FieldType::Message | FieldType::Group => return Err(invalid_format("pack", letter)),
    }
    Ok(())
}

/// The error of a format.
fn invalid_format(name: &str, letter: char) -> Error {
    argument(name, 1, &format!("invalid formater: '{letter}'"))
}

/// A view of bytes: positions within the data.
#[derive(Clone, Copy, Debug)]
pub(super) struct View {
    pub(super) start: usize,
    pub(super) at: usize,
    pub(super) end: usize,
}

/// Reads values of a view. It moves as far as they reach; what is behind its end is nil, and ends
/// the reading.
pub(super) fn unpack(
    lua: &Lua,
    letters: &str,
    arguments: &[Value],
    data: &[u8],
    view: &mut View,
) -> Result<Vec<Value>> {
    let (mut values, mut arguments) = (Vec::new(), arguments.iter());
    let mut parameter = || {
        let value = arguments.next();
        let value = value.ok_or_else(|| argument("unpack", 1, "format argument exceed"))?;
        of_value(value)
            .map(|value| value as i64)
            .ok_or_else(|| expected("unpack", 2, "number", value))
    };
    for letter in letters.chars() {
        match letter {
            '@' => {
                values.push(Value::Integer((view.at - view.start) as i64 + 1));
                continue;
            }
            '*' | '+' => {
                let length = (view.end - view.start) as i64;
                let given = parameter()?;
                let position = match letter {
                    '+' => ((view.at - view.start) as i64).saturating_add(given).saturating_add(1),
                    _ if given < 0 => length + given + 1,
                    _ => given,
                };
                view.at = view.start + position.clamp(1, length + 1) as usize - 1;
                continue;
            }
            _ => {}
        }
        if view.at >= view.end {
            values.push(Value::Nil);
            break;
        }
        let base = view.at;
        let mut reader = Reader::new(&data[base..view.end]);
        let at = |error: WireError| Error::runtime(error.moved(base - view.start).to_string());
        let value = match letter {
            'c' => {
                let count = usize::try_from(parameter()?).unwrap_or(usize::MAX);
                let bytes = reader.take(count).ok_or(WireError::Length(0)).map_err(at)?;
                Value::String(lua.create_string(bytes)?)
            }
            _ => read(lua, letter, &mut reader, at)?,
        };
        view.at = base + reader.position();
        values.push(value);
    }
    Ok(values)
}

/// Reads one value.
fn read(
    lua: &Lua,
    letter: char,
    reader: &mut Reader<'_>,
    at: impl Fn(WireError) -> Error,
) -> Result<Value> {
    let kind = match letter {
        'd' => Some(FieldType::Fixed32),
        'q' => Some(FieldType::Fixed64),
        _ => FieldType::of_letter(letter),
    };
    let kind = kind.ok_or_else(|| invalid_format("unpack", letter))?;
    let integer = match kind {
        FieldType::Double => {
            return Ok(Value::Number(f64::from_bits(reader.fixed64().map_err(at)?)));
        }
        FieldType::Float => {
            return Ok(Value::Number(f32::from_bits(reader.fixed32().map_err(at)?).into()));
        }
        FieldType::Bool => return Ok(Value::Boolean(reader.varint().map_err(at)? != 0)),
        FieldType::String | FieldType::Bytes | FieldType::Message => {
            return lua.create_string(reader.bytes().map_err(at)?).map(Value::String);
        }
        FieldType::Group => return Err(invalid_format("unpack", letter)),
        FieldType::Fixed32 => i64::from(reader.fixed32().map_err(at)?),
        FieldType::Sfixed32 => i64::from(reader.fixed32().map_err(at)? as i32),
        FieldType::Fixed64 | FieldType::Sfixed64 => reader.fixed64().map_err(at)? as i64,
        FieldType::Int32 => i64::from(reader.varint().map_err(at)? as i32),
        FieldType::Uint32 => i64::from(reader.varint().map_err(at)? as u32),
        FieldType::Sint32 => unzigzag32(reader.varint().map_err(at)?),
        FieldType::Sint64 => unzigzag64(reader.varint().map_err(at)?),
        FieldType::Int64 | FieldType::Uint64 | FieldType::Enum => {
            reader.varint().map_err(at)? as i64
        }
    };
    integer_value(lua, integer)
}

/// The integer of a `sint32`.
pub(super) fn unzigzag32(value: u64) -> i64 {
    let value = value as u32;
    i64::from((value >> 1) as i32 ^ -((value & 1) as i32))
}

/// The integer of a `sint64`.
pub(super) fn unzigzag64(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}
