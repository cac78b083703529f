//! A JSON Pointer (RFC 6901) in the configuration.

use std::fmt;
use std::str::FromStr;

use settings::{Node, Reader, Schema, SchemaBuilder, Setting};

use crate::tree::Json;

/// The decoded names and indices that lead to a value; none is the whole document.
#[derive(Clone, Debug, PartialEq)]
pub struct Pointer {
    text: String,
    tokens: Vec<String>,
}

impl Pointer {
    /// The value in a document.
    pub fn find<'t, 'a>(&self, document: &'t Json<'a>) -> Option<&'t Json<'a>> {
        self.tokens.iter().try_fold(document, |value, token| match value {
            Json::Object(members) => {
                members.iter().find(|(name, _)| name == token).map(|(_, value)| value)
            }
            Json::Array(items) => items.get(index(token)?),
            Json::Scalar(_) => None,
        })
    }

    /// The value that holds the pointer's value, and the last token; `None` for the whole document.
    pub fn parent_mut<'t, 'a>(
        &self,
        document: &'t mut Json<'a>,
    ) -> Option<(&'t mut Json<'a>, &str)> {
        let (last, leading) = self.tokens.split_last()?;
        let parent = leading.iter().try_fold(document, |value, token| match value {
            Json::Object(members) => {
                members.iter_mut().find(|(name, _)| name == token).map(|(_, value)| value)
            }
            Json::Array(items) => items.get_mut(index(token)?),
            Json::Scalar(_) => None,
        })?;
        Some((parent, last))
    }

    pub fn is_whole_document(&self) -> bool {
        self.tokens.is_empty()
    }
}

/// RFC 6901 4: digits without a leading zero.
pub(crate) fn index(token: &str) -> Option<usize> {
    let is_index = token == "0" || !token.starts_with(['0', '+']);
    is_index.then(|| token.parse().ok()).flatten()
}

impl FromStr for Pointer {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "is not a JSON Pointer: write /name/0, with ~0 for ~ and ~1 for /";
        let mut parts = text.split('/');
        if parts.next() != Some("") {
            return Err(FORM);
        }
        let decode = |part: &str| {
            let mut escapes = part.split('~').skip(1);
            let is_valid = escapes.all(|rest| rest.starts_with(['0', '1']));
            is_valid.then(|| part.replace("~1", "/").replace("~0", "~")).ok_or(FORM)
        };
        let tokens = parts.map(decode).collect::<Result<_, _>>()?;
        Ok(Pointer { text: text.to_owned(), tokens })
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Setting for Pointer {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::pattern("JSON Pointer", "^(/([^/~]|~[01])*)*$")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        reader.parse(node, "a JSON Pointer such as /user/name")
    }
}

#[cfg(test)]
mod tests {
    use super::Pointer;
    use crate::tree::parse;

    #[test]
    fn the_examples_of_rfc_6901() {
        let document = parse(
            br#"{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,
                "m~n":8}"#,
        )
        .unwrap();
        for (pointer, value) in [
            ("/foo", Some(r#"["bar","baz"]"#)),
            ("/foo/0", Some("\"bar\"")),
            ("/", Some("0")),
            ("/a~1b", Some("1")),
            ("/c%d", Some("2")),
            ("/e^f", Some("3")),
            ("/g|h", Some("4")),
            ("/i\\j", Some("5")),
            ("/k\"l", Some("6")),
            ("/ ", Some("7")),
            ("/m~0n", Some("8")),
            ("/foo/01", None),
            ("/foo/-", None),
            ("/foo/+1", None),
            ("/foo/2", None),
            ("/foo/bar", None),
            ("/foo/0/x", None),
            ("/m~n", None),
        ] {
            let found = pointer.parse::<Pointer>().ok();
            let found = found.and_then(|p| p.find(&document).map(ToString::to_string));
            assert_eq!(found.as_deref(), value, "{pointer}");
        }
        let whole: Pointer = "".parse().unwrap();
        assert!(whole.is_whole_document() && whole.find(&document) == Some(&document));
        for odd in ["foo", "/~", "/~2", "/a~"] {
            assert!(odd.parse::<Pointer>().is_err(), "{odd}");
        }
    }
}
