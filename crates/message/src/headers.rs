//! The one header type of the repository (extension point 5).
//!
//! Order and repeats are kept; names are compared without case (RFC 9110 5.1) and known names by
//! id. A received section is kept as it arrived, in one piece: a field is two spans into that text,
//! and what we add is appended to it. One copy of a head is cheaper than counting the
//! references to the block it was received into, and pins no such block. No user may rely on that:
//! the interface has names and values as bytes.

mod room;
mod shared;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use bytes::BufMut;
use wire::h1::{FieldSpan, Span};
use wire::{Known, alias};

use room::Room;
pub use shared::SharedHeaders;

/// Fields of a request, a response or a trailer section.
#[derive(Default)]
pub struct Headers {
    /// The received head, if any, then the lines that we added; nothing until there is one.
    room: Option<Box<Room>>,
}

/// A field name for lookups: an id, or text that is compared case-insensitively.
#[derive(Clone, Copy, Debug)]
pub enum Name<'a> {
    Known(Known),
    Other(&'a [u8]),
}

impl From<Known> for Name<'_> {
    fn from(known: Known) -> Self {
        Name::Known(known)
    }
}

impl<'a> From<&'a str> for Name<'a> {
    fn from(text: &'a str) -> Self {
        Name::from(text.as_bytes())
    }
}

impl<'a> From<&'a String> for Name<'a> {
    fn from(text: &'a String) -> Self {
        Name::from(text.as_bytes())
    }
}

impl<'a> From<&'a [u8]> for Name<'a> {
    fn from(text: &'a [u8]) -> Self {
        Known::from_bytes(text).map_or(Name::Other(text), Name::Known)
    }
}

impl<'a> Name<'a> {
    /// The name as it is written when we write it.
    pub fn text(self) -> &'a [u8] {
        match self {
            Name::Known(known) => known.as_str().as_bytes(),
            Name::Other(text) => text,
        }
    }

    fn known(self) -> Option<Known> {
        match self {
            Name::Known(known) => Some(known),
            Name::Other(_) => None,
        }
    }
}

/// A field, as it was received or set.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    pub known: Option<Known>,
    pub name: &'a [u8],
    pub value: &'a [u8],
}

impl Field<'_> {
    /// Returns true for a field that describes the client or its request and may only be set by a
    /// trusted proxy.
    pub fn is_forwarding(&self) -> bool {
        self.known.map_or_else(|| alias::is_forwarding(self.name), Known::is_forwarding)
    }
}

/// A field whose name and the beginning of its value are made once, for many messages.
#[derive(Clone, Debug)]
pub struct BegunField {
    known: Known,
    text: Box<[u8]>,
}

impl BegunField {
    pub fn new(known: Known, value: &str) -> BegunField {
        let mut text = format!("{}: {value}", known.as_str()).into_bytes();
        keep_on_one_line(&mut text);
        BegunField { known, text: text.into() }
    }
}

impl Headers {
    pub fn new() -> Headers {
        Headers::default()
    }

    /// Returns the list that a parser fills; [`Headers::keep_head`] follows.
    pub fn spans(&mut self) -> &mut Vec<FieldSpan> {
        &mut self.room().fields
    }

    /// Keeps the head in which a parser found the fields.
    pub fn keep_head(&mut self, head: &[u8]) {
        self.room().text.extend_from_slice(head);
    }

    /// The fields a parser found in `head`.
    pub fn received(head: &[u8], fields: &[FieldSpan]) -> Headers {
        let mut headers = Headers::new();
        headers.spans().extend_from_slice(fields);
        headers.keep_head(head);
        headers
    }

    /// The head that was kept, in which the parser's spans lie.
    #[inline]
    pub fn text(&self) -> &[u8] {
        self.room.as_ref().map_or(&[], |room| &room.text)
    }

    #[inline]
    fn fields(&self) -> &[FieldSpan] {
        self.room.as_ref().map_or(&[], |room| &room.fields)
    }

    #[inline]
    fn room(&mut self) -> &mut Room {
        self.room.get_or_insert_with(Room::take)
    }

    pub fn len(&self) -> usize {
        self.fields().len()
    }

    pub fn is_empty(&self) -> bool {
        self.fields().is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = Field<'_>> {
        self.fields().iter().map(|field| self.view(field))
    }

    /// The first value of a name.
    pub fn get<'n>(&self, name: impl Into<Name<'n>>) -> Option<&[u8]> {
        let name = name.into();
        self.fields()
            .iter()
            .find(|field| self.matches(field, name))
            .map(|field| self.slice(field.value()))
    }

    /// The first value of a name, if it is UTF-8.
    pub fn get_str<'n>(&self, name: impl Into<Name<'n>>) -> Option<&str> {
        self.get(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// Every value of a name, in order.
    pub fn get_all<'a>(&'a self, name: impl Into<Name<'a>>) -> impl Iterator<Item = &'a [u8]> {
        let name = name.into();
        self.fields()
            .iter()
            .filter(move |field| self.matches(field, name))
            .map(|field| self.slice(field.value()))
    }

    /// The fields that some recipients take for a name that is not known although it is spelled
    /// otherwise ([`wire::alias`]).
    pub fn aliases<'a>(&'a self, name: impl Into<Name<'a>>) -> impl Iterator<Item = Field<'a>> {
        let name = name.into();
        let other = matches!(name, Name::Other(_));
        let fields = self.fields().iter().filter(move |field| {
            other && is_spelling(self.text(), field, name) && !self.matches(field, name)
        });
        fields.map(|field| self.view(field))
    }

    /// Every value of a list-valued name as one (RFC 9110 5.3).
    pub fn joined<'a>(&'a self, name: impl Into<Name<'a>>) -> Option<Cow<'a, [u8]>> {
        let mut values = self.get_all(name);
        let mut whole = Cow::Borrowed(values.next()?);
        for value in values {
            let whole = whole.to_mut();
            whole.extend_from_slice(b", ");
            whole.extend_from_slice(value);
        }
        Some(whole)
    }

    pub fn contains<'n>(&self, name: impl Into<Name<'n>>) -> bool {
        self.get(name).is_some()
    }

    /// Returns true if there is a field with any of these names.
    #[inline]
    pub fn contains_any(&self, names: &[Known]) -> bool {
        self.fields().iter().any(|field| field.known.is_some_and(|known| names.contains(&known)))
    }

    /// Appends a field. CR, LF and NUL in a value become spaces, because a value from a variable
    /// must never end the field (RFC 9110 5.5).
    pub fn append<'n>(&mut self, name: impl Into<Name<'n>>, value: impl AsRef<[u8]>) {
        let name = name.into();
        let Room { text, fields } = self.room();
        // Written as a complete line, so that it can be sent together with its neighbours.
        let name_span = keep(text, name.text());
        text.extend_from_slice(b": ");
        let value_span = keep(text, value.as_ref());
        keep_on_one_line(&mut text[value_span.range()]);
        text.extend_from_slice(b"\r\n");
        // A name too long for its span is not a name that clients send: it is left out.
        if let Some(field) = FieldSpan::new(name_span, value_span, name.known()) {
            fields.push(field);
        }
    }

    /// As [`Headers::append`], of a field that begins like this and ends as `write` says.
    #[inline]
    pub fn append_begun(&mut self, begun: &BegunField, write: impl FnOnce(&mut Vec<u8>)) {
        let Room { text, fields } = self.room();
        let at = text.len();
        text.extend_from_slice(&begun.text);
        let rest = text.len();
        write(text);
        keep_on_one_line(text.get_mut(rest..).unwrap_or_default());
        let name = begun.known.as_str().len();
        let value_at = at + name + 2;
        let value = Span { at: value_at as u32, len: text.len().saturating_sub(value_at) as u32 };
        text.extend_from_slice(b"\r\n");
        let name = Span { at: at as u32, len: name as u32 };
        if let Some(field) = FieldSpan::new(name, value, Some(begun.known)) {
            fields.push(field);
        }
    }

    /// Appends all fields of a section that is kept for many messages.
    #[inline]
    pub fn append_all(&mut self, shared: &SharedHeaders) {
        let Room { text, fields } = self.room();
        let at = text.len() as u32;
        text.extend_from_slice(&shared.text);
        fields.extend(shared.fields.iter().map(|field| field.moved(at)));
    }

    /// Appends the field lines that `keep` approves of, as they go over the wire. Neighbours that
    /// lie in memory the way they are sent are copied in one go.
    pub fn write_lines(&self, out: &mut impl BufMut, mut keep: impl FnMut(Field<'_>) -> bool) {
        let mut run = 0..0;
        for field in self.fields() {
            if !keep(self.view(field)) {
                continue;
            }
            let (name, value) = (field.name().range(), field.value().range());
            if run.end == name.start && self.ends_line(value.end) {
                run.end = value.end + 2;
                continue;
            }
            self.write_run(out, &run);
            if self.ends_line(value.end) {
                run = name.start..value.end + 2;
            } else {
                // White space before the end of the line: it is written again.
                run = 0..0;
                for part in [self.slice(field.name()), b": ", self.slice(field.value()), b"\r\n"] {
                    out.put_slice(part);
                }
            }
        }
        self.write_run(out, &run);
    }

    /// Whether a value that ends at `end` is followed by the end of its line.
    #[inline]
    fn ends_line(&self, end: usize) -> bool {
        self.text().get(end..end + 2) == Some(b"\r\n")
    }

    fn write_run(&self, out: &mut impl BufMut, run: &Range<usize>) {
        if !run.is_empty() {
            out.put_slice(&self.text()[run.clone()]);
        }
    }

    /// Replaces every field of a name, in any spelling, by one.
    pub fn set<'n>(&mut self, name: impl Into<Name<'n>>, value: impl AsRef<[u8]>) {
        let name = name.into();
        self.remove(name);
        self.append(name, value);
    }

    /// Removes every field of a name; whether there was one. Other spellings of the name go with it
    /// ([`wire::alias`]): a recipient may take `X_User` for the `X-User` that is set here.
    pub fn remove<'n>(&mut self, name: impl Into<Name<'n>>) -> bool {
        let name = name.into();
        let Some(room) = &mut self.room else { return false };
        let Room { text, fields } = &mut **room;
        let before = fields.len();
        fields.retain(|field| !is_spelling(text, field, name));
        fields.len() != before
    }

    /// True if [`Headers::remove`] of one of these names would remove a field.
    pub fn has_spelling(&self, names: &[Name<'_>]) -> bool {
        let is_one = |field| names.iter().any(|name| is_spelling(self.text(), field, *name));
        self.fields().iter().any(is_one)
    }

    /// Keeps the fields that `keep` approves of.
    pub fn retain(&mut self, mut keep: impl FnMut(Field<'_>) -> bool) {
        if let Some(room) = &mut self.room {
            let Room { text, fields } = &mut **room;
            fields.retain(|field| keep(view(text, field)));
        }
    }

    /// Whether a list-valued field (RFC 9110 5.6.1) names `token`, compared without case.
    pub fn lists_token(&self, name: Known, token: &str) -> bool {
        self.get_all(name)
            .flat_map(|value| value.split(|byte| *byte == b','))
            .any(|item| item.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
    }

    #[inline]
    fn view(&self, field: &FieldSpan) -> Field<'_> {
        view(self.text(), field)
    }

    #[inline]
    fn slice(&self, span: Span) -> &[u8] {
        span.of(self.text())
    }

    #[inline]
    fn matches(&self, field: &FieldSpan, name: Name<'_>) -> bool {
        field_matches(self.text(), field, name)
    }
}

impl Drop for Headers {
    #[inline]
    fn drop(&mut self) {
        if let Some(room) = self.room.take() {
            room.leave();
        }
    }
}

impl Clone for Headers {
    fn clone(&self) -> Headers {
        match self.is_empty() {
            true => Headers::new(),
            false => Headers::received(self.text(), self.fields()),
        }
    }
}

fn keep(text: &mut Vec<u8>, part: &[u8]) -> Span {
    let at = text.len();
    text.extend_from_slice(part);
    Span { at: at as u32, len: part.len() as u32 }
}

/// Makes spaces of what would end a field.
#[inline]
fn keep_on_one_line(value: &mut [u8]) {
    if may_break(value) {
        for byte in value {
            if matches!(*byte, b'\r' | b'\n' | 0) {
                *byte = b' ';
            }
        }
    }
}

/// Whether there may be a byte up to CR: eight are looked at in one go, as nearly all are above.
#[inline]
fn may_break(value: &[u8]) -> bool {
    const EACH: u64 = u64::MAX / 0xFF;
    let low = |eight: &[u8; 8]| {
        let eight = u64::from_ne_bytes(*eight);
        eight.wrapping_sub(EACH * (b'\r' as u64 + 1)) & !eight & (EACH << 7) != 0
    };
    match value.last_chunk() {
        // The last eight are partly looked at twice.
        Some(last) => value.as_chunks().0.iter().any(low) || low(last),
        None => value.iter().any(|byte| *byte <= b'\r'),
    }
}

#[inline]
fn view<'a>(text: &'a [u8], field: &FieldSpan) -> Field<'a> {
    Field { known: field.known, name: field.name().of(text), value: field.value().of(text) }
}

#[inline]
fn field_matches(text: &[u8], field: &FieldSpan, name: Name<'_>) -> bool {
    match name {
        Name::Known(known) => field.known == Some(known),
        Name::Other(other) => {
            field.known.is_none() && field.name().of(text).eq_ignore_ascii_case(other)
        }
    }
}

#[inline]
fn is_spelling(text: &[u8], field: &FieldSpan, name: Name<'_>) -> bool {
    match (name, field.known) {
        (Name::Known(name), Some(known)) => name == known,
        _ => alias::same(field.name().of(text), name.text()),
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.iter().map(|field| {
                (String::from_utf8_lossy(field.name), String::from_utf8_lossy(field.value))
            }))
            .finish()
    }
}

#[cfg(test)]
mod tests;
