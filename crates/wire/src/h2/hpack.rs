//! HPACK (RFC 7541): compression of field sections.
//!
//! Owns the tables of both directions. The decoder classifies a field once, when it enters the
//! table: a later reference to it costs no second check. The encoder remembers only fields whose
//! values repeat, and never one that may be a secret.

mod decoder;
mod encoder;
mod huffman;
mod static_table;
mod table;

pub(super) use decoder::BlockError;
pub use decoder::Decoder;
pub use encoder::Encoder;

use crate::{Known, Reject, alias, token};

/// Bytes of each dynamic table (RFC 7541 4.2): the default of the protocol. More makes idle
/// connections larger; the fields that repeat fit into less.
pub const TABLE_SIZE: usize = 4096;

/// What an entry costs in addition to its text (RFC 7541 4.1).
const ENTRY_OVERHEAD: usize = 32;

/// The meaning of a field name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    Method,
    Scheme,
    Authority,
    Path,
    Protocol,
    Status,
    /// It begins with a colon and is none of the above.
    UnknownPseudo,
    Known(Known),
    Other,
}

impl Name {
    fn of(text: &[u8]) -> Name {
        match text {
            [b':', ..] => match text {
                b":method" => Name::Method,
                b":scheme" => Name::Scheme,
                b":authority" => Name::Authority,
                b":path" => Name::Path,
                b":protocol" => Name::Protocol,
                b":status" => Name::Status,
                _ => Name::UnknownPseudo,
            },
            _ => Known::from_bytes(text).map_or(Name::Other, Name::Known),
        }
    }
}

/// A field as it was classified.
#[derive(Clone, Copy, Debug)]
pub struct Class {
    pub name: Name,
    /// The field states something that only a trusted proxy may state (see [`alias`]).
    pub forwarding: bool,
    /// Why a message with this field is malformed, whatever else it has.
    pub reject: Option<Reject>,
}

impl Class {
    /// Of a field of the static table.
    #[inline]
    fn of_static(name: Name) -> Class {
        Class { name, forwarding: false, reject: connection_specific(name, b"") }
    }

    /// Checks name and value (RFC 9113 8.2.1, 8.2.2).
    fn of(name: Name, text: &[u8], value: &[u8]) -> Class {
        let reject = match name {
            Name::Known(_) if text.iter().any(u8::is_ascii_uppercase) => {
                Some(Reject::UppercaseFieldName)
            }
            Name::Other => invalid_name(text),
            _ => None,
        };
        let mut class = Class { name, forwarding: false, reject };
        class.reject = class.reject.or_else(|| invalid_value(value));
        class.reject = class.reject.or_else(|| connection_specific(name, value));
        match name {
            Name::Known(known) => class.forwarding = known.is_forwarding(),
            Name::Other if class.reject.is_none() => class.note_alias(text),
            _ => {}
        }
        class
    }

    /// Some recipients read an unknown name as another one that is spelled similarly.
    fn note_alias(&mut self, text: &[u8]) {
        match alias::alias_of(text) {
            Some(known) if known.is_framing() => self.reject = Some(Reject::AliasOfFramingField),
            Some(known) => self.forwarding = known.is_forwarding(),
            None => self.forwarding = alias::is_x_forwarded(text),
        }
    }
}

fn invalid_name(text: &[u8]) -> Option<Reject> {
    if text.is_empty() {
        return Some(Reject::EmptyFieldName);
    }
    if text.iter().any(u8::is_ascii_uppercase) {
        return Some(Reject::UppercaseFieldName);
    }
    (!token::is_token(text)).then_some(Reject::InvalidFieldName)
}

fn invalid_value(value: &[u8]) -> Option<Reject> {
    (!token::is_field_value(value)).then_some(Reject::InvalidFieldValue)
}

/// RFC 9113 8.2.2: fields that describe a connection of HTTP/1.1.
#[inline]
fn connection_specific(name: Name, value: &[u8]) -> Option<Reject> {
    let Name::Known(known) = name else { return None };
    match known {
        Known::Connection
        | Known::KeepAlive
        | Known::ProxyConnection
        | Known::TransferEncoding
        | Known::Upgrade => Some(Reject::ConnectionSpecificField),
        Known::Te if !value.eq_ignore_ascii_case(b"trailers") => Some(Reject::InvalidTe),
        _ => None,
    }
}

/// Reads an integer whose first byte has `prefix` bits of it (RFC 7541 5.1); `None` if it is
/// incomplete or above any length that a block can have.
#[inline]
fn read_integer(input: &mut &[u8], prefix: u32) -> Option<usize> {
    let (&first, mut rest) = input.split_first()?;
    let mask = (1 << prefix) - 1;
    let mut value = usize::from(first & mask as u8);
    if value == mask {
        let mut shift = 0;
        loop {
            let (&byte, after) = rest.split_first()?;
            rest = after;
            value += usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                break;
            }
            // Four bytes hold 2^28, more than a field block may have.
            if shift > 21 {
                return None;
            }
        }
    }
    *input = rest;
    Some(value)
}

/// Appends an integer after the `flags` of its first byte.
#[inline]
fn write_integer(out: &mut Vec<u8>, flags: u8, prefix: u32, value: usize) {
    let mask = (1 << prefix) - 1;
    if value < mask {
        out.push(flags | value as u8);
        return;
    }
    out.push(flags | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests;
