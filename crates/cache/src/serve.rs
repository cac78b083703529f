//! A hit: what is stored, fresh and acceptable is the answer, at once.
//!
//! Owns the way from a request to a stored response and from there to an answer: key ▶ what the
//! worker has at hand, else the store ▶ the marker of variants, if one is there ▶ freshness ▶
//! coding ▶ preconditions and ranges. Promises that none of it waits, takes a lock that another
//! worker may hold for long, or allocates for what is asked again and again; and that what cannot
//! be answered like this is left to `fill`, untouched. Never decides what may be reused (`rules`).

mod coded;
mod hot;
mod look;
mod present;

pub(crate) use hot::Shelf;
pub(crate) use look::{Found, look, write_searched};
pub(crate) use present::{ASKING, Said, answer, not_modified, say, without_content};

use exchange::{Outcome, Request};

use crate::Kind;
use crate::filter::CacheFilter;
use crate::key::with_draft;
use crate::rules::{Reuse, Way, request, reuse};

impl CacheFilter {
    /// The answer, if it is there and needs nothing else.
    pub(crate) fn hit(&self, request: &Request) -> Option<Outcome> {
        let content = !request.body.is_empty();
        let policy = &self.terms.policy;
        let way =
            request::consider(&request.method, &request.headers, request.upgrade, content, policy);
        let Way::Lookup(asked) = way else { return None };
        let found = with_draft(|draft| {
            look(self.cache().store(), &self.shelf, (&self.rules, policy), request, draft)
                .ok()?
                .found
        })?;
        let object = found.object();
        let Kind::Response(response) = &object.kind else { return None };
        let now_secs = net::clock::wall_secs();
        let reused = reuse::judge(&response.meta, object.life.is_stale(), &asked, now_secs);
        let Reuse::Use { age_s, left_s, refresh: false } = reused else { return None };
        let found = self.preferred(found, left_s, request)?;
        let response = found.object().response()?;
        self.metrics().hits.inc();
        let said = Said::hit(age_s, left_s, self.terms.x_status);
        let (headers, body) = found.parts(response, &said, now_secs);
        Some(answer(response, headers, body, &said, request))
    }
}

#[cfg(test)]
mod tests;
