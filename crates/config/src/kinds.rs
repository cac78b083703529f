//! The filters and handlers that a configuration may name, from the tables that the rooms export.
//!
//! Owns the reading of an entry: one key that names the kind, its settings under it.

use std::sync::Arc;

use exchange::{FilterKind, FilterPlan, HandlerKind, HandlerPlan};
use settings::{
    ChoiceDef, Def, Node, Reader, Schema, SchemaBuilder, Setting, Spanned, Variant, tagged,
};

/// Filters that are promised and refused by this version.
const FILTERS_LATER: &[&str] = &[];
/// Handlers that are promised and refused by this version.
const HANDLERS_LATER: &[&str] = &[];

/// Kinds that are written as the name of something declared elsewhere, and so have no declaration
/// to take prose from.
const NAMES: &[(&str, &str)] = &[
    ("upstream", "Sends requests on to a group of servers of `upstreams`, by its name."),
    ("app", "Hands requests over to an application of `apps`, by its name."),
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
            filters: filters::ALL.iter().chain([&lua::FILTER, &cache::FILTER]).collect(),
            handlers: exchange::HANDLERS
                .iter()
                .chain([&upstream::KIND])
                .chain(files::HANDLERS)
                .chain([&lua::HANDLER, &apps::HANDLER])
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
        match self.filters.iter().find(|kind| kind.name == name.value) {
            Some(kind) => (kind.read)(settings, reader),
            None => {
                let known = self.filters.iter().map(|kind| kind.name).chain(["chain"]);
                refuse("filter", name, known, FILTERS_LATER, reader);
                None
            }
        }
    }

    pub(crate) fn handler(
        &self,
        entry: &HandlerEntry,
        reader: &mut Reader<'_>,
    ) -> Option<Arc<dyn HandlerPlan>> {
        match self.handlers.iter().find(|kind| kind.name == entry.name.value) {
            Some(kind) => (kind.read)(&entry.settings, reader),
            None => {
                let known = self.handlers.iter().map(|kind| kind.name);
                refuse("handler", &entry.name, known, HANDLERS_LATER, reader);
                None
            }
        }
    }
}

fn refuse<'k>(
    what: &str,
    name: &Spanned<String>,
    known: impl Iterator<Item = &'k str>,
    later: &[&str],
    reader: &mut Reader<'_>,
) {
    if later.contains(&name.value.as_str()) {
        reader.report().comes_later(name.span, &name.value);
    } else {
        reader.report().unknown(name.span, what, &name.value, known);
    }
}

/// One entry of a list of filters, read further when the tables and the chains are at hand.
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
        let (key, settings) = tagged(node, reader)?;
        if key.name == "chain" {
            return Spanned::read(settings, reader).map(FilterEntry::Chain);
        }
        let name = Spanned { value: key.name.clone(), span: key.span };
        Some(FilterEntry::Filter { name, settings: settings.clone() })
    }
}

/// What a route ends in, read further when the tables are at hand.
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
            let doc = "What a route ends in.".to_owned();
            Def::Choice(ChoiceDef { doc, variants, later: HANDLERS_LATER })
        })
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let (key, settings) = tagged(node, reader)?;
        let name = Spanned { value: key.name.clone(), span: key.span };
        Some(HandlerEntry { name, settings: settings.clone() })
    }
}

/// The kind's own prose, up to its first empty line, is what a list of kinds says of it.
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
