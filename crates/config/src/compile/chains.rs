//! Compiles chains and lists of filters.

use std::sync::Arc;

use plugin::FilterPlan;
use settings::{Reader, Span, Spanned};

use super::caches;
use super::handlers::Declared;
use crate::kinds::FilterEntry;

/// A list of filters, and the parameters of the route's path that they want.
#[derive(Clone, Default)]
pub(super) struct FilterList {
    pub(super) filters: Vec<Arc<dyn FilterPlan>>,
    /// Where the filters are written.
    pub(super) spans: Vec<Span>,
    pub(super) path_variables: Vec<Spanned<String>>,
}

impl FilterList {
    fn append(&mut self, other: &FilterList) {
        self.filters.extend(other.filters.iter().cloned());
        self.spans.extend(&other.spans);
        self.path_variables.extend(other.path_variables.iter().cloned());
    }
}

/// All chains, and which of them are used.
pub(super) struct Chains {
    entries: Vec<Chain>,
    /// Chains that were not lists: declared all the same.
    broken: Vec<String>,
}

struct Chain {
    name: Spanned<String>,
    list: FilterList,
    used: bool,
}

impl Chains {
    pub(super) fn read(declared: Declared<'_>, reader: &mut Reader<'_>) -> Self {
        let settings = declared.settings;
        let mut entries = Vec::new();
        for (name, filters) in &settings.chains.entries {
            let mut list = FilterList::default();
            for entry in filters {
                match entry {
                    FilterEntry::Chain(inner) => {
                        reader
                            .error(inner.span, "a chain cannot hold another chain")
                            .help("list both where they are used");
                    }
                    FilterEntry::Filter { .. } => filter(entry, declared, &mut list, reader),
                }
            }
            entries.push(Chain { name: name.clone(), list, used: false });
        }
        Chains { entries, broken: settings.chains.broken.clone() }
    }

    /// The filters of a list, with those of the chains it names.
    pub(super) fn filters(
        &mut self,
        entries: &[FilterEntry],
        declared: Declared<'_>,
        reader: &mut Reader<'_>,
    ) -> FilterList {
        let mut list = FilterList::default();
        for entry in entries {
            match entry {
                FilterEntry::Filter { .. } => filter(entry, declared, &mut list, reader),
                FilterEntry::Chain(name) => {
                    match self.entries.iter_mut().find(|chain| chain.name == *name) {
                        Some(chain) => {
                            chain.used = true;
                            list.append(&chain.list);
                        }
                        None if self.broken.contains(name) => {}
                        None => {
                            let known = self.entries.iter().map(|chain| chain.name.as_str());
                            reader.report().dangling(name.span, "chain", name, known);
                        }
                    }
                }
            }
        }
        list
    }

    /// Returns true if a chain stores responses in that cache.
    pub(super) fn use_cache(&self, name: &str) -> bool {
        self.entries.iter().any(|chain| caches::uses(&chain.list.filters, name))
    }

    pub(super) fn unused(&self) -> impl Iterator<Item = &Spanned<String>> {
        self.entries.iter().filter(|chain| !chain.used).map(|chain| &chain.name)
    }
}

fn filter(
    entry: &FilterEntry,
    declared: Declared<'_>,
    list: &mut FilterList,
    reader: &mut Reader<'_>,
) {
    if let FilterEntry::Filter { name, settings } = entry {
        let filter = declared.kinds.filter(name, settings, reader);
        if let Some(filter) = &filter {
            caches::check_name(&**filter, declared.settings, reader);
            declared.handlers_of(&**filter, reader);
        }
        list.spans.extend(filter.is_some().then_some(name.span));
        list.filters.extend(filter);
        list.path_variables.extend(reader.take_path_variables());
    }
}
