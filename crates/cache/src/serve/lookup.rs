//! Finding what is stored for a request.

use std::rc::Rc;
use std::sync::Arc;

use exchange::Request;

use super::worker_cache::{HotEntry, WorkerCache};
use crate::key::{KeyBuffer, KeyError, KeyRules};
use crate::rules::{Forward, Policy, SearchRule, search, vary};
use crate::store::Store;
use crate::{Object, ObjectKind};

/// What is stored, as this worker has it.
pub(crate) enum StoredEntry {
    Hot(Rc<HotEntry>),
    Cold(Arc<Object>),
}

impl StoredEntry {
    pub(crate) fn object(&self) -> &Arc<Object> {
        match self {
            StoredEntry::Hot(hot) => hot.object(),
            StoredEntry::Cold(object) => object,
        }
    }
}

/// What a look found; the buffer is left with the key that it ended at.
pub(crate) struct LookupResult {
    /// A response, or a marker that answers cannot be stored.
    pub(crate) entry: Option<StoredEntry>,
    /// What is missing, if nothing was found (RFC 9211 2.2).
    pub(crate) missing: Forward,
}

/// Looks for the response of a request: under its key, under that of its variant where it varies,
/// and under its query's canonical form where the origin says which parameters matter.
pub(crate) fn lookup(
    store: &Store,
    worker_cache: &WorkerCache,
    (rules, policy): (&KeyRules, &Policy),
    request: &Request,
    buffer: &mut KeyBuffer,
) -> Result<LookupResult, KeyError> {
    rules.write(request, buffer)?;
    let looked = lookup_primary(store, worker_cache, policy, request, buffer)?;
    let query = request.target.query();
    if looked.entry.is_some() || looked.missing != Forward::UriMiss || !policy.no_vary_search {
        return Ok(looked);
    }
    let Some(query) = query else { return Ok(looked) };
    rules.write_with(request, None, buffer)?;
    buffer.search();
    let rule = find(store, worker_cache, buffer);
    let Some(ObjectKind::NoVarySearch(rule)) = rule.as_ref().map(|found| &found.object().kind)
    else {
        rules.write(request, buffer)?;
        return Ok(looked);
    };
    write_canonical_query(rules, request, query, rule, buffer)?;
    lookup_primary(store, worker_cache, policy, request, buffer)
}

/// The key of a request to whose URL a rule of No-Vary-Search applies: of the same URL with its
/// query in canonical form.
pub(crate) fn write_canonical_query(
    rules: &KeyRules,
    request: &Request,
    query: &[u8],
    rule: &SearchRule,
    buffer: &mut KeyBuffer,
) -> Result<(), KeyError> {
    let mut canonical = Vec::with_capacity(query.len());
    search::canonical(query, rule, &mut canonical);
    rules.write_with(request, (!canonical.is_empty()).then_some(&canonical), buffer)
}

/// What is under the primary key in the buffer, or under its variant's.
fn lookup_primary(
    store: &Store,
    worker_cache: &WorkerCache,
    policy: &Policy,
    request: &Request,
    buffer: &mut KeyBuffer,
) -> Result<LookupResult, KeyError> {
    let missing = |missing| Ok(LookupResult { entry: None, missing });
    let Some(found) = find(store, worker_cache, buffer) else { return missing(Forward::UriMiss) };
    match &found.object().kind {
        ObjectKind::Response(_) | ObjectKind::Uncacheable { .. } => {
            Ok(LookupResult { entry: Some(found), missing: Forward::Miss })
        }
        ObjectKind::Parts(_) | ObjectKind::NoVarySearch(_) => missing(Forward::UriMiss),
        ObjectKind::Varies(fields) => {
            buffer.variant(|out| vary::values(fields, &request.headers, policy, out))?;
            let found = find(store, worker_cache, buffer);
            // A marker in a variant's place says that the variants have changed.
            let found = found.filter(|found| {
                matches!(
                    found.object().kind,
                    ObjectKind::Response(_) | ObjectKind::Uncacheable { .. }
                )
            });
            Ok(LookupResult { entry: found, missing: Forward::VaryMiss })
        }
    }
}

/// What is under the key in the buffer. What is asked for again is kept at hand.
pub(crate) fn find(
    store: &Store,
    worker_cache: &WorkerCache,
    buffer: &KeyBuffer,
) -> Option<StoredEntry> {
    let (hash, key, epoch) = (buffer.hash(), buffer.text(), store.clear_epoch());
    if let Some(hot) = worker_cache.get(hash, key, epoch) {
        hot.object().state.count_use();
        return Some(StoredEntry::Hot(hot));
    }
    let object = store.get(hash, key)?;
    if object.state.uses() > 1 {
        return Some(StoredEntry::Hot(worker_cache.put(hash, object, epoch)));
    }
    Some(StoredEntry::Cold(object))
}
