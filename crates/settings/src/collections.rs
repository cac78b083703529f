//! Settings made of settings: lists, maps by name, one-or-many, optional.

use std::collections::BTreeMap;

use crate::{Node, Reader, Schema, SchemaBuilder, Setting, Spanned, Value};

impl<T: Setting> Setting for Vec<T> {
    fn schema(defs: &mut SchemaBuilder) -> Schema {
        Schema::List(Box::new(T::schema(defs)))
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let Value::List(items) = &node.value else {
            reader.expected(node, "a list");
            return None;
        };
        // There may be 100 000 short lists: no more room is reserved than they need.
        let mut read = Vec::with_capacity(items.len());
        // A wrong item has been reported; the others are read too, so that all errors are.
        read.extend(items.iter().filter_map(|item| T::read(item, reader)));
        Some(read)
    }
}

impl<T: Setting> Setting for Option<T> {
    fn schema(defs: &mut SchemaBuilder) -> Schema {
        T::schema(defs)
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        if node.is_null() { Some(None) } else { T::read(node, reader).map(Some) }
    }

    fn missing() -> Option<Self> {
        Some(None)
    }
}

impl<T: Setting> Setting for Box<T> {
    fn schema(defs: &mut SchemaBuilder) -> Schema {
        T::schema(defs)
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        T::read(node, reader).map(Box::new)
    }
}

impl<T: Setting> Setting for BTreeMap<String, T> {
    fn schema(defs: &mut SchemaBuilder) -> Schema {
        Schema::Map(Box::new(T::schema(defs)))
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let named = Named::<T>::read(node, reader)?;
        Some(named.entries.into_iter().map(|(name, value)| (name.value, value)).collect())
    }
}

/// A map by name with the order and position of each name, for items that other settings refer to.
#[derive(Clone, Debug, PartialEq)]
pub struct Named<T> {
    pub entries: Vec<(Spanned<String>, T)>,
    /// Names whose value was wrong: they are declared all the same, so that references to
    /// them are not called dangling.
    pub broken: Vec<String>,
}

impl<T> Named<T> {
    /// All declared names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let whole = self.entries.iter().map(|(name, _)| name.value.as_str());
        whole.chain(self.broken.iter().map(String::as_str))
    }

    pub fn get(&self, name: &str) -> Option<&T> {
        self.entries.iter().find(|(n, _)| n.value == name).map(|(_, value)| value)
    }
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Named { entries: Vec::new(), broken: Vec::new() }
    }
}

impl<T: Setting> Setting for Named<T> {
    fn schema(defs: &mut SchemaBuilder) -> Schema {
        Schema::Map(Box::new(T::schema(defs)))
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let entries: &[_] = match &node.value {
            Value::Map(entries) => entries,
            Value::Null => &[],
            _ => {
                reader.expected(node, "a map of names");
                return None;
            }
        };
        let mut named = Named::default();
        for (key, value) in entries {
            let name = Spanned::new(key.name.clone(), key.span);
            match T::read(value, reader) {
                Some(value) => named.entries.push((name, value)),
                None => named.broken.push(name.value),
            }
        }
        Some(named)
    }
}

/// `path: a` or `path: [a, b]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OneOrMany<T>(pub Vec<T>);

impl<T> std::ops::Deref for OneOrMany<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Setting> Setting for OneOrMany<T> {
    fn schema(defs: &mut SchemaBuilder) -> Schema {
        let one = T::schema(defs);
        Schema::OneOf(vec![one.clone(), Schema::List(Box::new(one))])
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.value {
            Value::List(_) => Vec::read(node, reader).map(OneOrMany),
            _ => T::read(node, reader).map(|one| OneOrMany(vec![one])),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{Named, OneOrMany};
    use crate::{node, read};

    #[test]
    fn every_bad_item_is_reported() {
        let out = read::<Vec<u16>>(&node!([1, "a", 2, "b"])).unwrap_err();
        assert!(out.contains("\"a\"") && out.contains("\"b\""), "{out}");
        assert_eq!(read::<Vec<u16>>(&node!([1, 2])), Ok(vec![1, 2]));
        assert!(read::<Vec<u16>>(&node!(1)).unwrap_err().contains("expected a list"));
    }

    #[test]
    fn maps_keep_names() {
        let map = read::<BTreeMap<String, u16>>(&node!({ "b": 1, "a": 2 })).unwrap();
        assert_eq!(map["a"], 2);
        let named = read::<Named<u16>>(&node!({ "b": 1, "a": 2 })).unwrap();
        assert_eq!(named.names().collect::<Vec<_>>(), ["b", "a"]);
        assert_eq!(named.get("a"), Some(&2));
        assert!(read::<Named<u16>>(&node!([])).is_err());
    }

    #[test]
    fn one_is_a_list_of_one() {
        assert_eq!(read::<OneOrMany<u16>>(&node!(1)).unwrap().0, [1]);
        assert_eq!(read::<OneOrMany<u16>>(&node!([1, 2])).unwrap().0, [1, 2]);
        assert_eq!(read::<Option<u16>>(&node!(null)), Ok(None));
    }
}
