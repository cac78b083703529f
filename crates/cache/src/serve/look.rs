//! Finding what is stored for a request.

use std::rc::Rc;
use std::sync::Arc;

use exchange::Request;

use super::hot::{Hot, Shelf};
use crate::key::{Draft, KeyRules, Refusal};
use crate::rules::{Forward, Policy, SearchRule, search, vary};
use crate::store::Store;
use crate::{Kind, Object};

/// What is stored, as this worker has it.
pub(crate) enum Found {
    Hot(Rc<Hot>),
    Cold(Arc<Object>),
}

impl Found {
    pub(crate) fn object(&self) -> &Arc<Object> {
        match self {
            Found::Hot(hot) => hot.object(),
            Found::Cold(object) => object,
        }
    }
}

/// What a look found; the draft is left with the key that it ended at.
pub(crate) struct Looked {
    /// A response, or a marker that answers cannot be stored.
    pub(crate) found: Option<Found>,
    /// What is missing, if nothing was found (RFC 9211 2.2).
    pub(crate) missing: Forward,
}

/// Looks for the response of a request: under its key, under that of its variant where it varies,
/// and under its query's canonical form where the origin says which parameters matter.
pub(crate) fn look(
    store: &Store,
    shelf: &Shelf,
    (rules, policy): (&KeyRules, &Policy),
    request: &Request,
    draft: &mut Draft,
) -> Result<Looked, Refusal> {
    rules.write(request, draft)?;
    let looked = look_at(store, shelf, policy, request, draft)?;
    let query = request.target.query();
    if looked.found.is_some() || looked.missing != Forward::UriMiss || !policy.no_vary_search {
        return Ok(looked);
    }
    let Some(query) = query else { return Ok(looked) };
    rules.write_with(request, None, draft)?;
    draft.search();
    let rule = find(store, shelf, draft);
    let Some(Kind::Search(rule)) = rule.as_ref().map(|found| &found.object().kind) else {
        rules.write(request, draft)?;
        return Ok(looked);
    };
    write_searched(rules, request, query, rule, draft)?;
    look_at(store, shelf, policy, request, draft)
}

/// The key of a request to whose URL a rule of No-Vary-Search applies: of the same URL with its
/// query in canonical form.
pub(crate) fn write_searched(
    rules: &KeyRules,
    request: &Request,
    query: &[u8],
    rule: &SearchRule,
    draft: &mut Draft,
) -> Result<(), Refusal> {
    let mut canonical = Vec::with_capacity(query.len());
    search::canonical(query, rule, &mut canonical);
    rules.write_with(request, (!canonical.is_empty()).then_some(&canonical), draft)
}

/// What is under the primary key in the draft, or under its variant's.
fn look_at(
    store: &Store,
    shelf: &Shelf,
    policy: &Policy,
    request: &Request,
    draft: &mut Draft,
) -> Result<Looked, Refusal> {
    let missing = |missing| Ok(Looked { found: None, missing });
    let Some(found) = find(store, shelf, draft) else { return missing(Forward::UriMiss) };
    match &found.object().kind {
        Kind::Response(_) | Kind::Uncacheable { .. } => {
            Ok(Looked { found: Some(found), missing: Forward::Miss })
        }
        Kind::Parts(_) | Kind::Search(_) => missing(Forward::UriMiss),
        Kind::Varies(fields) => {
            draft.variant(|out| vary::values(fields, &request.headers, policy, out))?;
            let found = find(store, shelf, draft);
            // A marker in a variant's place says that the variants have changed.
            let found = found.filter(|found| {
                matches!(found.object().kind, Kind::Response(_) | Kind::Uncacheable { .. })
            });
            Ok(Looked { found, missing: Forward::VaryMiss })
        }
    }
}

/// What is under the key in the draft. What is asked for again is kept at hand.
pub(super) fn find(store: &Store, shelf: &Shelf, draft: &Draft) -> Option<Found> {
    let (hash, key, epoch) = (draft.hash(), draft.text(), store.epoch());
    if let Some(hot) = shelf.get(hash, key, epoch) {
        hot.object().life.used();
        return Some(Found::Hot(hot));
    }
    let object = store.get(hash, key)?;
    if object.life.uses() > 1 {
        return Some(Found::Hot(shelf.put(hash, object, epoch)));
    }
    Some(Found::Cold(object))
}
