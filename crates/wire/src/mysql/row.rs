//! Values in their binary form: the columns of a row, and the parameters of a statement with the
//! packet that executes it.

use std::io::Write;

use super::Fault;
use super::cursor::{Cursor, put_text};
use super::response::Column;

/// The numbers of types.
mod kind {
    pub(super) const TINY: u8 = 1;
    pub(super) const SHORT: u8 = 2;
    pub(super) const LONG: u8 = 3;
    pub(super) const FLOAT: u8 = 4;
    pub(super) const DOUBLE: u8 = 5;
    pub(super) const NULL: u8 = 6;
    pub(super) const TIMESTAMP: u8 = 7;
    pub(super) const LONG_LONG: u8 = 8;
    pub(super) const INT24: u8 = 9;
    pub(super) const DATE: u8 = 10;
    pub(super) const TIME: u8 = 11;
    pub(super) const DATETIME: u8 = 12;
    pub(super) const YEAR: u8 = 13;
    pub(super) const VAR_STRING: u8 = 0xFD;
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    Null,
    Integer(i64),
    Unsigned(u64),
    Float(f64),
    /// Text, decimals, blobs, bits, JSON.
    Bytes(&'a [u8]),
    /// A date or time.
    Text(TimeText),
}

/// A date or time as text, which is at most 26 characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeText {
    bytes: [u8; 32],
    length: usize,
}

impl TimeText {
    fn new(text: std::fmt::Arguments<'_>) -> Result<TimeText, Fault> {
        let mut bytes = [0; 32];
        let mut room = &mut bytes[..];
        room.write_fmt(text).map_err(|_| Fault::Malformed)?;
        let length = 32 - room.len();
        Ok(TimeText { bytes, length })
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// The values of a row, in the order of the columns.
pub struct Row<'a> {
    nulls: &'a [u8],
    cursor: Cursor<'a>,
    index: usize,
}

impl<'a> Row<'a> {
    /// Begins with a packet of a result set with so many columns.
    pub fn new(packet: &'a [u8], columns: usize) -> Result<Row<'a>, Fault> {
        let mut cursor = Cursor(packet);
        if cursor.u8()? != 0 {
            return Err(Fault::Malformed);
        }
        // The first two bits are unused.
        Ok(Row { nulls: cursor.take((columns + 9) / 8)?, cursor, index: 2 })
    }

    /// The next value, which is of this column.
    pub fn value(&mut self, column: &Column<'_>) -> Result<Value<'a>, Fault> {
        let (kind, is_unsigned) = (column.kind, column.is_unsigned);
        let byte = self.nulls.get(self.index / 8).ok_or(Fault::Malformed)?;
        let is_null = byte >> (self.index % 8) & 1 == 1;
        self.index += 1;
        if is_null || kind == kind::NULL {
            return Ok(Value::Null);
        }
        let cursor = &mut self.cursor;
        Ok(match kind {
            kind::TINY => {
                let value = cursor.u8()?;
                Value::Integer(if is_unsigned { value.into() } else { (value as i8).into() })
            }
            kind::SHORT | kind::YEAR => {
                let value = cursor.u16()?;
                Value::Integer(if is_unsigned { value.into() } else { (value as i16).into() })
            }
            kind::LONG | kind::INT24 => {
                let value = cursor.u32()?;
                Value::Integer(if is_unsigned { value.into() } else { (value as i32).into() })
            }
            kind::LONG_LONG => {
                let value = cursor.u64()?;
                if is_unsigned { Value::Unsigned(value) } else { Value::Integer(value as i64) }
            }
            kind::FLOAT => Value::Float(f32::from_bits(cursor.u32()?).into()),
            kind::DOUBLE => Value::Float(f64::from_bits(cursor.u64()?)),
            kind::DATE => Value::Text(date_time(cursor, true)?),
            kind::TIMESTAMP | kind::DATETIME => Value::Text(date_time(cursor, false)?),
            kind::TIME => Value::Text(time(cursor)?),
            _ => Value::Bytes(cursor.text()?),
        })
    }
}

/// A date, with its time unless `is_date`; parts that are zero at its end are not sent.
fn date_time(cursor: &mut Cursor<'_>, is_date: bool) -> Result<TimeText, Fault> {
    let length = cursor.u8()?;
    let (year, month, day) =
        if length == 0 { (0, 0, 0) } else { (cursor.u16()?, cursor.u8()?, cursor.u8()?) };
    let (hour, minute, second) =
        if length < 7 { (0, 0, 0) } else { (cursor.u8()?, cursor.u8()?, cursor.u8()?) };
    match length {
        0 | 4 if is_date => TimeText::new(format_args!("{year:04}-{month:02}-{day:02}")),
        0 | 4 | 7 => TimeText::new(format_args!(
            "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"
        )),
        11 => {
            let micros = cursor.u32()?;
            TimeText::new(format_args!(
                "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}"
            ))
        }
        _ => Err(Fault::Malformed),
    }
}

/// A span of time: hours may be more than a day.
fn time(cursor: &mut Cursor<'_>) -> Result<TimeText, Fault> {
    let length = cursor.u8()?;
    if length == 0 {
        return TimeText::new(format_args!("00:00:00"));
    }
    let sign = if cursor.u8()? == 0 { "" } else { "-" };
    let days = u64::from(cursor.u32()?);
    let hours = days * 24 + u64::from(cursor.u8()?);
    let (minute, second) = (cursor.u8()?, cursor.u8()?);
    match length {
        8 => TimeText::new(format_args!("{sign}{hours:02}:{minute:02}:{second:02}")),
        12 => {
            let micros = cursor.u32()?;
            TimeText::new(format_args!("{sign}{hours:02}:{minute:02}:{second:02}.{micros:06}"))
        }
        _ => Err(Fault::Malformed),
    }
}

/// A parameter of a statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Parameter<'a> {
    Null,
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Bytes(&'a [u8]),
}

/// The packet that executes a prepared statement.
pub fn execute(statement: u32, parameters: &[Parameter<'_>]) -> Vec<u8> {
    const EXECUTE: u8 = 0x17;
    let mut out = vec![EXECUTE];
    out.extend_from_slice(&statement.to_le_bytes());
    // No cursor; executed once.
    out.extend_from_slice(&[0, 1, 0, 0, 0]);
    put_parameters(parameters, &mut out);
    out
}

/// Writes which parameters are null, then the types, then the values.
fn put_parameters(parameters: &[Parameter<'_>], out: &mut Vec<u8>) {
    if parameters.is_empty() {
        return;
    }
    let nulls = out.len();
    out.resize(nulls + parameters.len().div_ceil(8), 0);
    // The types follow.
    out.push(1);
    for (at, parameter) in parameters.iter().enumerate() {
        if *parameter == Parameter::Null {
            out[nulls + at / 8] |= 1 << (at % 8);
        }
        out.push(match parameter {
            Parameter::Null => kind::NULL,
            Parameter::Boolean(_) => kind::TINY,
            Parameter::Integer(_) => kind::LONG_LONG,
            Parameter::Float(_) => kind::DOUBLE,
            Parameter::Bytes(_) => kind::VAR_STRING,
        });
        // Signed.
        out.push(0);
    }
    for parameter in parameters {
        match parameter {
            Parameter::Null => {}
            Parameter::Boolean(value) => out.push(u8::from(*value)),
            Parameter::Integer(value) => out.extend_from_slice(&value.to_le_bytes()),
            Parameter::Float(value) => out.extend_from_slice(&value.to_le_bytes()),
            Parameter::Bytes(bytes) => put_text(bytes, out),
        }
    }
}
