//! JSON of tokens and key sets: a name that is written twice is an error (RFC 7515 4, RFC 7519 4),
//! because two programs may take different ones.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;

/// An object with a few members, in their order: a list, because most have fewer than a hash table
/// pays for.
#[derive(Debug, PartialEq)]
pub(crate) struct Object(Vec<(String, Json)>);

/// Reads an object.
pub(crate) fn object(text: &[u8]) -> Option<Object> {
    serde_json::from_slice(text).ok()
}

impl Object {
    pub(crate) fn get(&self, name: &str) -> Option<&Json> {
        self.0.iter().find(|(member, _)| member == name).map(|(_, value)| value)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl IntoIterator for Object {
    type Item = (String, Json);
    type IntoIter = std::vec::IntoIter<(String, Json)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Object;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Object, A::Error> {
        let mut members = Vec::with_capacity(MEMBERS_USUAL);
        while let Some((name, Strict(value))) = entries.next_entry()? {
            members.push((name, value));
        }
        match has_name_twice(&members) {
            true => Err(A::Error::custom("a name is written twice")),
            false => Ok(Object(members)),
        }
    }
}

/// Members that most objects do not exceed.
const MEMBERS_USUAL: usize = 8;

fn has_name_twice(members: &[(String, Json)]) -> bool {
    let mut names = members.iter().map(|(name, _)| name);
    if members.len() > MEMBERS_USUAL {
        let mut seen = HashSet::with_capacity(members.len());
        return !names.all(|name| seen.insert(name));
    }
    let is_in = |name: &String, before: &[(String, Json)]| before.iter().any(|(n, _)| n == name);
    names.enumerate().any(|(at, name)| is_in(name, &members[..at]))
}

struct Strict(Json);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Strict;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Strict, E> {
        Ok(Strict(Json::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Strict, E> {
        Ok(Strict(value.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Strict, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Strict(Json::Array(list)))
    }

    fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<Strict, A::Error> {
        let object = ObjectVisitor.visit_map(entries)?;
        Ok(Strict(Json::Object(object.into_iter().collect())))
    }
}

#[cfg(test)]
mod tests {
    use super::object;

    #[test]
    fn names_are_unique_at_every_depth() {
        let text = br#"{ "a": [1, -2, 1.5, true, null, "x"], "b": { "a": {} } }"#;
        assert_eq!(object(text).map(|object| object.len()), Some(2));
        let many = |last: usize| {
            let members: Vec<String> = (0..20).map(|number| format!("\"{number}\":0")).collect();
            format!("{{{},\"{last}\":1}}", members.join(","))
        };
        let object_of_many = object(many(20).as_bytes()).unwrap();
        assert_eq!((object_of_many.len(), object_of_many.get("20")), (21, Some(&1.into())));
        assert_eq!(object(many(7).as_bytes()), None);
        for other in [
            &br#"{"a":1,"a":1}"#[..],
            br#"{"a":1,"\u0061":1}"#,
            br#"{"b":[{"a":1,"a":2}]}"#,
            b"[]",
            b"1",
            b"{",
            b"{}x",
            b"",
            b"\xff",
        ] {
            assert_eq!(object(other), None, "{}", String::from_utf8_lossy(other));
        }
        let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
        assert_eq!(object(&deep), None);
    }
}
