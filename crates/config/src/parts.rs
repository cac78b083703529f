//! The parts of a configuration, for comparing two configurations.
//!
//! Keeps a digest per named item, per section and per file that settings were read from, but not
//! the content, because it includes secrets. Two texts that differ only in layout have equal parts.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use settings::{Node, Value};

/// Sections whose entries have names, and what one entry is called.
const NAMED: &[(&str, &str)] = &[
    ("listeners", "listener"),
    ("upstreams", "upstream"),
    ("caches", "cache"),
    ("apps", "app"),
    ("identity", "provider"),
    ("chains", "chain"),
    ("errors", "error page"),
];
/// Not a part itself, because the files it names are.
const INCLUDE: &str = "include";

/// An item of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// `route`, `chain`, `file`; of what has no name, its key: `timeouts`.
    pub kind: String,
    /// Its name, quoted in messages.
    pub name: Option<String>,
    digest: u64,
}

impl Part {
    /// Returns what identifies the item.
    pub fn identity(&self) -> (&str, Option<&str>) {
        (&self.kind, self.name.as_deref())
    }
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{} \"{name}\"", self.kind),
            None => f.write_str(&self.kind),
        }
    }
}

/// The parts of a tree that has no errors; routes are named as the plan names them.
pub(crate) fn parts<'r>(
    root: &Node,
    routes: impl Iterator<Item = &'r str>,
    files: &[(PathBuf, u64)],
) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut routes = routes;
    let Value::Map(sections) = &root.value else { return parts };
    let mut add = |kind: &str, name: Option<&str>, digest| {
        parts.push(Part { kind: kind.to_owned(), name: name.map(str::to_owned), digest });
    };
    for (key, section) in sections {
        let entry = NAMED.iter().find(|(section, _)| *section == key.name);
        match (&section.value, entry) {
            _ if key.name == INCLUDE => {}
            (Value::Map(entries), Some((_, kind))) => {
                entries.iter().for_each(|(name, node)| add(kind, Some(&name.name), digest(node)));
            }
            (Value::List(items), None) if key.name == "routes" => {
                for (name, node) in routes.by_ref().zip(items) {
                    add("route", Some(name), digest(node));
                }
            }
            _ => add(&key.name, None, digest(section)),
        }
    }
    for (path, digest) in files {
        add("file", Some(&path.display().to_string()), *digest);
    }
    parts
}

fn digest(node: &Node) -> u64 {
    let mut hasher = DefaultHasher::new();
    feed(node, &mut hasher);
    hasher.finish()
}

/// Each value with its kind and its length, so that two different trees never have the same form.
fn feed(node: &Node, hasher: &mut DefaultHasher) {
    match &node.value {
        Value::Null | Value::Broken => 0_u8.hash(hasher),
        Value::Scalar(scalar) => (1_u8, &scalar.text).hash(hasher),
        Value::List(items) => {
            (2_u8, items.len()).hash(hasher);
            items.iter().for_each(|item| feed(item, hasher));
        }
        Value::Map(entries) => {
            (3_u8, entries.len()).hash(hasher);
            for (key, item) in entries {
                key.name.hash(hasher);
                feed(item, hasher);
            }
        }
    }
}
