//! JSON of tokens and key sets: a name that is written twice is an error (RFC 7515 4, RFC 7519 4),
//! because two programs may take different ones.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value as Json};

/// Reads an object.
pub(crate) fn object(text: &[u8]) -> Option<Map<String, Json>> {
    match serde_json::from_slice::<Strict>(text).ok()?.0 {
        Json::Object(object) => Some(object),
        _ => None,
    }
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

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Strict, A::Error> {
        let mut object = Map::new();
        while let Some((name, Strict(value))) = members.next_entry::<String, Strict>()? {
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("a name is written twice"));
            }
        }
        Ok(Strict(Json::Object(object)))
    }
}

#[cfg(test)]
mod tests {
    use super::object;

    #[test]
    fn names_are_unique_at_every_depth() {
        let text = br#"{ "a": [1, -2, 1.5, true, null, "x"], "b": { "a": {} } }"#;
        assert_eq!(object(text).map(|object| object.len()), Some(2));
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
