//! `statuses:` of `ttl`: times by status or by class of statuses.

use std::collections::BTreeMap;

use settings::{Duration, Node, Reader, Schema, SchemaBuilder, Setting, Value, quote};

/// Times by status, and by class under its first digit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StatusTimes {
    pub(crate) times: BTreeMap<u16, Duration>,
}

impl StatusTimes {
    /// The time of a status, or of its class.
    pub fn get(&self, status: u16) -> Option<Duration> {
        self.times.get(&status).or_else(|| self.times.get(&(status / 100))).copied()
    }

    /// Statuses (`404`) and classes (`5`), with their times.
    pub fn iter(&self) -> impl Iterator<Item = (u16, Duration)> {
        self.times.iter().map(|(status, time)| (*status, *time))
    }
}

impl Setting for StatusTimes {
    fn schema(defs: &mut SchemaBuilder) -> Schema {
        Schema::Map(Box::new(Duration::schema(defs)))
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let entries: &[_] = match &node.value {
            Value::Map(entries) => entries,
            Value::Null => &[],
            _ => {
                reader.expected(node, "a map from statuses to times");
                return None;
            }
        };
        let mut times = BTreeMap::new();
        for (key, node) in entries {
            let time = Duration::read(node, reader);
            match status(&key.name) {
                Some(status) => times.extend(time.map(|time| (status, time))),
                None => {
                    reader
                        .error(key.span, format!("{} is not a status", quote(&key.name)))
                        .help("statuses are 200 to 599, classes 2xx to 5xx");
                }
            }
        }
        Some(StatusTimes { times })
    }
}

fn status(text: &str) -> Option<u16> {
    match text.strip_suffix("xx") {
        Some(class) => class.parse().ok().filter(|class| (2..=5).contains(class)),
        None => text.parse().ok().filter(|status| text.len() == 3 && (200..=599).contains(status)),
    }
}
