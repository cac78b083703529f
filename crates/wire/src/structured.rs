//! Structured field values (RFC 9651): items, inner lists, lists and dictionaries, with parameters.
//!
//! Owns parsing and writing of the structured fields in use: RateLimit, RateLimit-Policy,
//! Proxy-Status, Cache-Status, targeted cache control, cache groups, No-Vary-Search. What is
//! written can be parsed, and a value that fails anywhere fails as a whole (RFC 9651 4.2).
//! Dictionaries, byte sequences and display strings are only parsed: none are written.

mod parse;
mod write;

pub use parse::{parse_dictionary, parse_item, parse_list};
pub use write::{write_item, write_list};

/// A bare item (RFC 9651 3.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BareItem {
    /// At most 15 digits.
    Integer(i64),
    /// In thousandths; at most 12 digits before the point.
    Decimal(i64),
    /// Visible ASCII and spaces.
    String(String),
    Token(String),
    Boolean(bool),
    /// Seconds since 1970.
    Date(i64),
    /// Decoded.
    Bytes(Vec<u8>),
    /// Any text.
    Display(String),
}

/// Parameters in order, each key once.
pub type Params = Vec<(String, BareItem)>;

/// An item with its parameters (RFC 9651 3.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub bare: BareItem,
    pub params: Params,
}

/// A dictionary (RFC 9651 3.2): members in order, each key once.
pub type Dictionary = Vec<(String, Member)>;

/// A member of a list or of a dictionary (RFC 9651 3.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    Item(Item),
    Inner(Vec<Item>, Params),
}

impl BareItem {
    pub fn string(text: impl Into<String>) -> BareItem {
        BareItem::String(text.into())
    }

    pub fn token(text: impl Into<String>) -> BareItem {
        BareItem::Token(text.into())
    }
}

impl Item {
    pub fn new(bare: BareItem) -> Item {
        Item { bare, params: Params::new() }
    }

    /// Adds a parameter.
    pub fn with(mut self, key: &str, value: BareItem) -> Item {
        self.params.push((key.to_owned(), value));
        self
    }

    /// The value of a parameter.
    pub fn param(&self, key: &str) -> Option<&BareItem> {
        self.params.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }
}

const MAX_INTEGER: i64 = 999_999_999_999_999;

fn is_key_start(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte == b'*'
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'.' | b'*')
}

fn is_token_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'*'
}

fn is_token_byte(byte: u8) -> bool {
    crate::token::is_tchar(byte) || matches!(byte, b':' | b'/')
}

#[cfg(test)]
mod tests;
