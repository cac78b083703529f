//! The filters and handlers that a configuration may name, from the tables that the crates export.
//!
//! Owns the reading of an entry: one key that names the kind, its settings under it.

use std::sync::Arc;

use plugin::{FilterKind, FilterPlan, HandlerKind, HandlerPlan};
use settings::{
    ChoiceDef, Def, Node, Reader, Schema, SchemaBuilder, Setting, Span, Spanned, Value, Variant,
    nearest, tagged,
};

/// Filters that are promised and refused by this version.
const FILTERS_LATER: &[&str] = &[];
/// Handlers that are promised and refused by this version.
const HANDLERS_LATER: &[&str] = &[];

/// Kinds that are written as the name of something declared elsewhere, and so have no declaration
/// to take prose from.
const NAMES: &[(&str, &str)] = &[
    ("upstream", "Forwards requests to a group of servers of `upstreams`, by its name."),
    ("app", "Passes requests to an application of `apps`, by its name."),
];

/// Tables of kinds: those of the product, or a test's own.
#[derive(Clone)]
pub struct Kinds {
    pub filters: Vec<&'static FilterKind>,
    pub handlers: Vec<&'static HandlerKind>,
}

impl Kinds {
    /// Everything the product has.
    pub fn all() -> Self {
        Kinds {
            filters: [filters::ALL, auth::ALL, traffic::ALL, json_filters::ALL, grpc::ALL]
                .into_iter()
                .flatten()
                .chain([&waf::KIND, &lua_host::FILTER, &cache::FILTER])
                .collect(),
            handlers: filters::HANDLERS
                .iter()
                .chain([&upstream::KIND])
                .chain(files::HANDLERS)
                .chain(ai::HANDLERS)
                .chain([&lua_host::HANDLER, &apps::HANDLER])
                .collect(),
        }
    }

    /// Reads the settings of one entry of `filters`. A `chain` is not for here.
    pub(crate) fn filter(
        &self,
        name: &Spanned<String>,
        settings: &Node,
        reader: &mut Reader<'_>,
    ) -> Option<Arc<dyn FilterPlan>> {
        let named = |name: &str| self.filters.iter().find(|kind| kind.name == name);
        let kind = named(&name.value).or_else(|| {
            let known = self.filters.iter().map(|kind| kind.name).chain(["chain"]);
            named(refuse("filter", name, known, FILTERS_LATER, reader)?)
        });
        (kind?.read)(settings, reader)
    }

    pub(crate) fn handler(
        &self,
        name: &Spanned<String>,
        settings: &Node,
        reader: &mut Reader<'_>,
    ) -> Option<Arc<dyn HandlerPlan>> {
        let named = |name: &str| self.handlers.iter().find(|kind| kind.name == name);
        if settings.value == Value::Broken {
            return None;
        }
        let kind = named(name).or_else(|| {
            let known = self.handlers.iter().map(|kind| kind.name);
            named(refuse("handler", name, known, HANDLERS_LATER, reader)?)
        });
        (kind?.read)(settings, reader)
    }
}

/// Reports an unknown kind and returns the one that was probably meant: its settings are read as
/// well, because they may contain errors too.
fn refuse<'k>(
    what: &str,
    name: &Spanned<String>,
    known: impl Iterator<Item = &'k str>,
    later: &[&str],
    reader: &mut Reader<'_>,
) -> Option<&'k str> {
    if later.contains(&name.value.as_str()) {
        reader.report().comes_later(name.span, &name.value);
        return None;
    }
    let known: Vec<&str> = known.collect();
    reader.report().unknown(name.span, what, &name.value, known.iter().copied());
    nearest(&name.value, known)
}

/// An entry of a list of filters, compiled when the tables and the chains are available.
#[derive(Clone, Debug, PartialEq)]
pub enum FilterEntry {
    /// `{ chain: NAME }`: the filters of a chain stand here.
    Chain(Spanned<String>),
    Filter {
        name: Spanned<String>,
        settings: Node,
    },
}

impl Setting for FilterEntry {
    fn schema(defs: &mut SchemaBuilder) -> Schema {
        defs.define("config::Filter", |defs| {
            let kinds = Kinds::all().filters;
            let mut variants: Vec<Variant> =
                kinds.iter().map(|kind| variant(kind.name, (kind.schema)(defs), defs)).collect();
            variants.insert(
                0,
                Variant {
                    name: "chain",
                    doc: "The filters of a chain of `chains`.".to_owned(),
                    payload: Some(Schema::text("name of a chain")),
                },
            );
            Def::Choice(ChoiceDef {
                doc: "One filter, or all of a chain.".to_owned(),
                variants,
                later: FILTERS_LATER,
            })
        })
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        if let Some(word) = node.text() {
            let help = match Kinds::all().filters.iter().any(|kind| kind.name == word) {
                true => format!("write {{ {word}: {{ … }} }}"),
                false => "a filter is { NAME: { … } }, a chain is { chain: NAME }".to_owned(),
            };
            reader.expected(node, "a map with one key").help(help);
            return None;
        }
        let (key, settings) = tagged(node, reader)?;
        if key.name == "chain" {
            return Spanned::read(settings, reader).map(FilterEntry::Chain);
        }
        let name = Spanned::new(key.name.clone(), key.span);
        Some(FilterEntry::Filter { name, settings: settings.clone() })
    }
}

/// The handler of a route, compiled when the tables are available.
#[derive(Clone, Debug, PartialEq)]
pub struct HandlerEntry {
    pub(crate) name: Spanned<String>,
    pub(crate) settings: Node,
}

impl Setting for HandlerEntry {
    fn schema(defs: &mut SchemaBuilder) -> Schema {
        defs.define("config::Handler", |defs| {
            let kinds = Kinds::all().handlers;
            let variants =
                kinds.iter().map(|kind| variant(kind.name, (kind.schema)(defs), defs)).collect();
            let doc = "The handler of a route.".to_owned();
            Def::Choice(ChoiceDef { doc, variants, later: HANDLERS_LATER })
        })
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let (key, settings) = tagged(node, reader)?;
        let name = Spanned::new(key.name.clone(), key.span);
        Some(HandlerEntry { name, settings: settings.clone() })
    }

    fn placeholder() -> Option<Self> {
        let name = Spanned::new(String::new(), Span::NOWHERE);
        Some(HandlerEntry { name, settings: Node::made(Value::Broken) })
    }
}

/// Lists of kinds show a kind's documentation up to its first empty line.
fn variant(name: &'static str, schema: Schema, defs: &SchemaBuilder) -> Variant {
    let doc = match &schema {
        Schema::Ref(def) => match defs.get(def) {
            Some(Def::Record(record)) => record.doc.as_str(),
            Some(Def::Choice(choice)) => choice.doc.as_str(),
            None => "",
        },
        _ => NAMES.iter().find(|(kind, _)| *kind == name).map_or("", |(_, doc)| doc),
    };
    let doc = doc.split("\n\n").next().unwrap_or_default().to_owned();
    Variant { name, doc, payload: Some(schema) }
}
