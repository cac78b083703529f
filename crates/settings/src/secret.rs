//! Secrets: an inline text, usually `"${TOKEN}"`, or the content of `{ file: path }`.
//!
//! Promises: the content appears in no Debug, no Display and no excerpt. The caller compares in
//! constant time.

use std::fmt;
use std::path::PathBuf;

use crate::report::MASK;
use crate::{Node, Reader, Schema, SchemaBuilder, Setting, Value};

/// A secret text. Two are equal when their contents are (not in constant time: for comparing plans,
/// not for checking).
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    content: Vec<u8>,
}

impl Secret {
    pub fn new(content: impl Into<Vec<u8>>) -> Self {
        Secret { content: content.into() }
    }

    /// The content. Compare it in constant time, and never format it.
    pub fn expose(&self) -> &[u8] {
        &self.content
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}

const WHAT: &str = "a secret: \"${NAME}\" or { file: path }";

impl Setting for Secret {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::OneOf(vec![
            Schema::text("secret"),
            Schema::OneKey { key: "file", value: Box::new(Schema::text("path")) },
        ])
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::Scalar(scalar) => {
                // The text `${NAME}` itself is not a secret.
                if scalar.typed.is_none() {
                    reader.report().mask(node.span);
                }
                if scalar.text == MASK {
                    reader
                        .error(node.span, "this is a masked secret, not a secret")
                        .help("read the configuration with GET /v1/config?secrets");
                    return None;
                }
                if scalar.text.is_empty() {
                    reader.error(node.span, "the secret is empty");
                    return None;
                }
                Some(Secret::new(scalar.text.as_bytes()))
            }
            Value::Map(_) => {
                let (key, path) = crate::choice::tagged(node, reader)?;
                if key.name != "file" {
                    reader.report().unknown(key.span, "key", &key.name, ["file"]);
                    return None;
                }
                let name = String::read(path, reader)?;
                let mut content = reader.read_file(path.span, &PathBuf::from(name))?;
                // Editors and `echo` end files with a line end that is not part of the secret.
                if content.ends_with(b"\n") {
                    content.pop();
                    if content.ends_with(b"\r") {
                        content.pop();
                    }
                }
                if content.is_empty() {
                    reader.error(path.span, "the secret in this file is empty");
                    return None;
                }
                Some(Secret { content })
            }
            _ => {
                reader.expected(node, WHAT);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Secret;
    use crate::{node, read};

    #[test]
    fn the_content_is_not_shown() {
        let secret: Secret = read(&node!("hunter2")).unwrap();
        assert_eq!(secret.expose(), b"hunter2");
        assert!(!format!("{secret:?}").contains("hunter2"));
    }

    #[test]
    fn a_file_loses_its_last_line_end_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let file = path.to_str().unwrap();
        for (content, secret) in [("a b\n", "a b"), ("a\r\n", "a"), ("a\n\n", "a\n"), ("a", "a")] {
            std::fs::write(&path, content).unwrap();
            let read = read::<Secret>(&node!({ "file": file })).unwrap();
            assert_eq!(read.expose(), secret.as_bytes());
        }
    }

    #[test]
    fn what_cannot_be_read_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().to_str().unwrap();
        let missing = format!("{dir}/none");
        for (node, why) in [
            (node!({ "file": missing }), "cannot read"),
            (node!({ "file": dir }), "it is not a file"),
            (node!({ "flie": "x" }), "unknown key \"flie\", did you mean \"file\"?"),
            (node!([]), "expected a secret"),
            (node!(""), "the secret is empty"),
        ] {
            let out = read::<Secret>(&node).unwrap_err();
            assert!(out.contains(why), "{out}");
        }
    }
}
