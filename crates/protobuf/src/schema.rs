//! The types of messages and enums, by name and by slot.
//!
//! A slot and a key never change: a caller that has one may use it with every later version of the
//! schema. A type may be referred to before it is defined, so descriptors load in any order.

use std::collections::HashMap;
use std::rc::Rc;

use super::{FIELD_NUMBER_MAX, WireType};

/// Types and names of one schema.
pub(super) const TYPES_MAX: usize = 100_000;
/// Fields, and values of enums, of one type.
pub(super) const FIELDS_MAX: usize = 10_000;

/// The type of a field, with the number it has in a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FieldType {
    Double = 1,
    Float = 2,
    Int64 = 3,
    Uint64 = 4,
    Int32 = 5,
    Fixed64 = 6,
    Fixed32 = 7,
    Bool = 8,
    String = 9,
    Group = 10,
    Message = 11,
    Bytes = 12,
    Uint32 = 13,
    Enum = 14,
    Sfixed32 = 15,
    Sfixed64 = 16,
    Sint32 = 17,
    Sint64 = 18,
}

/// Types, their names, and their letters in `pack` and `unpack` of lua-protobuf.
const FIELD_TYPES: [(FieldType, &str, char); 18] = [
    (FieldType::Double, "double", 'F'),
    (FieldType::Float, "float", 'f'),
    (FieldType::Int64, "int64", 'I'),
    (FieldType::Uint64, "uint64", 'U'),
    (FieldType::Int32, "int32", 'i'),
    (FieldType::Fixed64, "fixed64", 'X'),
    (FieldType::Fixed32, "fixed32", 'x'),
    (FieldType::Bool, "bool", 'b'),
    (FieldType::String, "string", 't'),
    (FieldType::Group, "group", 'g'),
    (FieldType::Message, "message", 'S'),
    (FieldType::Bytes, "bytes", 's'),
    (FieldType::Uint32, "uint32", 'u'),
    (FieldType::Enum, "enum", 'v'),
    (FieldType::Sfixed32, "sfixed32", 'y'),
    (FieldType::Sfixed64, "sfixed64", 'Y'),
    (FieldType::Sint32, "sint32", 'j'),
    (FieldType::Sint64, "sint64", 'J'),
];

impl FieldType {
    /// The type with this number in a descriptor.
    pub fn of_number(number: u64) -> Option<FieldType> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        FIELD_TYPES.get(index).map(|found| found.0)
    }

    /// The scalar type with this name, also `message`, `enum` and `group`.
    pub fn of_name(name: &str) -> Option<FieldType> {
        FIELD_TYPES.iter().find(|found| found.1 == name).map(|found| found.0)
    }

    /// The type with this letter.
    pub fn of_letter(letter: char) -> Option<FieldType> {
        FIELD_TYPES.iter().find(|found| found.2 == letter).map(|found| found.0)
    }

    pub fn name(self) -> &'static str {
        FIELD_TYPES[self as usize - 1].1
    }

    pub fn letter(self) -> char {
        FIELD_TYPES[self as usize - 1].2
    }

    #[inline(always)]
    pub fn wire_type(self) -> WireType {
        match self {
            FieldType::Double | FieldType::Fixed64 | FieldType::Sfixed64 => WireType::Fixed64,
            FieldType::Float | FieldType::Fixed32 | FieldType::Sfixed32 => WireType::Fixed32,
            FieldType::String | FieldType::Bytes | FieldType::Message => WireType::Bytes,
            FieldType::Group => WireType::GroupStart,
            _ => WireType::Varint,
        }
    }

    /// True if a repeated field may be packed.
    #[inline(always)]
    pub fn is_packable(self) -> bool {
        !matches!(self.wire_type(), WireType::Bytes | WireType::GroupStart)
    }
}

/// What a type is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TypeKind {
    Message,
    /// An entry of a map field.
    Map,
    Enum,
}

/// The default of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum DefaultValue {
    Integer(i64),
    Float(f64),
    Bool(bool),
    Bytes(Box<[u8]>),
    /// The name of a value.
    Enum(Box<str>),
}

/// A field of a message, or a value of an enum.
#[derive(Clone, Debug)]
pub struct Field {
    pub name: Box<str>,
    /// The key of the name.
    pub key: u32,
    pub number: i32,
    pub kind: FieldType,
    /// The slot of the type of a message, a group or an enum.
    pub type_slot: Option<u32>,
    pub is_repeated: bool,
    pub is_packed: bool,
    /// False for a field that is not sent if it is zero.
    pub has_presence: bool,
    /// The index of its `oneof` in [`MessageType::oneofs`].
    pub oneof: Option<u32>,
    /// As the descriptor has it.
    pub default_text: Option<Box<str>>,
    pub default: Option<DefaultValue>,
}

/// A message, a map entry, or an enum.
#[derive(Clone, Debug, Default)]
pub struct MessageType {
    /// The full name, with a dot before it.
    pub name: Box<str>,
    pub kind: Option<TypeKind>,
    pub is_proto3: bool,
    /// In the order of their numbers.
    pub fields: Vec<Field>,
    /// Names of real `oneof`s with their keys.
    pub oneofs: Vec<(Box<str>, u32)>,
    names: HashMap<Box<str>, i32>,
}

impl MessageType {
    /// A type that is not defined.
    pub(super) fn undefined(name: Box<str>) -> MessageType {
        MessageType { name, ..MessageType::default() }
    }

    /// The name without the package and outer messages.
    pub fn base_name(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or(&self.name)
    }

    #[inline(always)]
    pub fn is_map(&self) -> bool {
        self.kind == Some(TypeKind::Map)
    }

    /// The field with this number; of enums the first value.
    #[inline(always)]
    pub fn field(&self, number: i32) -> Option<&Field> {
        // Most messages number their fields 1, 2, 3 …
        let near = self.fields.get((number as usize).wrapping_sub(1));
        match near {
            Some(field) if field.number == number && self.kind != Some(TypeKind::Enum) => near,
            _ => self.find(number),
        }
    }

    fn find(&self, number: i32) -> Option<&Field> {
        let at = self.fields.partition_point(|field| field.number < number);
        self.fields.get(at).filter(|field| field.number == number)
    }

    /// The field or value with this name.
    pub fn field_named(&self, name: &str) -> Option<&Field> {
        let number = *self.names.get(name)?;
        let at = self.fields.partition_point(|field| field.number < number);
        self.fields[at..].iter().find(|field| *field.name == *name)
    }

    /// Adds a field; one with the same number or name is replaced, but not a value of an enum.
    pub(super) fn add(&mut self, field: Field) -> bool {
        self.remove_named(&field.name);
        if self.kind != Some(TypeKind::Enum) {
            self.remove_number(field.number);
        }
        if self.fields.len() >= FIELDS_MAX {
            return false;
        }
        self.names.insert(field.name.clone(), field.number);
        let at = self.fields.partition_point(|other| other.number <= field.number);
        self.fields.insert(at, field);
        true
    }

    fn remove_number(&mut self, number: i32) {
        if let Some(name) = self.find(number).map(|field| field.name.clone()) {
            self.remove_named(&name);
        }
    }

    /// Removes a field; false if there is none.
    pub fn remove_named(&mut self, name: &str) -> bool {
        let is_known = self.names.remove(name).is_some();
        if is_known {
            self.fields.retain(|field| *field.name != *name);
        }
        is_known
    }
}

/// All types. A clone shares them, and a change copies only what it touches.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    types: Vec<Rc<MessageType>>,
    /// Slots by name, without the dot before it.
    slots: HashMap<Rc<str>, u32>,
    keys: Vec<Rc<str>>,
    key_of: HashMap<Rc<str>, u32>,
}

impl Schema {
    /// The slot of a defined type; the dot before a name may be missing.
    #[inline]
    pub fn slot(&self, name: &str) -> Option<u32> {
        let slot = *self.slots.get(name.strip_prefix('.').unwrap_or(name))?;
        self.types[slot as usize].kind.map(|_| slot)
    }

    /// The type in a slot; it may be undefined.
    #[inline(always)]
    pub fn get(&self, slot: u32) -> &MessageType {
        &self.types[slot as usize]
    }

    /// The type of a field, if it is defined.
    #[inline(always)]
    pub fn type_of(&self, field: &Field) -> Option<&MessageType> {
        let found = self.get(field.type_slot?);
        found.kind.is_some().then_some(found)
    }

    /// All slots, of types that are not defined too.
    pub fn slots(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.types.len() as u32
    }

    /// The texts of all keys, in their order.
    pub fn keys(&self) -> &[Rc<str>] {
        &self.keys
    }

    /// Makes a type undefined; false if it is not known.
    pub fn remove(&mut self, name: &str) -> bool {
        let Some(slot) = self.slot(name) else { return false };
        let name = self.get(slot).name.clone();
        self.types[slot as usize] = Rc::new(MessageType::undefined(name));
        true
    }

    /// A schema without types, whose keys are those of this one.
    pub fn emptied(&self) -> Schema {
        let (keys, key_of) = (self.keys.clone(), self.key_of.clone());
        Schema { keys, key_of, ..Schema::default() }
    }

    /// A type that is to be changed.
    pub fn get_mut(&mut self, slot: u32) -> &mut MessageType {
        Rc::make_mut(&mut self.types[slot as usize])
    }

    /// The slot of a name, which may be undefined; `None` if there are too many.
    pub(super) fn reserve(&mut self, name: &str) -> Option<u32> {
        let short = name.strip_prefix('.').unwrap_or(name);
        if let Some(slot) = self.slots.get(short) {
            return Some(*slot);
        }
        if self.types.len() >= TYPES_MAX {
            return None;
        }
        let slot = self.types.len() as u32;
        let full = format!(".{short}").into_boxed_str();
        self.types.push(Rc::new(MessageType::undefined(full)));
        self.slots.insert(short.into(), slot);
        Some(slot)
    }

    pub(super) fn key(&mut self, name: &str) -> u32 {
        if let Some(key) = self.key_of.get(name) {
            return *key;
        }
        let (key, name): (u32, Rc<str>) = (self.keys.len() as u32, name.into());
        self.keys.push(name.clone());
        self.key_of.insert(name, key);
        key
    }
}

/// True for the number of a field, not of a value of an enum.
pub(super) fn is_field_number(number: i64) -> bool {
    (1..=FIELD_NUMBER_MAX).contains(&number)
}
