//! Reading of words and one-key maps, for enums that derive [`Setting`](crate::Setting).

use crate::nearest::nearest;
use crate::node::{MapKey, Node, Value};
use crate::reader::Reader;

/// The word chosen at a node and its payload (the node itself for a bare word), or an error.
pub fn chosen<'n>(
    node: &'n Node,
    words: &[(&'static str, bool)],
    later: &[&str],
    reader: &mut Reader<'_>,
) -> Option<(&'n str, &'n Node)> {
    let listed = || words.iter().map(|(word, _)| *word);
    let (name, span, payload) = match &node.value {
        Value::Scalar(scalar) => (scalar.text.as_str(), node.span, None),
        Value::Map(_) => {
            let (key, payload) = tagged(node, reader)?;
            (key.name.as_str(), key.span, Some(payload))
        }
        _ => {
            let all = listed().collect::<Vec<_>>().join(", ");
            reader.expected(node, &format!("one of {all}"));
            return None;
        }
    };
    let Some((word, has_payload)) = words.iter().find(|(word, _)| *word == name) else {
        if later.contains(&name) {
            reader.report().comes_later(span, name);
            return None;
        }
        let shown = match &node.value {
            Value::Scalar(scalar) => scalar.shown(),
            _ => name,
        };
        reader.report().unknown(span, "choice", shown, listed());
        // The value under a misspelt word is read all the same: it may have errors too.
        let near = nearest(shown, listed())?;
        return payload.filter(|_| words.contains(&(near, true))).map(|payload| (near, payload));
    };
    match (has_payload, payload) {
        (true, Some(payload)) => Some((name, payload)),
        (false, None) => Some((name, node)),
        (true, None) => {
            reader
                .error(span, format!("`{word}` needs a value"))
                .help(format!("write {{ {word}: … }}"));
            None
        }
        (false, Some(_)) => {
            reader
                .error(span, format!("`{word}` takes no value"))
                .help(format!("write {word} alone"));
            None
        }
    }
}

/// The only key of a one-key map such as `{ rate_limit: {…} }` and its value, or an error.
pub fn tagged<'n>(node: &'n Node, reader: &mut Reader<'_>) -> Option<(&'n MapKey, &'n Node)> {
    match &node.value {
        Value::Map(entries) if entries.len() == 1 => entries.first().map(|(key, node)| (key, node)),
        Value::Map(entries) if entries.is_empty() => {
            reader.expected(node, "a map with one key").message.push_str(" without keys");
            None
        }
        Value::Map(entries) => {
            let names: Vec<_> = entries.iter().map(|(key, _)| key.name.as_str()).collect();
            let second = entries[1].0.span;
            reader
                .error(second, format!("only one key can stand here, not {}", names.join(" and ")));
            None
        }
        _ => {
            reader.expected(node, "a map with one key");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Size, node, read};

    /// How.
    #[derive(Clone, Debug, PartialEq, settings::Setting)]
    #[setting(later(slow))]
    pub(crate) enum How {
        /// Fast.
        Fast,
        /// With room.
        Room(Size),
    }

    #[test]
    fn words_and_one_key_maps() {
        assert_eq!(read(&node!("fast")), Ok(How::Fast));
        assert_eq!(read(&node!({ "room": "1KiB" })), Ok(How::Room(Size::from_bytes(1024))));
    }

    #[test]
    fn what_is_wrong_is_reported() {
        for (node, expected) in [
            (node!("fats"), "unknown choice \"fats\", did you mean \"fast\"?"),
            (node!("slow"), "`slow` comes later"),
            (node!({ "slow": 1 }), "`slow` comes later"),
            (node!("room"), "`room` needs a value"),
            (node!({ "fast": 1 }), "`fast` takes no value"),
            (node!({ "room": "many" }), "\"many\""),
            (node!({ "room": "1B", "fast": 1 }), "only one key can stand here, not room and fast"),
            (node!({}), "expected a map with one key, found a map without keys"),
            (node!([]), "expected one of fast, room, found a list"),
        ] {
            let out = read::<How>(&node).unwrap_err();
            assert!(out.contains(expected), "{out}\nwanted {expected}");
        }
    }
}
