//! Lookup of a request in the worker's table and the store.

use message::Request;

use super::worker_cache::{StoredEntry, WorkerCache};
use crate::ObjectKind;
use crate::key::{KeyBuffer, KeyError, KeyRules};
use crate::rules::{Forward, Policy, SearchRule, search, vary};
use crate::store::Store;

/// The result of a lookup; the buffer holds the key that it ended at.
pub(crate) struct LookupResult {
    /// A response, or a marker that responses cannot be stored.
    pub(crate) entry: Option<StoredEntry>,
    /// What is missing, if nothing was found (RFC 9211 2.2).
    pub(crate) missing: Forward,
}

/// Looks up a request: under its key, under that of its variant if it varies, and under the
/// canonical form of its query if the origin has sent No-Vary-Search.
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

/// Writes the key of a request with its query in the canonical form of a No-Vary-Search rule.
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

/// Looks up the primary key in the buffer, then the key of the variant.
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
            // A marker under the key of a variant means that Vary has changed.
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

/// Finds what is stored under the key in the buffer. Objects that are used again go into the
/// worker's table.
pub(crate) fn find(
    store: &Store,
    worker_cache: &WorkerCache,
    buffer: &KeyBuffer,
) -> Option<StoredEntry> {
    if store.is_closed() {
        return None;
    }
    let (hash, key, epoch) = (buffer.hash(), buffer.text(), store.clear_epoch());
    if let Some(hot) = worker_cache.get(hash, key, epoch) {
        hot.count_use();
        return Some(StoredEntry::Hot(hot));
    }
    let object = store.get(hash, key)?;
    // An object in the table could keep a deleted segment for as long as nothing else needs its
    // slot.
    if object.state.uses() > 1 && object.file().is_none() {
        return Some(StoredEntry::Hot(worker_cache.put(hash, object, epoch)));
    }
    Some(StoredEntry::Cold(object))
}
