//! Writes the wire format.

use super::WireType;

/// Appends a varint.
#[inline(always)]
pub fn write_varint(out: &mut Vec<u8>, mut value: u64) {
    if value < 0x80 {
        return out.push(value as u8);
    }
    let (mut bytes, mut length) = ([0; 10], 0);
    while value >= 0x80 {
        bytes[length] = value as u8 | 0x80;
        value >>= 7;
        length += 1;
    }
    bytes[length] = value as u8;
    out.extend_from_slice(&bytes[..=length]);
}

/// Bytes of a varint.
#[inline(always)]
pub fn length_of_varint(value: u64) -> usize {
    ((63 - (value | 1).leading_zeros()) / 7 + 1) as usize
}

/// Appends the tag of a field.
#[inline(always)]
pub fn write_tag(out: &mut Vec<u8>, number: u32, wire_type: WireType) {
    write_varint(out, u64::from(number) << 3 | wire_type as u64);
}

/// A signed integer as `sint32` has it.
#[inline(always)]
pub fn zigzag32(value: i32) -> u32 {
    (value << 1 ^ value >> 31) as u32
}

/// A signed integer as `sint64` has it.
#[inline(always)]
pub fn zigzag64(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// Appends a field of bytes.
pub(super) fn field_bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    write_tag(out, number, WireType::Bytes);
    write_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends a field of an integer; a negative one has ten bytes.
pub(super) fn field_integer(out: &mut Vec<u8>, number: u32, value: i64) {
    write_tag(out, number, WireType::Varint);
    write_varint(out, value as u64);
}
