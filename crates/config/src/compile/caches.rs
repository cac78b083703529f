//! Caches and the filters that name them: references, directories, and the order of filters.

use std::sync::Arc;

use cache::CachePlan;
use plugin::FilterPlan;
use settings::{Reader, quote};

use crate::records::Settings;

/// Checks that no two caches share a directory or have nested directories: each owns all files
/// there.
pub(super) fn check(settings: &Settings, reader: &mut Reader<'_>) {
    let disks: Vec<_> = (settings.caches.entries.iter())
        .filter_map(|(name, cache)| Some((name, &*cache.disk.as_ref()?.path)))
        .collect();
    for (at, (name, path)) in disks.iter().enumerate() {
        let other = disks[..at].iter().find(|(_, o)| o.starts_with(path) || path.starts_with(o));
        if let Some((other, _)) = other {
            let said = format!("cache {} uses this directory already", quote(other));
            reader.error(name.span, said).help("give each disk its own directory");
        }
    }
}

/// The cache that a filter names must be there.
pub(super) fn check_name(filter: &dyn FilterPlan, settings: &Settings, reader: &mut Reader<'_>) {
    let Some(plan) = CachePlan::of(filter) else { return };
    let store = plan.store();
    if !settings.caches.names().any(|declared| declared == store.value) {
        let error = reader.report().dangling(store.span, "cache", store, settings.caches.names());
        if settings.caches.names().next().is_none() {
            error.help(format!("declare it: caches: {{ {}: {{ memory: 256MiB }} }}", store.value));
        }
    }
}

/// Checks that a route has one cache, and authentication before it.
pub(super) fn check_order(filters: &[Arc<dyn FilterPlan>], reader: &mut Reader<'_>) {
    let mut cached: Option<&CachePlan> = None;
    for filter in filters {
        match (CachePlan::of(&**filter), cached) {
            (Some(second), Some(_)) => {
                reader
                    .error(second.store().span, "a second cache on one route")
                    .help("the first one answers: remove one of them");
            }
            (Some(first), None) => cached = Some(first),
            (None, Some(cache)) if filter.authenticates() => {
                let name = filter.name();
                let why = format!("{name} is behind this cache, which responds without it");
                reader.error(cache.store().span, why).help(format!("put {name} before cache"));
            }
            (None, _) => {}
        }
    }
}

/// Returns true if one of the filters stores responses in that cache.
pub(super) fn uses(filters: &[Arc<dyn FilterPlan>], name: &str) -> bool {
    filters
        .iter()
        .filter_map(|filter| CachePlan::of(&**filter))
        .any(|plan| plan.store().value == name)
}
