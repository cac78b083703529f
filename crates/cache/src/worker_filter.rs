//! One worker's instance of a `cache:` entry: its cache, configuration, key rules and counters.
//!
//! Owns the lookup of requests and the keys that fetches store under. How requests are answered is
//! in `filter`, how they are fetched in `fill`.

mod lookup;

use std::rc::Rc;
use std::sync::Arc;

use plugin::WorkerContext;

pub(crate) use lookup::{Lookup, LookupState, StoredLookup};

use crate::key::KeyRules;
use crate::metrics::CacheMetrics;
use crate::owners::{Owners, OwnersPlan};
use crate::serve::WorkerCache;
use crate::{Cache, FilterConfig};

pub(crate) struct CacheFilter {
    cache: Arc<Cache>,
    config: Arc<FilterConfig>,
    rules: KeyRules,
    worker_cache: Rc<WorkerCache>,
    metrics: Rc<CacheMetrics>,
    owners: Option<Owners>,
}

impl CacheFilter {
    pub(crate) fn new(
        cache: Arc<Cache>,
        config: Arc<FilterConfig>,
        rules: KeyRules,
        owners: Option<&OwnersPlan>,
        worker: &WorkerContext,
    ) -> CacheFilter {
        let metrics = CacheMetrics::of(worker, cache.name());
        // All filters of the worker on one cache share the table, until its size changes.
        let memory_bytes = cache.store().memory_bytes();
        let key = (Arc::as_ptr(&cache), memory_bytes);
        let worker_cache = worker.local.get(key, || WorkerCache::new(memory_bytes));
        let owners = owners.map(|plan| {
            cache.stores_of_owners();
            plan.build(cache.process(), worker)
        });
        CacheFilter { cache, config, rules, worker_cache, metrics, owners }
    }

    pub(crate) fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    pub(crate) fn config(&self) -> &Arc<FilterConfig> {
        &self.config
    }

    pub(crate) fn rules(&self) -> &KeyRules {
        &self.rules
    }

    pub(crate) fn worker_cache(&self) -> &WorkerCache {
        &self.worker_cache
    }

    /// The servers that own its URLs, if other servers do.
    pub(crate) fn owners(&self) -> Option<&Owners> {
        self.owners.as_ref()
    }

    pub(crate) fn metrics(&self) -> &Rc<CacheMetrics> {
        &self.metrics
    }
}
