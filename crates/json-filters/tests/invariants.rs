//! Invariants of any JSON text and any pointer. The fuzz target calls [`json_edit`] with the
//! fuzzer's input; here it is called with known inputs.

use json_filters::edit;
use json_filters::pointer::Pointer;
use json_filters::tree::{self, JsonError};

/// A text that another parser accepts is accepted, unless it repeats a name or is too deep. What is
/// written reads as the same value, also after edits.
///
/// The input is a pointer, a line break, and a text.
pub fn json_edit(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let text = input.get(end + 1..).unwrap_or_default();
    let other: Result<serde_json::Value, _> = serde_json::from_slice(text);
    let mut document = match tree::parse(text) {
        Ok(document) => document,
        Err(JsonError::Syntax(at)) => {
            assert!(other.is_err(), "rejected at byte {at}");
            return;
        }
        Err(JsonError::TooDeep | JsonError::DuplicateName) => return,
    };
    let written = document.to_string();
    if let Ok(value) = other {
        let again: serde_json::Value = serde_json::from_str(&written).expect("valid JSON");
        assert_eq!(again, value, "the value has changed");
    }
    let Some(pointer) = std::str::from_utf8(&input[..end]).ok().and_then(|p| p.parse().ok()) else {
        return;
    };
    let pointer: Pointer = pointer;
    let added = tree::string("added");
    if edit::add(&mut document, &pointer, added.clone()) {
        let written = document.to_string();
        let again = tree::parse(written.as_bytes()).expect("an edited document is JSON");
        assert_eq!(again.to_string(), written);
        if let Some(found) = pointer.find(&document) {
            assert_eq!(*found, added, "the pointer leads to what was added");
        }
    }
    edit::copy(&mut document, &pointer, &pointer);
    edit::remove(&mut document, &pointer);
    assert!(tree::parse(document.to_string().as_bytes()).is_ok());
}

#[cfg(test)]
mod tests {
    use super::json_edit;

    #[test]
    fn known_inputs_keep_the_invariants() {
        let texts = [
            "",
            "1",
            "[]",
            "{}",
            "[1,[2,{\"a\":null}]]",
            "{\"a\":{\"b\":[1,2,3]},\"\":0}",
            "{\"\\u0061\":\"\\ud83d\\ude00\"}",
            "\"\\ud800\"",
            "1e999",
            "-0.0",
            "[1,]",
            "{\"a\":1,\"a\":2}",
        ];
        for pointer in ["", "/", "/a", "/a/b/0", "/a/b/-", "/1/1/a", "/0", "/~01", "x", "/-"] {
            for text in texts {
                json_edit(format!("{pointer}\n{text}").as_bytes());
            }
        }
        json_edit(b"\xff\n\"\xff\"");
        json_edit(("\n".to_owned() + &"[".repeat(500)).as_bytes());
    }
}
