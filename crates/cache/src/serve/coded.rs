//! The coding of a stored response that a client prefers.
//!
//! At once where it is at hand or in the store, or where the canonical response does meanwhile;
//! else by waiting for it a little. What cannot be had is had as the canonical response.

use std::sync::Arc;
use std::time::Duration;

use exchange::Request;
use wire::Known;

use super::look::{Found, find};
use crate::derive::{self, Choice, Order, Started, Target};
use crate::filter::CacheFilter;
use crate::key::with_draft;
use crate::limits::{BEST_FRESH_S_MIN, MAKING_AWAITED_MS};
use crate::rules::reuse;
use crate::{Object, Response};

impl CacheFilter {
    /// What is the answer instead of the canonical response that was found; `None` if that has to
    /// be waited for.
    pub(super) fn preferred(&self, found: Found, left_s: i64, request: &Request) -> Option<Found> {
        let object = found.object();
        let response = object.response()?;
        let Choice::Coded { target, acceptable } = self.choice(&found, response, request) else {
            return Some(found);
        };
        if let Some(made) = self.at_hand(&found, target) {
            if let (Found::Hot(hot), Some(_)) = (&made, target)
                && hot.count().checked_rem(self.terms.codings.best_after) == Some(0)
                && left_s >= BEST_FRESH_S_MIN
            {
                self.order(object, target).improve(made.object());
            }
            return Some(made);
        }
        if !acceptable || derive::is_awaited(response) {
            return None;
        }
        self.order(object, target).start();
        Some(found)
    }

    /// The same for who may wait, for a response of whatever freshness.
    pub(crate) async fn coded(&self, object: &Arc<Object>, request: &Request) -> Arc<Object> {
        let as_is = || object.clone();
        let Some(response) = object.response().filter(|response| !response.derived) else {
            return as_is();
        };
        let found = Found::Cold(object.clone());
        let Choice::Coded { target, .. } = self.choice(&found, response, request) else {
            return as_is();
        };
        if let Some(made) = derive::find(self.cache().store(), object, target) {
            return made;
        }
        if !derive::can_be_made(response, &object.life, target, &self.terms.codings) {
            return as_is();
        }
        // What is stale is about to be replaced.
        if reuse::left_s(&response.meta, net::clock::wall_secs()) <= 0 {
            return as_is();
        }
        match self.order(object, target).start() {
            Started::Ready(made) => made,
            Started::UnderWay(waiter) if derive::is_awaited(response) => {
                let most = Duration::from_millis(MAKING_AWAITED_MS);
                net::timer::within(most, waiter.made()).await.flatten().unwrap_or_else(as_is)
            }
            Started::UnderWay(_) | Started::No => as_is(),
        }
    }

    fn choice(&self, found: &Found, response: &Response, request: &Request) -> Choice {
        let terms = &self.terms.codings;
        if derive::is_only_one(response, terms) {
            return Choice::AsIs;
        }
        // Who does not say is given what is not coded.
        if response.coding.is_none() && !request.headers.contains(Known::AcceptEncoding) {
            return Choice::AsIs;
        }
        let accepted = request.headers.joined(Known::AcceptEncoding);
        let choose = || derive::choose(response, &found.object().life, accepted.as_deref(), terms);
        match (&accepted, found) {
            (Some(accepted), Found::Hot(hot)) => hot.choice(accepted, &self.terms, choose),
            _ => choose(),
        }
    }

    fn order<'a>(&'a self, canonical: &'a Arc<Object>, target: Target) -> Order<'a> {
        Order {
            cache: self.cache(),
            metrics: &self.metrics,
            settings: &self.terms.codings,
            canonical,
            target,
        }
    }

    /// A coding of what was found, if this worker has it at hand or the store has it.
    fn at_hand(&self, found: &Found, target: Target) -> Option<Found> {
        if let Found::Hot(hot) = found
            && let Some(made) = hot.coding(target)
        {
            made.object().life.used();
            return Some(Found::Hot(made));
        }
        let canonical = found.object();
        let made = with_draft(|draft| {
            draft.resume(&canonical.key);
            draft.coding(derive::token(target));
            find(self.cache().store(), &self.shelf, draft)
        });
        let made = made.filter(|made| derive::is_of(made.object(), canonical))?;
        if let (Found::Hot(hot), Found::Hot(made)) = (found, &made) {
            hot.set_coding(target, made);
        }
        Some(made)
    }
}
