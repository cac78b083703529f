//! A pattern of media types in the configuration: `text/html`, `text/*`, `*+json`.

use std::str::FromStr;

use settings::{Node, Reader, Schema, SchemaBuilder, Setting};

/// Which media types (RFC 9110 8.3.1): all in lower case.
#[derive(Clone, Debug, PartialEq)]
pub enum MediaPattern {
    /// `type/subtype`
    Exactly(String),
    /// `type/*`, stored with its slash.
    Family(String),
    /// `*+suffix`, stored with its plus.
    Suffix(String),
}

const NO_TYPE: &str = "is not a media type: write text/html, text/* or *+json";

impl FromStr for MediaPattern {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let text = text.to_ascii_lowercase();
        let is_token = |part: &str| wire::token::is_token(part.as_bytes()) && !part.contains('*');
        if let Some(suffix) = text.strip_prefix('*') {
            let named = suffix.strip_prefix('+').is_some_and(is_token);
            return if named { Ok(MediaPattern::Suffix(suffix.to_owned())) } else { Err(NO_TYPE) };
        }
        match text.split_once('/') {
            Some((family, "*")) if is_token(family) => {
                Ok(MediaPattern::Family(format!("{family}/")))
            }
            Some((family, of)) if is_token(family) && is_token(of) => {
                Ok(MediaPattern::Exactly(text))
            }
            _ => Err(NO_TYPE),
        }
    }
}

impl Setting for MediaPattern {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::pattern("media type", r"^(\*\+[^/*; ]+|[^/*; ]+/([^/*; ]+|\*))$")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "a media type such as text/html, text/* or *+json")
    }
}

impl MediaPattern {
    /// True if a Content-Type is one of these, with any parameters.
    pub fn matches(&self, content_type: &[u8]) -> bool {
        let end = content_type.iter().position(|byte| *byte == b';').unwrap_or(content_type.len());
        let media_type = content_type[..end].trim_ascii();
        let starts = |start: &str| {
            media_type.get(..start.len()).is_some_and(|s| s.eq_ignore_ascii_case(start.as_bytes()))
        };
        match self {
            MediaPattern::Exactly(whole) => media_type.eq_ignore_ascii_case(whole.as_bytes()),
            MediaPattern::Family(family) => starts(family),
            MediaPattern::Suffix(suffix) => media_type
                .len()
                .checked_sub(suffix.len())
                .is_some_and(|at| media_type[at..].eq_ignore_ascii_case(suffix.as_bytes())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MediaPattern;

    #[test]
    fn types_families_and_suffixes() {
        for (pattern, matching, other) in [
            ("text/html", "Text/HTML; charset=utf-8", "text/htmlx"),
            ("text/*", "text/plain", "texts/plain"),
            ("*+json", "application/ld+json ;a=b", "application/json"),
        ] {
            let pattern: MediaPattern = pattern.parse().unwrap();
            assert!(pattern.matches(matching.as_bytes()), "{matching}");
            assert!(!pattern.matches(other.as_bytes()), "{other}");
        }
        for odd in ["text", "*", "*/*", "*json", "a/b/c", "/", "text/", "te xt/a"] {
            assert!(odd.parse::<MediaPattern>().is_err(), "{odd}");
        }
    }
}
