//! Edits of a JSON document: operations of JSON Patch (RFC 6902 4).
//!
//! Unlike JSON Patch, an operation without a target changes nothing and is not an error: bodies of
//! one route differ. `add` with a name that exists replaces, `-` is the end of an array.

use crate::pointer::{Pointer, index};
use crate::tree::Json;

/// Adds a value, or replaces a member. Returns whether there was a place for it.
pub fn add<'a>(document: &mut Json<'a>, at: &Pointer, value: Json<'a>) -> bool {
    if at.is_whole_document() {
        *document = value;
        return true;
    }
    match at.parent_mut(document) {
        Some((Json::Object(members), name)) => {
            match members.iter_mut().find(|(known, _)| known == name) {
                Some((_, old)) => *old = value,
                None => members.push((name.to_owned().into(), value)),
            }
            true
        }
        Some((Json::Array(items), token)) => {
            let at = if token == "-" { Some(items.len()) } else { index(token) };
            let at = at.filter(|at| *at <= items.len());
            at.inspect(|at| items.insert(*at, value)).is_some()
        }
        _ => false,
    }
}

/// Replaces a value that exists. Returns whether it did.
pub fn replace<'a>(document: &mut Json<'a>, at: &Pointer, value: Json<'a>) -> bool {
    if at.is_whole_document() {
        *document = value;
        return true;
    }
    let old = match at.parent_mut(document) {
        Some((Json::Object(members), name)) => {
            members.iter_mut().find(|(known, _)| known == name).map(|(_, value)| value)
        }
        Some((Json::Array(items), token)) => index(token).and_then(|at| items.get_mut(at)),
        _ => None,
    };
    old.map(|old| *old = value).is_some()
}

/// Removes a value. Returns whether it existed.
pub fn remove(document: &mut Json<'_>, at: &Pointer) -> bool {
    match at.parent_mut(document) {
        Some((Json::Object(members), name)) => {
            let position = members.iter().position(|(known, _)| known == name);
            position.map(|position| members.remove(position)).is_some()
        }
        Some((Json::Array(items), token)) => {
            let position = index(token).filter(|at| *at < items.len());
            position.map(|position| items.remove(position)).is_some()
        }
        _ => false,
    }
}

/// Copies a value to another place. Returns whether both exist.
pub fn copy(document: &mut Json<'_>, from: &Pointer, to: &Pointer) -> bool {
    let value = from.find(document).cloned();
    value.is_some_and(|value| add(document, to, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::parse;

    fn edited(document: &str, edit: impl FnOnce(&mut Json<'_>) -> bool) -> (String, bool) {
        let mut tree = parse(document.as_bytes()).unwrap();
        let done = edit(&mut tree);
        (tree.to_string(), done)
    }

    fn at(pointer: &str) -> Pointer {
        pointer.parse().unwrap()
    }

    /// RFC 6902, appendix A, and places that do not exist.
    #[test]
    fn operations_follow_json_patch() {
        let value = || parse(b"\"qux\"").unwrap();
        for (document, pointer, added, replaced, removed) in [
            (r#"{"foo":"bar"}"#, "/baz", Some(r#"{"foo":"bar","baz":"qux"}"#), None, None),
            (
                r#"{"foo":["bar","baz"]}"#,
                "/foo/1",
                Some(r#"{"foo":["bar","qux","baz"]}"#),
                Some(r#"{"foo":["bar","qux"]}"#),
                Some(r#"{"foo":["bar"]}"#),
            ),
            (r#"["a"]"#, "/-", Some(r#"["a","qux"]"#), None, None),
            (r#"["a"]"#, "/1", Some(r#"["a","qux"]"#), None, None),
            (r#"["a"]"#, "/2", None, None, None),
            (r#"["a"]"#, "/01", None, None, None),
            (r#"{"baz":"x","foo":1}"#, "/baz/bat", None, None, None),
            (r#"{"foo":1}"#, "/a/b", None, None, None),
            (
                r#"{"a":{"b":1},"c":2}"#,
                "/a/b",
                Some(r#"{"a":{"b":"qux"},"c":2}"#),
                Some(r#"{"a":{"b":"qux"},"c":2}"#),
                Some(r#"{"a":{},"c":2}"#),
            ),
            ("1", "", Some("\"qux\""), Some("\"qux\""), None),
        ] {
            let pointer = at(pointer);
            let check = |(text, done): (String, bool), wanted: Option<&str>| {
                assert_eq!((&*text, done), (wanted.unwrap_or(document), wanted.is_some()));
            };
            check(edited(document, |tree| add(tree, &pointer, value())), added);
            check(edited(document, |tree| replace(tree, &pointer, value())), replaced);
            check(edited(document, |tree| remove(tree, &pointer)), removed);
        }
        let copied = edited(r#"{"a":[1],"b":{}}"#, |tree| copy(tree, &at("/a"), &at("/b/c")));
        assert_eq!(copied, (r#"{"a":[1],"b":{"c":[1]}}"#.to_owned(), true));
        let none = edited(r#"{"a":1}"#, |tree| copy(tree, &at("/x"), &at("/b")));
        assert_eq!(none, (r#"{"a":1}"#.to_owned(), false));
    }
}
