//! Schemas from descriptors: the `FileDescriptorSet` that `protoc --descriptor_set_out` writes.

use std::fmt;

use super::reader::{Reader, WireError};
use super::schema::{
    DefaultValue, Field, FieldType, MessageType, Schema, TypeKind, is_field_number,
};
use super::{DEPTH_MAX, WireType};

/// Why a descriptor was rejected, with the position of the file in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidDescriptor {
    pub offset: usize,
    pub reason: String,
}

impl fmt::Display for InvalidDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at offset {}", self.reason, self.offset + 1)
    }
}

impl From<WireError> for InvalidDescriptor {
    fn from(error: WireError) -> InvalidDescriptor {
        InvalidDescriptor { offset: 0, reason: error.to_string() }
    }
}

fn invalid(reason: impl Into<String>) -> InvalidDescriptor {
    InvalidDescriptor { offset: 0, reason: reason.into() }
}

type Loaded = Result<(), InvalidDescriptor>;

/// How a file's syntax changes its fields.
#[derive(Clone, Copy, Default)]
struct Syntax {
    is_proto3: bool,
    is_edition: bool,
}

/// The value of a field of a descriptor.
enum Value<'a> {
    Integer(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    fn bytes(&self) -> &'a [u8] {
        match self {
            Value::Bytes(bytes) => bytes,
            Value::Integer(_) => b"",
        }
    }

    fn text(&self) -> Result<&'a str, InvalidDescriptor> {
        std::str::from_utf8(self.bytes()).map_err(|_| invalid("a name that is not UTF-8"))
    }

    fn integer(&self) -> u64 {
        match self {
            Value::Integer(value) => *value,
            Value::Bytes(_) => 0,
        }
    }
}

/// Calls `each` with the fields that are integers or bytes.
fn fields<'a>(data: &'a [u8], mut each: impl FnMut(u32, Value<'a>) -> Loaded) -> Loaded {
    let mut reader = Reader::new(data);
    while !reader.is_empty() {
        let tag = reader.tag()?;
        match WireType::of_tag(tag) {
            Some(WireType::Varint) => each(tag >> 3, Value::Integer(reader.varint()?))?,
            Some(WireType::Bytes) => each(tag >> 3, Value::Bytes(reader.bytes()?))?,
            _ => reader.skip(tag, DEPTH_MAX)?,
        }
    }
    Ok(())
}

impl Schema {
    /// Adds the types of a `FileDescriptorSet`. After an error some of them may be missing: load
    /// into a clone.
    pub fn load(&mut self, data: &[u8]) -> Loaded {
        let mut reader = Reader::new(data);
        while !reader.is_empty() {
            let offset = reader.position();
            let at = |error: InvalidDescriptor| InvalidDescriptor { offset, ..error };
            let tag = reader.tag().map_err(|error| at(error.into()))?;
            if tag >> 3 != 1 || WireType::of_tag(tag) != Some(WireType::Bytes) {
                reader.skip(tag, DEPTH_MAX).map_err(|error| at(error.into()))?;
                continue;
            }
            let file = reader.bytes().map_err(|error| at(error.into()))?;
            self.load_file(file).map_err(at)?;
        }
        Ok(())
    }

    fn load_file(&mut self, data: &[u8]) -> Loaded {
        let (mut package, mut syntax) = ("", Syntax::default());
        fields(data, |number, value| {
            match number {
                2 => package = value.text()?,
                12 => {
                    syntax.is_proto3 = value.bytes() == b"proto3";
                    syntax.is_edition = value.bytes() == b"editions";
                }
                _ => {}
            }
            Ok(())
        })?;
        let scope = if package.is_empty() { String::new() } else { format!(".{package}") };
        // Last, because a message may be extended before it is defined.
        let mut extensions = Vec::new();
        fields(data, |number, value| match number {
            4 => self.load_message(value.bytes(), &scope, syntax, DEPTH_MAX, &mut extensions),
            5 => self.load_enum(value.bytes(), &scope, syntax),
            7 => {
                extensions.push(value.bytes());
                Ok(())
            }
            _ => Ok(()),
        })?;
        extensions.iter().try_for_each(|data| self.load_field(data, None, syntax, &[]))
    }

    /// The slot of a type that a descriptor defines, without what an earlier one defined.
    fn define(&mut self, data: &[u8], scope: &str) -> Result<(u32, String), InvalidDescriptor> {
        let mut name = "";
        fields(data, |number, value| {
            if number == 1 {
                name = value.text()?;
            }
            Ok(())
        })?;
        if name.is_empty() {
            return Err(invalid("a type without a name"));
        }
        let full = format!("{scope}.{name}");
        let slot = self.reserve(&full).ok_or_else(|| invalid("too many types"))?;
        let known = self.get_mut(slot);
        // What is not defined may have extensions.
        if known.kind.is_some() {
            *known = MessageType::undefined(known.name.clone());
        }
        Ok((slot, full))
    }

    fn load_message<'a>(
        &mut self,
        data: &'a [u8],
        scope: &str,
        syntax: Syntax,
        depth: usize,
        extensions: &mut Vec<&'a [u8]>,
    ) -> Loaded {
        let depth = depth.checked_sub(1).ok_or(WireError::TooDeep)?;
        let (slot, scope) = self.define(data, scope)?;
        let (mut kind, mut oneofs) = (TypeKind::Message, Vec::new());
        fields(data, |number, value| {
            match number {
                7 => fields(value.bytes(), |number, value| {
                    if number == 7 && value.integer() != 0 {
                        kind = TypeKind::Map;
                    }
                    Ok(())
                })?,
                8 => fields(value.bytes(), |number, value| {
                    if number == 1 {
                        oneofs.push(value.text()?);
                    }
                    Ok(())
                })?,
                _ => {}
            }
            Ok(())
        })?;
        let message = self.get_mut(slot);
        message.kind = Some(kind);
        message.is_proto3 = syntax.is_proto3;
        fields(data, |number, value| match number {
            2 => self.load_field(value.bytes(), Some(slot), syntax, &oneofs),
            3 => self.load_message(value.bytes(), &scope, syntax, depth, extensions),
            4 => self.load_enum(value.bytes(), &scope, syntax),
            6 => {
                extensions.push(value.bytes());
                Ok(())
            }
            _ => Ok(()),
        })
    }

    fn load_enum(&mut self, data: &[u8], scope: &str, syntax: Syntax) -> Loaded {
        let (slot, _) = self.define(data, scope)?;
        let known = self.get_mut(slot);
        known.kind = Some(TypeKind::Enum);
        known.is_proto3 = syntax.is_proto3;
        fields(data, |number, value| {
            if number != 2 {
                return Ok(());
            }
            let (mut name, mut number) = ("", 0);
            fields(value.bytes(), |part, value| {
                match part {
                    1 => name = value.text()?,
                    2 => number = value.integer() as i32,
                    _ => {}
                }
                Ok(())
            })?;
            let field = Field {
                name: name.into(),
                key: self.key(name),
                number,
                kind: FieldType::Enum,
                type_slot: None,
                is_repeated: false,
                is_packed: false,
                has_presence: true,
                oneof: None,
                default_text: None,
                default: None,
            };
            let is_added = self.get_mut(slot).add(field);
            if is_added { Ok(()) } else { Err(invalid("too many values of an enum")) }
        })
    }

    fn load_field(
        &mut self,
        data: &[u8],
        slot: Option<u32>,
        syntax: Syntax,
        oneofs: &[&str],
    ) -> Loaded {
        let read = FieldDescriptor::read(data)?;
        if !is_field_number(read.number) || read.name.is_empty() {
            let (name, number) = (read.name, read.number);
            return Err(invalid(format!("field {name:?} has the number {number}")));
        }
        let slot = match slot {
            Some(slot) => slot,
            // An extension of another message.
            None => self.reserve(read.extendee).ok_or_else(|| invalid("too many types"))?,
        };
        let kind =
            read.kind.ok_or_else(|| invalid(format!("field {:?} has no type", read.name)))?;
        let type_slot = match kind {
            FieldType::Message | FieldType::Group | FieldType::Enum => {
                Some(self.reserve(read.type_name).ok_or_else(|| invalid("too many types"))?)
            }
            _ => None,
        };
        let oneof = read.oneof.filter(|_| !read.is_proto3_optional);
        let oneof = oneof.and_then(|index| oneofs.get(index)).map(|name| self.oneof(slot, name));
        let is_repeated = read.label == 3;
        let is_packed = read.packed.unwrap_or(syntax.is_proto3 || syntax.is_edition);
        let has_presence = !syntax.is_proto3
            || read.is_proto3_optional
            || oneof.is_some()
            || matches!(kind, FieldType::Message | FieldType::Group);
        let field = Field {
            name: read.name.into(),
            key: self.key(read.name),
            number: read.number as i32,
            kind,
            type_slot,
            is_repeated,
            is_packed: is_repeated && is_packed && kind.is_packable(),
            has_presence,
            oneof,
            default_text: read.default.map(Into::into),
            default: read.default.and_then(|text| default_value(kind, text)),
        };
        let is_added = self.get_mut(slot).add(field);
        if is_added { Ok(()) } else { Err(invalid("too many fields of a message")) }
    }

    fn oneof(&mut self, slot: u32, name: &str) -> u32 {
        let known = self.get(slot).oneofs.iter().position(|known| *known.0 == *name);
        let index = known.unwrap_or_else(|| {
            let key = self.key(name);
            let oneofs = &mut self.get_mut(slot).oneofs;
            oneofs.push((name.into(), key));
            oneofs.len() - 1
        });
        index as u32
    }
}

/// A `FieldDescriptorProto`.
#[derive(Default)]
struct FieldDescriptor<'a> {
    name: &'a str,
    extendee: &'a str,
    number: i64,
    label: u64,
    kind: Option<FieldType>,
    type_name: &'a str,
    default: Option<&'a str>,
    packed: Option<bool>,
    oneof: Option<usize>,
    is_proto3_optional: bool,
}

impl<'a> FieldDescriptor<'a> {
    fn read(data: &'a [u8]) -> Result<FieldDescriptor<'a>, InvalidDescriptor> {
        let mut read = FieldDescriptor::default();
        fields(data, |number, value| {
            match number {
                1 => read.name = value.text()?,
                2 => read.extendee = value.text()?,
                3 => read.number = value.integer() as i64,
                4 => read.label = value.integer(),
                5 => read.kind = FieldType::of_number(value.integer()),
                6 => read.type_name = value.text()?,
                7 => read.default = Some(value.text()?),
                8 => fields(value.bytes(), |number, value| {
                    if number == 2 {
                        read.packed = Some(value.integer() != 0);
                    }
                    Ok(())
                })?,
                9 => read.oneof = usize::try_from(value.integer()).ok(),
                17 => read.is_proto3_optional = value.integer() != 0,
                _ => {}
            }
            Ok(())
        })?;
        Ok(read)
    }
}

/// The value of a default, which a descriptor has as text.
fn default_value(kind: FieldType, text: &str) -> Option<DefaultValue> {
    Some(match kind {
        FieldType::Double | FieldType::Float => DefaultValue::Float(text.parse().ok()?),
        FieldType::Bool => DefaultValue::Bool(text == "true"),
        FieldType::String => DefaultValue::Bytes(text.as_bytes().into()),
        FieldType::Bytes => DefaultValue::Bytes(unescape(text).into()),
        FieldType::Enum => DefaultValue::Enum(text.into()),
        FieldType::Message | FieldType::Group => return None,
        FieldType::Uint64 | FieldType::Fixed64 => {
            DefaultValue::Integer(text.parse::<u64>().ok()? as i64)
        }
        _ => DefaultValue::Integer(text.parse().ok()?),
    })
}

/// Undoes the escapes of a default of bytes.
pub(super) fn unescape(text: &str) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'\\' {
            out.push(*byte);
            continue;
        }
        let Some((&letter, after)) = rest.split_first() else { break };
        rest = after;
        match letter {
            b'0'..=b'7' => {
                let mut value = u32::from(letter - b'0');
                for _ in 0..2 {
                    let Some((&digit @ b'0'..=b'7', after)) = rest.split_first() else { break };
                    value = value << 3 | u32::from(digit - b'0');
                    rest = after;
                }
                out.push(value as u8);
            }
            b'x' | b'X' => {
                let mut value = 0;
                for _ in 0..2 {
                    let digit = rest.first().and_then(|digit| char::from(*digit).to_digit(16));
                    let Some(digit) = digit else { break };
                    value = value << 4 | digit;
                    rest = &rest[1..];
                }
                out.push(value as u8);
            }
            b'a' => out.push(7),
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            other => out.push(other),
        }
    }
    out
}
