//! JSON texts and pointers, as the JSON filters read, edit and write them.

use crate::FuzzTarget;
use json_filters::edit;
use json_filters::pointer::Pointer;
use json_filters::tree::{self, JsonError};

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: json_edit,
    seeds,
    dictionary: &[
        "/", "~0", "~1", "-", "\n", "{", "}", "[", "]", ",", ":", "\"", "\\u00", "\\ud800", "null",
        "1e999", "\"a\":", " ",
    ],
    cases: 4500,
};

fn seeds() -> Vec<Vec<u8>> {
    let texts = [
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
    let mut seeds = vec![b"\xff\n\"\xff\"".to_vec(), [b"\n", &[b'['; 500][..]].concat()];
    for pointer in ["", "/", "/a", "/a/b/0", "/a/b/-", "/1/1/a", "/0", "/~01", "x", "/-"] {
        seeds.extend(texts.iter().map(|text| format!("{pointer}\n{text}").into_bytes()));
    }
    seeds
}

/// A text that another parser accepts is accepted, unless it repeats a name or is too deep. What is
/// written reads as the same value, also after edits.
///
/// The input is a pointer, a line break, and a text.
fn json_edit(input: &[u8]) {
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
