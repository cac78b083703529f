//! Headers of a request whose values are in its body.
//!
//! Promises that such a header never comes from the client's own header, and that a value cannot
//! end the header.

use message::Headers;
use plugin::HeaderName;
use settings::{Named, Node, Reader, Schema, SchemaBuilder, Setting};
use wire::Known;

use crate::pointer::Pointer;
use crate::tree::Json;

/// The longest value, so that a body cannot exceed the upstream's limit of a header section.
const VALUE_BYTES_MAX: usize = 4096;

/// The names of the headers and where in the body their values are.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct BodyHeaders(Vec<(HeaderName, Pointer)>);

impl BodyHeaders {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &HeaderName> {
        self.0.iter().map(|(name, _)| name)
    }

    /// The values in a body, of which it may have none; the error continues "the body is".
    pub(super) fn values(&self, document: &Json<'_>) -> Result<Vec<Option<String>>, String> {
        let value = |(name, pointer): &(HeaderName, Pointer)| {
            let Some(found) = pointer.find(document) else { return Ok(None) };
            let text = found.to_text().filter(|text| !text.contains(char::is_control));
            match text {
                Some(text) if text.len() <= VALUE_BYTES_MAX => {
                    Ok(Some(text.into_owned()).filter(|text| !text.is_empty()))
                }
                _ => Err(format!("JSON with a value at {pointer} that {name} cannot have")),
            }
        };
        self.0.iter().map(value).collect()
    }

    /// Sets the headers to the values of a body.
    pub(super) fn set(&self, values: Vec<Option<String>>, headers: &mut Headers) {
        for ((name, _), value) in self.0.iter().zip(values) {
            value.iter().for_each(|value| headers.set(name, value));
        }
    }
}

impl Setting for BodyHeaders {
    fn schema(builder: &mut SchemaBuilder) -> Schema {
        Named::<Pointer>::schema(builder)
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let mut headers = Vec::new();
        for (name, pointer) in Named::<Pointer>::read(node, reader)?.entries {
            let is_framing =
                Known::from_bytes(name.value.as_bytes()).is_some_and(Known::is_framing);
            match name.value.parse::<HeaderName>() {
                Ok(header) if !is_framing => headers.push((header, pointer)),
                Ok(header) => {
                    reader.error(name.span, format!("{header} cannot be set: it frames messages"));
                }
                Err(why) => {
                    let written = settings::quote(&name.value);
                    reader.error(name.span, format!("{written} {why}"));
                }
            }
        }
        Some(BodyHeaders(headers))
    }
}
