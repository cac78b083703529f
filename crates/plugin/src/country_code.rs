//! Country codes in a configuration.

use std::str::FromStr;

use settings::{Node, Reader, Schema, SchemaBuilder, Setting};

/// The word for the country of an address that has none in the database.
pub(crate) const UNKNOWN_COUNTRY: &str = "unknown";

/// A country: two letters (ISO 3166-1), stored in upper case, or `unknown`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CountryCode(String);

impl CountryCode {
    /// The text of `{country}` for a client of this country.
    pub fn into_text(self) -> String {
        self.0
    }
}

impl FromStr for CountryCode {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.as_bytes() {
            [a, b] if a.is_ascii_alphabetic() && b.is_ascii_alphabetic() => {
                Ok(CountryCode(text.to_ascii_uppercase()))
            }
            _ if text == UNKNOWN_COUNTRY => Ok(CountryCode(text.to_owned())),
            _ => Err("is not a country: it has two letters (ISO 3166-1) or is \"unknown\""),
        }
    }
}

impl Setting for CountryCode {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::pattern("country", "^([A-Za-z]{2}|unknown)$")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.uses_country(node.span);
        reader.parse(node, "a country such as DE, or unknown")
    }
}
