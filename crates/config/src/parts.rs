//! The parts of a configuration, for comparing two configurations.
//!
//! Keeps a digest per named item, per section and per file that settings were read from, but not
//! the content, because it includes secrets. Two texts that differ only in layout have equal parts.

use std::borrow::Cow;
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
/// The kind of a route.
const ROUTE: &str = "route";
/// Not a part itself, because the files it names are.
const INCLUDE: &str = "include";

/// An item of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// `route`, `chain`, `file`; of what has no name, its key: `timeouts`.
    pub kind: Cow<'static, str>,
    /// Its name, quoted in messages.
    pub name: Option<Box<str>>,
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

/// The parts of a tree, without what only the plan knows.
pub(crate) struct Parts(Vec<Part>);

impl Parts {
    pub(crate) fn of(root: &Node) -> Parts {
        let mut parts = Vec::new();
        let Value::Map(sections) = &root.value else { return Parts(parts) };
        let mut add = |kind: Cow<'static, str>, name: Option<&str>, node: &Node| {
            parts.push(Part { kind, name: name.map(Box::from), digest: digest(node) });
        };
        for (key, section) in sections {
            let entry = NAMED.iter().find(|(section, _)| *section == key.name);
            match (&section.value, entry) {
                _ if key.name == INCLUDE => {}
                (Value::Map(entries), Some((_, kind))) => {
                    for (name, node) in entries {
                        add((*kind).into(), Some(&name.name), node);
                    }
                }
                (Value::List(items), None) if key.name == "routes" => {
                    items.iter().for_each(|node| add(ROUTE.into(), None, node));
                }
                _ => add(key.name.clone().into(), None, section),
            }
        }
        Parts(parts)
    }

    /// The parts of a tree that has no errors: with its routes, named as the plan names them, and
    /// the files that its settings were read from.
    pub(crate) fn named<'r>(
        self,
        routes: impl Iterator<Item = &'r str>,
        files: &[(PathBuf, u64)],
    ) -> Vec<Part> {
        let mut parts = self.0;
        let unnamed = parts.iter_mut().filter(|part| part.kind == ROUTE);
        for (part, name) in unnamed.zip(routes) {
            part.name = Some(name.into());
        }
        parts.extend(files.iter().map(|(path, digest)| Part {
            kind: "file".into(),
            name: Some(path.display().to_string().into()),
            digest: *digest,
        }));
        parts
    }
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
