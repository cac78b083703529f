//! Attributes of spans, in the form in which they are exported.

use std::borrow::Cow;
use std::fmt;

use protobuf::{Reader, length_of_varint, write_varint};

/// The field `attributes` of `Span`, and those of the messages `KeyValue` and `AnyValue`.
const ATTRIBUTE: u8 = 9 << 3 | 2;
const KEY: u8 = 1 << 3 | 2;
const VALUE: u8 = 2 << 3 | 2;
const TEXT: u8 = 1 << 3 | 2;
const NUMBER: u8 = 3 << 3;

/// Room for the attributes of most spans that have some.
const FIRST_BYTES: usize = 128;

/// A value of a span's attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue<'a> {
    Text(Cow<'a, str>),
    Number(i64),
}

impl<'a> From<&'a str> for AttributeValue<'a> {
    fn from(text: &'a str) -> AttributeValue<'a> {
        AttributeValue::Text(text.into())
    }
}

impl From<String> for AttributeValue<'_> {
    fn from(text: String) -> Self {
        AttributeValue::Text(text.into())
    }
}

impl From<u64> for AttributeValue<'_> {
    fn from(number: u64) -> Self {
        AttributeValue::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

/// The attributes of a span, encoded as the fields `attributes` of OTLP's message `Span`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Attributes(Vec<u8>);

impl Attributes {
    /// Without attributes, with room for so many bytes.
    pub fn with_capacity(bytes: usize) -> Attributes {
        Attributes(Vec::with_capacity(bytes))
    }

    /// Adds an attribute.
    #[inline]
    pub fn set<'a>(&mut self, name: &str, value: impl Into<AttributeValue<'a>>) {
        match value.into() {
            AttributeValue::Text(text) => self.set_text(name, text.as_bytes()),
            AttributeValue::Number(number) => self.set_number(name, number),
        }
    }

    /// Adds an attribute with bytes that a client sent. What is not UTF-8 is replaced.
    pub fn set_bytes(&mut self, name: &str, value: &[u8]) {
        // Nearly all is ASCII, which costs less to find out than what is UTF-8.
        match value.is_ascii() {
            true => self.set_text(name, value),
            false => self.set_text(name, String::from_utf8_lossy(value).as_bytes()),
        }
    }

    fn set_text(&mut self, name: &str, text: &[u8]) {
        self.begin(name, length_of_field(text.len()));
        begin_field(&mut self.0, TEXT, text.len());
        self.0.extend_from_slice(text);
    }

    fn set_number(&mut self, name: &str, number: i64) {
        self.begin(name, 1 + length_of_varint(number as u64));
        self.0.push(NUMBER);
        write_varint(&mut self.0, number as u64);
    }

    /// Writes everything before the value, which has this length.
    #[inline]
    fn begin(&mut self, name: &str, value_length: usize) {
        let out = &mut self.0;
        if out.capacity() == 0 {
            out.reserve(FIRST_BYTES);
        }
        let length = name.len() + value_length + 4;
        if length < 0x80 {
            // Each length is one byte, as in nearly all attributes.
            out.extend_from_slice(&[ATTRIBUTE, length as u8, KEY, name.len() as u8]);
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(&[VALUE, value_length as u8]);
            return;
        }
        let length = length_of_field(name.len()) + length_of_field(value_length);
        begin_field(out, ATTRIBUTE, length);
        begin_field(out, KEY, name.len());
        out.extend_from_slice(name.as_bytes());
        begin_field(out, VALUE, value_length);
    }

    /// Returns the names and values in the order in which they were set.
    pub fn iter(&self) -> impl Iterator<Item = (&str, AttributeValue<'_>)> {
        let mut attributes = Reader::new(&self.0);
        std::iter::from_fn(move || {
            attributes.tag().ok()?;
            read_pair(attributes.bytes().ok()?)
        })
    }

    /// Cuts texts at a character boundary so that each has at most this many bytes.
    pub(super) fn truncate_texts(&mut self, bytes_max: usize) {
        if self.0.len() <= bytes_max {
            return;
        }
        let mut truncated = Attributes::with_capacity(self.0.len());
        for (name, value) in self.iter() {
            match value {
                AttributeValue::Text(text) => {
                    truncated.set(name, &text[..text.floor_char_boundary(bytes_max)]);
                }
                number => truncated.set(name, number),
            }
        }
        *self = truncated;
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Reads a message `KeyValue`.
fn read_pair(message: &[u8]) -> Option<(&str, AttributeValue<'_>)> {
    let mut pair = Reader::new(message);
    pair.tag().ok()?;
    let name = std::str::from_utf8(pair.bytes().ok()?).ok()?;
    pair.tag().ok()?;
    let mut value = Reader::new(pair.bytes().ok()?);
    let value = match value.tag().ok()? == u32::from(NUMBER) {
        true => AttributeValue::Number(value.varint().ok()? as i64),
        false => AttributeValue::Text(std::str::from_utf8(value.bytes().ok()?).ok()?.into()),
    };
    Some((name, value))
}

/// Bytes of a field with so many bytes of content.
#[inline]
pub(super) fn length_of_field(content: usize) -> usize {
    1 + length_of_varint(content as u64) + content
}

/// Writes the tag and the length of a field.
#[inline]
pub(super) fn begin_field(out: &mut Vec<u8>, tag: u8, length: usize) {
    if length < 0x80 {
        return out.extend_from_slice(&[tag, length as u8]);
    }
    out.push(tag);
    write_varint(out, length as u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_were_set() {
        let long = "é".repeat(10_000);
        let mut attributes = Attributes::default();
        attributes.set("a", "");
        attributes.set_bytes("b", b"\xFF");
        attributes.set(&long, &*long);
        attributes.set("c", u64::MAX);
        attributes.set("d", AttributeValue::Number(-1));
        let text = AttributeValue::from;
        let expected = [
            ("a", text("")),
            ("b", text("\u{FFFD}")),
            (&*long, text(&long)),
            ("c", AttributeValue::Number(i64::MAX)),
            ("d", AttributeValue::Number(-1)),
        ];
        assert_eq!(attributes.iter().collect::<Vec<_>>(), expected);
        attributes.truncate_texts(201);
        let texts: Vec<_> = attributes.iter().map(|(_, value)| value).collect();
        assert_eq!(texts[1..3], [text("\u{FFFD}"), text(&long[..200])]);
        assert_eq!(texts[4], AttributeValue::Number(-1));
    }
}
