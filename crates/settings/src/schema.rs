//! The description of settings as data: what the JSON Schema and the reference page are made from.
//!
//! Promises: it is built by the same declarations that read. Never does: reading.

use crate::node::Node;

/// The values that are allowed at a position.
#[derive(Clone, Debug, PartialEq)]
pub enum Schema {
    Bool,
    Integer {
        min: Option<i64>,
        max: Option<i64>,
    },
    Number,
    Text(Text),
    List(Box<Schema>),
    /// A map from names to the same kind of thing.
    Map(Box<Schema>),
    /// A record or a choice, by its name in [`SchemaBuilder`].
    Ref(&'static str),
    OneOf(Vec<Schema>),
    /// A map with exactly this key: `{ file: path }`.
    OneKey {
        key: &'static str,
        value: Box<Schema>,
    },
    /// Anything at all.
    Any,
}

/// A text with a name and, often, a form.
#[derive(Clone, Debug, PartialEq)]
pub struct Text {
    /// Its name in the reference: `duration`, `size`.
    pub name: &'static str,
    /// ECMA regular expression of all that is accepted, or more.
    pub pattern: Option<&'static str>,
    /// The few words that are all there is.
    pub words: &'static [&'static str],
}

impl Schema {
    pub fn text(name: &'static str) -> Schema {
        Schema::Text(Text { name, pattern: None, words: &[] })
    }

    pub fn pattern(name: &'static str, pattern: &'static str) -> Schema {
        Schema::Text(Text { name, pattern: Some(pattern), words: &[] })
    }

    pub fn words(name: &'static str, words: &'static [&'static str]) -> Schema {
        Schema::Text(Text { name, pattern: None, words })
    }
}

/// A definition with a name.
#[derive(Clone, Debug)]
pub enum Def {
    Record(RecordDef),
    Choice(ChoiceDef),
}

/// A map with known keys.
#[derive(Clone, Debug, Default)]
pub struct RecordDef {
    pub doc: String,
    pub fields: Vec<Field>,
    /// Promised keys that this version refuses.
    pub later: &'static [&'static str],
    /// The field that a value other than a map sets.
    pub short: Option<&'static str>,
}

/// One key of a record.
#[derive(Clone, Debug)]
pub struct Field {
    pub key: &'static str,
    pub doc: String,
    pub schema: Schema,
    pub default: Option<Node>,
    pub required: bool,
    pub range: Option<(Node, Node)>,
    pub examples: Vec<Node>,
    /// Would this node be read, and be in range?
    pub accepts: fn(&Node) -> Result<(), String>,
}

/// One of several words or one-key maps.
#[derive(Clone, Debug, Default)]
pub struct ChoiceDef {
    pub doc: String,
    pub variants: Vec<Variant>,
    pub later: &'static [&'static str],
}

/// `name`, or `{ name: payload }`.
#[derive(Clone, Debug, PartialEq)]
pub struct Variant {
    pub name: &'static str,
    pub doc: String,
    pub payload: Option<Schema>,
}

/// The definitions collected while a schema is built, in the order first met.
#[derive(Clone, Debug, Default)]
pub struct SchemaBuilder {
    entries: Vec<(&'static str, Option<Def>)>,
}

impl SchemaBuilder {
    /// Adds a definition once and refers to it. The name is a path (`upstream::health::Health`),
    /// unique in the program.
    pub fn define(
        &mut self,
        name: &'static str,
        build: impl FnOnce(&mut SchemaBuilder) -> Def,
    ) -> Schema {
        if !self.entries.iter().any(|(n, _)| *n == name) {
            // The place is taken before it is filled, so that a definition may mention itself.
            let at = self.entries.len();
            self.entries.push((name, None));
            self.entries[at].1 = Some(build(self));
        }
        Schema::Ref(name)
    }

    pub fn get(&self, name: &str) -> Option<&Def> {
        self.entries.iter().find(|(n, _)| *n == name)?.1.as_ref()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Def)> {
        self.entries.iter().filter_map(|(name, def)| Some((*name, def.as_ref()?)))
    }
}
