//! Protocol buffers: the wire format, schemas from descriptors, and a compiler of `.proto` files.
//!
//! Owns the numbers of field types, the checked table of types that an encoder and a decoder follow
//! ([`Schema`]), and the language of `.proto` files ([`source`]). Holds no messages: values belong
//! to the caller. Bounded: the depth of messages, the size of a file, the number of types.

mod descriptor;
mod reader;
mod schema;
pub mod source;
#[cfg(test)]
mod tests;
mod well_known;
mod writer;

pub use descriptor::InvalidDescriptor;
pub use reader::{Reader, WireError};
pub use schema::{DefaultValue, Field, FieldType, MessageType, Schema, TypeKind};
pub use well_known::{DESCRIPTOR, well_known};
pub use writer::{length_of_varint, write_tag, write_varint, zigzag32, zigzag64};

/// Depth of messages within messages, as in other implementations.
pub const DEPTH_MAX: usize = 100;

/// The largest number of a field.
pub const FIELD_NUMBER_MAX: i64 = (1 << 29) - 1;

/// How a value is encoded: the low three bits of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
    GroupStart = 3,
    GroupEnd = 4,
    Fixed32 = 5,
}

impl WireType {
    /// The wire type of a tag; two values of its three bits have no meaning.
    #[inline(always)]
    pub fn of_tag(tag: u32) -> Option<WireType> {
        Some(match tag & 7 {
            0 => WireType::Varint,
            1 => WireType::Fixed64,
            2 => WireType::Bytes,
            3 => WireType::GroupStart,
            4 => WireType::GroupEnd,
            5 => WireType::Fixed32,
            _ => return None,
        })
    }

    /// The name in errors.
    pub fn name(self) -> &'static str {
        match self {
            WireType::Varint => "varint",
            WireType::Fixed64 => "64bit",
            WireType::Bytes => "bytes",
            WireType::GroupStart => "gstart",
            WireType::GroupEnd => "gend",
            WireType::Fixed32 => "32bit",
        }
    }
}
