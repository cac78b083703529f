//! Regular expressions that run in linear time and cannot grow without bound.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use crate::{Node, Reader, Schema, SchemaBuilder, Setting};

/// The maximum memory of a compiled expression.
pub const REGEX_BYTES: usize = 1 << 20;

/// A compiled regular expression that remembers its text.
#[derive(Clone, Debug)]
pub struct Regex(regex::Regex);

impl Deref for Regex {
    type Target = regex::Regex;

    fn deref(&self) -> &regex::Regex {
        &self.0
    }
}

impl PartialEq for Regex {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for Regex {}

impl FromStr for Regex {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let built = regex::RegexBuilder::new(text)
            .size_limit(REGEX_BYTES)
            .dfa_size_limit(REGEX_BYTES)
            .nest_limit(50)
            .build();
        match built {
            Ok(regex) => Ok(Regex(regex)),
            Err(regex::Error::CompiledTooBig(_)) => Err("is too large when compiled".to_owned()),
            Err(error) => {
                // The library's message is a drawing over several lines; its last line is the
                // reason.
                let text = error.to_string();
                let why = text.lines().last().unwrap_or_default();
                let why = why.trim().strip_prefix("error: ").unwrap_or(why);
                Err(format!("is not a regular expression: {why}"))
            }
        }
    }
}

impl fmt::Display for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

impl Setting for Regex {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("regular expression")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "a regular expression (without back-references or look-around)")
    }
}

#[cfg(test)]
mod tests {
    use super::Regex;
    use crate::{node, read};

    #[test]
    fn matches_and_remembers() {
        let regex: Regex = read(&node!("^/v[0-9]+/")).unwrap();
        assert!(regex.is_match("/v12/x") && !regex.is_match("/x"));
        assert_eq!(regex.to_string(), "^/v[0-9]+/");
    }

    #[test]
    fn refuses_with_a_reason() {
        for (text, why) in [
            ("a(b", "is not a regular expression: unclosed group"),
            ("(?=x)", "look-around"),
            ("(a{1000}){1000}", "too large"),
        ] {
            let out = read::<Regex>(&node!(text)).unwrap_err();
            assert!(out.contains(why), "{text}: {out}");
        }
    }
}
