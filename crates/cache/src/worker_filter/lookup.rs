//! The keys of a request, and what is stored under them.

use std::sync::Arc;

use message::Request;
use net::clock::wall_secs;

use super::CacheFilter;
use crate::key::{KeyBuffer, KeyError, with_key_buffer};
use crate::rules::{
    Forward, RequestDirectives, Reuse, SearchRule, UncachedReason, Vary, reuse, vary,
};
use crate::serve::{self, StoredEntry};
use crate::{Key, Object, ObjectKind};

/// The result of looking a request up.
pub(crate) struct Lookup {
    /// The key without Vary.
    pub(crate) primary: Key,
    /// The key with the values of the fields in Vary, as far as these are known.
    pub(crate) key: Key,
    pub(crate) state: LookupState,
    /// Insertions into the store before the lookup.
    pub(crate) insertions: u64,
}

pub(crate) enum LookupState {
    /// A stored response, and whether it may be used.
    Response(Arc<Object>, Reuse),
    /// Responses cannot be stored: requests do not wait for each other.
    Uncacheable(UncachedReason),
    Missing(Forward),
}

impl LookupState {
    pub(crate) fn response(&self) -> Option<&Arc<Object>> {
        match self {
            LookupState::Response(object, _) => Some(object),
            _ => None,
        }
    }
}

/// A fresh stored response that the request allows to use.
pub(crate) struct FreshEntry {
    pub(crate) entry: StoredEntry,
    pub(crate) age_s: u32,
    pub(crate) left_s: i64,
    insertions: u64,
    primary_len: usize,
}

impl FreshEntry {
    /// The same as a [`Lookup`], for a response that is not ready to be sent.
    pub(crate) fn into_lookup(self) -> Lookup {
        let FreshEntry { entry, age_s, left_s, insertions, primary_len } = self;
        let object = entry.object().clone();
        let (key, reuse) = (object.key.clone(), Reuse::Use { age_s, left_s, refresh: false });
        let primary = Key::new(&key.text()[..primary_len], key.url().len());
        Lookup { primary, key, state: LookupState::Response(object, reuse), insertions }
    }
}

/// The result of [`CacheFilter::lookup`].
pub(crate) enum StoredLookup {
    Fresh(FreshEntry),
    Other(Lookup),
}

impl CacheFilter {
    /// Looks a request up. Allocates nothing for a fresh response.
    pub(crate) fn lookup(
        &self,
        request: &Request,
        directives: &RequestDirectives,
    ) -> Result<StoredLookup, KeyError> {
        with_key_buffer(|buffer| {
            let (store, rules) = (self.cache.store(), (&self.rules, &self.config.policy));
            let insertions = store.insertions();
            let found = serve::lookup(store, &self.worker_cache, rules, request, buffer)?;
            let state = match found.entry {
                None => LookupState::Missing(found.missing),
                Some(entry) => match self.classify(entry, directives, insertions, buffer) {
                    Ok(fresh) => return Ok(StoredLookup::Fresh(fresh)),
                    Err(state) => state,
                },
            };
            let key = buffer.key();
            let primary = buffer.primary().key();
            Ok(StoredLookup::Other(Lookup { primary, key, state, insertions }))
        })
    }

    fn classify(
        &self,
        entry: StoredEntry,
        directives: &RequestDirectives,
        insertions: u64,
        buffer: &KeyBuffer,
    ) -> Result<FreshEntry, LookupState> {
        let (object, now_secs) = (entry.object(), wall_secs());
        match &object.kind {
            ObjectKind::Response(response) => {
                let stale = object.state.is_stale();
                match reuse::evaluate(&response.meta, stale, directives, now_secs) {
                    Reuse::Use { age_s, left_s, refresh: false } => {
                        let primary_len = buffer.primary_len();
                        Ok(FreshEntry { entry, age_s, left_s, insertions, primary_len })
                    }
                    other => Err(LookupState::Response(object.clone(), other)),
                }
            }
            ObjectKind::Uncacheable { until_secs, why } if *until_secs > now_secs => {
                Err(LookupState::Uncacheable(*why))
            }
            _ => Err(LookupState::Missing(Forward::Miss)),
        }
    }

    /// Loads from disk what is stored under the key that a lookup ended at, or the rule for the
    /// query of its URL. Returns true if there was anything.
    pub(crate) async fn load_from_disk(&self, request: &Request, key: &Key) -> bool {
        if self.cache.load_from_disk(key).await {
            return true;
        }
        let query = request.target.query().filter(|_| self.config.policy.no_vary_search);
        match query.and_then(|_| self.search_rule_key(request)) {
            Some(key) if !self.cache.store().has(&key) => self.cache.load_from_disk(&key).await,
            _ => false,
        }
    }

    /// The key of the No-Vary-Search rule for a URL.
    fn search_rule_key(&self, request: &Request) -> Option<Key> {
        with_key_buffer(|buffer| {
            self.rules.write_with(request, None, buffer).ok()?;
            Some(buffer.search().key())
        })
    }

    /// The key of the variant that a request selects; `None` if it cannot have one.
    pub(crate) fn variant_key(&self, primary: &Key, request: &Request, vary: &Vary) -> Option<Key> {
        let policy = &self.config.policy;
        with_key_buffer(|buffer| {
            buffer.resume(primary);
            buffer.variant(|out| vary::values(vary, &request.headers, policy, out)).ok()?;
            Some(buffer.key())
        })
    }

    /// The key of the No-Vary-Search rule for a URL, and the primary key of all URLs that are
    /// equivalent by `rule`; `None` without a query.
    pub(crate) fn search_keys(&self, request: &Request, rule: &SearchRule) -> Option<(Key, Key)> {
        let query = request.target.query()?;
        with_key_buffer(|buffer| {
            self.rules.write_with(request, None, buffer).ok()?;
            let rule_key = buffer.search().key();
            serve::write_canonical_query(&self.rules, request, query, rule, buffer).ok()?;
            Some((rule_key, buffer.key()))
        })
    }
}
