//! What the store has for a request that may have to be waited for.

use std::sync::Arc;

use exchange::Request;
use net::clock::wall_secs;

use super::CacheFilter;
use crate::key::{Refusal, with_draft};
use crate::rules::{Forward, Reason, SearchRule, Vary, vary};
use crate::{Key, Kind, Object, serve};

/// What was found, and under which key.
pub(super) struct Looked {
    /// Without Vary.
    pub(super) primary: Key,
    /// With what is known of Vary.
    pub(super) key: Key,
    pub(super) found: Found,
}

pub(super) enum Found {
    Response(Arc<Object>),
    /// Requests for it do not wait for each other, and why.
    Uncacheable(Reason),
    Nothing(Forward),
}

impl Found {
    pub(super) fn is_response(&self) -> bool {
        matches!(self, Found::Response(_))
    }
}

impl CacheFilter {
    /// Looks for what a request asks for.
    pub(super) fn look(&self, request: &Request) -> Result<Looked, Refusal> {
        with_draft(|draft| {
            let (store, rules) = (self.cache.store(), (&self.rules, &self.terms.policy));
            let looked = serve::look(store, &self.shelf, rules, request, draft)?;
            let found = match looked.found.as_ref().map(serve::Found::object) {
                None => Found::Nothing(looked.missing),
                Some(object) => match &object.kind {
                    Kind::Response(_) => Found::Response(object.clone()),
                    Kind::Uncacheable { until_secs, why } if *until_secs > wall_secs() => {
                        Found::Uncacheable(*why)
                    }
                    _ => Found::Nothing(Forward::Miss),
                },
            };
            let key = draft.key();
            Ok(Looked { primary: draft.primary().key(), key, found })
        })
    }

    /// Brings into memory what lies on disk under the key that a look ended at, or what may lead on
    /// from there; whether there was anything.
    pub(super) async fn bring(&self, request: &Request, key: &Key) -> bool {
        if self.cache.bring(key).await {
            return true;
        }
        let rule = request.target.query().filter(|_| self.terms.policy.no_vary_search);
        let place = rule.and_then(|_| self.search_place(request));
        match place {
            Some(place) if !self.cache.store().has(&place) => self.cache.bring(&place).await,
            _ => false,
        }
    }

    /// Where a rule for the query of a URL stands.
    fn search_place(&self, request: &Request) -> Option<Key> {
        with_draft(|draft| {
            self.rules.write_with(request, None, draft).ok()?;
            Some(draft.search().key())
        })
    }

    /// The key of the variant that a request asks for; `None` if it cannot have one.
    pub(crate) fn variant(&self, primary: &Key, request: &Request, vary: &Vary) -> Option<Key> {
        let policy = &self.terms.policy;
        with_draft(|draft| {
            draft.resume(primary);
            draft.variant(|out| vary::values(vary, &request.headers, policy, out)).ok()?;
            Some(draft.key())
        })
    }

    /// Where a rule for the query of a URL stands, and the key that all URLs share which it says
    /// are the same; `None` without a query.
    pub(crate) fn searched(&self, request: &Request, rule: &SearchRule) -> Option<(Key, Key)> {
        let query = request.target.query()?;
        with_draft(|draft| {
            self.rules.write_with(request, None, draft).ok()?;
            let place = draft.search().key();
            serve::write_searched(&self.rules, request, query, rule, draft).ok()?;
            Some((place, draft.key()))
        })
    }
}
