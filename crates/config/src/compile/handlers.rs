//! Compiles the handlers of routes and filters; names in their settings must be declared.

use std::collections::HashSet;
use std::sync::Arc;

use plugin::{FilterPlan, HandlerPlan};
use settings::{Node, Reader, Spanned};

use super::apps::{self, Apps};
use crate::kinds::Kinds;
use crate::records::Settings;

/// The context in which a handler is compiled.
#[derive(Clone, Copy)]
pub(super) struct Declared<'d> {
    pub(super) settings: &'d Settings,
    /// The names of its upstreams.
    pub(super) upstreams: &'d HashSet<&'d str>,
    pub(super) apps: &'d Apps,
    pub(super) kinds: &'d Kinds,
}

impl Declared<'_> {
    pub(super) fn handler(
        self,
        name: &Spanned<String>,
        node: &Node,
        reader: &mut Reader<'_>,
    ) -> Option<Arc<dyn HandlerPlan>> {
        let handler = self.kinds.handler(name, node, reader)?;
        if let Some(upstream) = handler.upstream()
            && !self.upstreams.contains(&*upstream.value)
        {
            let declared = self.settings.upstreams.names();
            reader.report().dangling(upstream.span, "upstream", upstream, declared);
        }
        Some(apps::resolve(handler, self.apps, self.settings, reader.report()))
    }

    /// Reads the handlers that a filter's settings hold.
    pub(super) fn handlers_of(self, filter: &dyn FilterPlan, reader: &mut Reader<'_>) {
        for entry in filter.handlers() {
            if let Some(plan) = self.handler(&entry.name, &entry.settings, reader) {
                entry.resolve(plan);
            }
        }
    }
}
