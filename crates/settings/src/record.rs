//! Reading of maps with known keys, for structs that derive [`Setting`].
//!
//! Owns: unknown keys with their nearest word, keys of later versions, missing keys, defaults read
//! by the same reader as what users type, ranges.

use crate::nearest::nearest;
use crate::node::{MapKey, Node, Value, quote};
use crate::reader::{Reader, read};
use crate::setting::Setting;

/// A map whose keys have been checked, ready to be read field by field.
pub struct Fields<'n> {
    node: &'n Node,
    entries: &'n [(MapKey, Node)],
    /// The value itself, if it is the short form of one of the fields.
    short: Option<&'static str>,
    /// Probable corrections of unknown keys, with the values under these keys.
    meant: Vec<(&'static str, &'n Node)>,
}

impl<'n> Fields<'n> {
    /// Checks the keys. Values are read, and their errors reported, even when a key is wrong.
    pub fn open(
        node: &'n Node,
        keys: &'static [&'static str],
        later: &'static [&'static str],
        short: Option<&'static str>,
        reader: &mut Reader<'_>,
    ) -> Option<Self> {
        let entries: &[(MapKey, Node)] = match &node.value {
            Value::Map(entries) => entries,
            // `compress:` with nothing after it is a map without keys.
            Value::Null => &[],
            _ if short.is_some() => {
                return Some(Fields { node, entries: &[], short, meant: Vec::new() });
            }
            _ => {
                reader.expected(node, "a map").list(keys);
                return None;
            }
        };
        let mut meant = Vec::new();
        for (written, value) in entries {
            let name = written.name.as_str();
            if later.contains(&name) {
                reader.report().comes_later(written.span, name);
            } else if !keys.contains(&name) {
                reader.report().unknown(written.span, "key", name, keys.iter().copied());
                let near = nearest(name, keys.iter().copied());
                meant.extend(near.map(|near| (near, value)));
            }
        }
        Some(Fields { node, entries, short: None, meant })
    }

    fn written(&self, name: &str) -> Option<&'n Node> {
        if let Some(short) = self.short {
            return (short == name).then_some(self.node);
        }
        self.entries.iter().find(|(k, _)| k.name == name).map(|(_, node)| node)
    }

    /// The field as written, else as written under a misspelt key, else its default, else the
    /// type's value for a missing one, else an error and the type's placeholder. An invalid value
    /// has been reported; reading continues with another value to find further errors, which for
    /// one outside its range is the nearest bound.
    pub fn read<T: Setting>(
        &self,
        name: &'static str,
        default: Option<Node>,
        range: Option<Range<T>>,
        reader: &mut Reader<'_>,
    ) -> Option<T> {
        let written = self.written(name);
        if let Some(written) = written
            && let Some(value) = T::read(written, reader)
        {
            return Some(bounded(name, written, value, range, reader));
        }
        let misspelt = self.meant.iter().find(|(near, _)| *near == name).map(|(_, node)| *node);
        if let (None, Some(node)) = (written, misspelt)
            && let Some(value) = reader.attempt(|reader| T::read(node, reader))
        {
            return Some(bounded(name, node, value, range, reader));
        }
        if let Some(default) = default {
            return T::read(&default, reader);
        }
        let value = T::missing();
        if value.is_none() && written.is_none() && misspelt.is_none() {
            reader
                .error(self.node.span, format!("key {} is missing", quote(name)))
                .rule("missing-key");
        }
        value.or_else(T::placeholder)
    }
}

/// The value, or the bound that it exceeds after an error: a size that was rejected is never
/// allocated. The bounds are read as if the user had typed them.
fn bounded<T: Setting>(
    name: &str,
    written: &Node,
    value: T,
    range: Option<Range<T>>,
    reader: &mut Reader<'_>,
) -> T {
    let Some(Range { low, high, bound }) = range.filter(|_| !written.is_null()) else {
        return value;
    };
    let Some((lowest, highest)) = T::read(&low, reader).zip(T::read(&high, reader)) else {
        return value;
    };
    bound(value, lowest, highest).unwrap_or_else(|nearest| {
        let outside = outside(written, &low, &high);
        reader.error(written.span, format!("{name} {outside}"));
        nearest
    })
}

/// The bounds of a field as declared.
pub struct Range<T> {
    low: Node,
    high: Node,
    /// The value if it is within the bounds, else the nearest one. Fields without a range need no
    /// order.
    bound: fn(T, T, T) -> Result<T, T>,
}

impl<T: PartialOrd> Range<T> {
    pub fn new(low: Node, high: Node) -> Self {
        let bound = |value, low, high| match value {
            value if value > high => Err(high),
            value if value >= low => Ok(value),
            _ => Err(low),
        };
        Range { low, high, bound }
    }
}

fn outside(written: &Node, low: &Node, high: &Node) -> String {
    let (low, high) = (low.text().unwrap_or_default(), high.text().unwrap_or_default());
    format!("{} is not between {low} and {high}", written.found())
}

/// Would a field of this type and range take this node?
pub fn accepts<T: Setting + PartialOrd>(
    node: &Node,
    low: &Node,
    high: &Node,
) -> Result<(), String> {
    let (value, from, to) = (read::<T>(node)?, read::<T>(low)?, read::<T>(high)?);
    match node.is_null() || (from..=to).contains(&value) {
        true => Ok(()),
        false => Err(outside(node, low, high)),
    }
}

#[cfg(test)]
mod tests;
