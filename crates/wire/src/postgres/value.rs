//! Values in the server's text format.

use super::{Fault, oids};

/// A value as a program sees it.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    Boolean(bool),
    Integer(i64),
    Float(f64),
    Text(&'a [u8]),
    /// The bytes of a `bytea`.
    Bytes(Vec<u8>),
    Array(Array<'a>),
}

/// Reads a value of a type; a type without a meaning here is text.
pub fn value(kind: u32, text: &[u8]) -> Result<Value<'_>, Fault> {
    Ok(match kind {
        oids::BOOL => match text {
            b"t" => Value::Boolean(true),
            b"f" => Value::Boolean(false),
            _ => return Err(Fault::Malformed),
        },
        oids::INT2 | oids::INT4 | oids::INT8 | oids::OID | oids::XID => {
            Value::Integer(number(text)?)
        }
        // Rust reads NaN and Infinity too.
        oids::FLOAT4 | oids::FLOAT8 => Value::Float(number(text)?),
        oids::BYTEA => Value::Bytes(bytes(text)?),
        kind => match element(kind) {
            Some(kind) => Value::Array(Array::new(kind, text)?),
            None => Value::Text(text),
        },
    })
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Result<T, Fault> {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(Fault::Malformed)
}

/// The format `hex`, which the session is set to.
fn bytes(text: &[u8]) -> Result<Vec<u8>, Fault> {
    let digits = text.strip_prefix(b"\\x").ok_or(Fault::Malformed)?;
    let digit = |byte: u8| char::from(byte).to_digit(16).ok_or(Fault::Malformed);
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(Fault::Malformed);
    }
    pairs.iter().map(|&[high, low]| Ok((digit(high)? << 4 | digit(low)?) as u8)).collect()
}

/// True for the type of an array whose elements are read.
pub fn is_array(kind: u32) -> bool {
    element(kind).is_some()
}

/// The type of the elements of a built-in array type whose values are separated by commas.
fn element(kind: u32) -> Option<u32> {
    Some(match kind {
        1000 => oids::BOOL,
        oids::BYTEA_ARRAY => oids::BYTEA,
        1005 => oids::INT2,
        1007 => oids::INT4,
        1016 => oids::INT8,
        1028 => oids::OID,
        1011 => oids::XID,
        1021 => oids::FLOAT4,
        1022 => oids::FLOAT8,
        199 => oids::JSON,
        3807 => oids::JSONB,
        // text, bpchar, varchar, name, char, numeric, uuid, date, time, timetz, timestamp,
        // timestamptz, interval, inet, cidr, macaddr, xml, money, bit, varbit
        1009 | 1014 | 1015 | 1003 | 1002 | 1231 | 2951 | 1182 | 1183 | 1270 | 1115 | 1185
        | 1187 | 1041 | 651 | 1040 | 143 | 791 | 1561 | 1563 => 25,
        _ => return None,
    })
}

/// An array: its elements, read one after the other, and arrays in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Array<'a> {
    kind: u32,
    rest: &'a [u8],
    /// True before the first item of an array.
    is_begun: bool,
    depth: usize,
}

/// What comes next in an array.
#[derive(Clone, Debug, PartialEq)]
pub enum ArrayItem<'a> {
    /// An array within the array begins.
    Begin,
    /// The array ends; the last one ends the value.
    End,
    Null,
    Value(Value<'a>),
    /// An element whose text was quoted with escapes, of the type of [`Array::kind`].
    Unescaped(Vec<u8>),
}

/// PostgreSQL's own limit of dimensions.
const DIMENSIONS: usize = 6;

impl<'a> Array<'a> {
    fn new(kind: u32, text: &'a [u8]) -> Result<Array<'a>, Fault> {
        // Bounds that are not 1: `[2:3]={…}`.
        let text = match text.first() {
            Some(b'[') => {
                let at = text.iter().position(|&byte| byte == b'=').ok_or(Fault::Malformed)?;
                &text[at + 1..]
            }
            _ => text,
        };
        let rest = text.strip_prefix(b"{").ok_or(Fault::Malformed)?;
        Ok(Array { kind, rest, is_begun: true, depth: 1 })
    }

    /// The type of the elements.
    pub fn kind(&self) -> u32 {
        self.kind
    }

    /// The next item; not to be called after the last [`ArrayItem::End`].
    pub fn next_item(&mut self) -> Result<ArrayItem<'a>, Fault> {
        let is_first = std::mem::take(&mut self.is_begun);
        match self.byte()? {
            b'}' => {
                self.rest = &self.rest[1..];
                self.depth = self.depth.checked_sub(1).ok_or(Fault::Malformed)?;
                if self.depth == 0 && !self.rest.is_empty() {
                    return Err(Fault::Malformed);
                }
                return Ok(ArrayItem::End);
            }
            b',' if !is_first => self.rest = &self.rest[1..],
            _ if is_first => {}
            _ => return Err(Fault::Malformed),
        }
        match self.byte()? {
            b'{' => {
                self.rest = &self.rest[1..];
                self.depth += 1;
                self.is_begun = true;
                if self.depth > DIMENSIONS {
                    return Err(Fault::Malformed);
                }
                Ok(ArrayItem::Begin)
            }
            b'"' => self.quoted(),
            _ => {
                let end = self.rest.iter().position(|byte| matches!(byte, b',' | b'}'));
                let (text, rest) = self.rest.split_at(end.ok_or(Fault::Malformed)?);
                self.rest = rest;
                match text {
                    b"" => Err(Fault::Malformed),
                    b"NULL" => Ok(ArrayItem::Null),
                    text => Ok(ArrayItem::Value(value(self.kind, text)?)),
                }
            }
        }
    }

    fn quoted(&mut self) -> Result<ArrayItem<'a>, Fault> {
        let inside = &self.rest[1..];
        let mut at = 0;
        let mut is_escaped = false;
        loop {
            match inside.get(at) {
                Some(b'"') => break,
                Some(b'\\') => {
                    is_escaped = true;
                    at += 2;
                }
                Some(_) => at += 1,
                None => return Err(Fault::Malformed),
            }
        }
        let text = &inside[..at];
        self.rest = &inside[at + 1..];
        if !is_escaped {
            return Ok(ArrayItem::Value(value(self.kind, text)?));
        }
        let mut out = Vec::with_capacity(text.len());
        let mut bytes = text.iter();
        while let Some(&byte) = bytes.next() {
            out.push(if byte == b'\\' { *bytes.next().ok_or(Fault::Malformed)? } else { byte });
        }
        Ok(ArrayItem::Unescaped(out))
    }

    fn byte(&self) -> Result<u8, Fault> {
        self.rest.first().copied().ok_or(Fault::Malformed)
    }
}
