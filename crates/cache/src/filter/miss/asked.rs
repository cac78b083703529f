//! Requests of other servers, which this one owns the URL of.
//!
//! The response is sent as it is stored: in its coding, with the fields for caches, and with its
//! age. What may not be shared is declined, and so is what this server would have to wait for
//! another owner for.

use std::rc::Rc;

use message::{Body, HandlerResult, Headers, Notes, Request, Response};
use net::clock::wall_secs;
use plugin::{BackgroundPermit, Next};
use wire::Known;

use super::MissHandler;
use crate::StoredResponse;
use crate::fill::append;
use crate::key::with_key_buffer;
use crate::limits::JOIN_ATTEMPTS_MAX;
use crate::metrics::OwnerResult;
use crate::owners::{ASK, AskMarker, OwnerReply, Owners, key_digest};
use crate::rules::{Disposition, Forward, request, reuse};
use crate::single_flight::{FetchResult, Follower, Join};
use crate::worker_filter::{CacheFilter, Lookup, LookupState, StoredLookup};

/// The status of a response that declines: the request came to the wrong server (RFC 9110 15.5.20).
const DECLINED: u16 = 421;

impl CacheFilter {
    /// True if another server has written the marker of a request. The marker of anything else is
    /// removed.
    pub(in crate::filter) fn is_asked(&self, owners: &Owners, request: &mut Request) -> bool {
        let Some(value) = request.headers.get(ASK) else { return false };
        let marker = owners.marker(value);
        match &marker {
            // The request comes to `take_marker` next, which does not verify it again.
            Some(marker) => request.marks.set(self, marker.nonce),
            None => drop(request.headers.remove(ASK)),
        }
        marker.is_some()
    }

    /// Takes the verified marker from a request of another server.
    pub(in crate::filter) fn take_marker(&self, request: &mut Request) -> Option<AskMarker> {
        let verified = request.marks.get(self)?;
        let marker = request.headers.get(ASK).and_then(AskMarker::read);
        request.headers.remove(ASK);
        marker.filter(|marker| marker.nonce == verified)
    }

    /// Responds to another server.
    pub(in crate::filter) async fn respond_to_server(
        self: Rc<Self>,
        marker: AskMarker,
        request: &mut Request,
        next: Next,
    ) -> HandlerResult {
        // Read before the lookup: what is found takes at least these purges into account.
        let applied = self.cache().log_progress().applied();
        request.scheme = marker.scheme;
        let is_own = self.owners().is_some_and(|owners| owners.is_own(&marker));
        let found = match is_own {
            true => None,
            false => self.clone().response_for_server(&marker, request, next).await,
        };
        let (mut response, reply, result) = match found {
            Some((response, was_stored)) => {
                let reply = OwnerReply::Response { was_stored, applied };
                let result = if was_stored { OwnerResult::Stored } else { OwnerResult::Fetched };
                (response, reply, result)
            }
            None => {
                request.notes.cache = Some("pass");
                let (reply, result) = match is_own {
                    true => (OwnerReply::Own, OwnerResult::Own),
                    false => (OwnerReply::Declined, OwnerResult::Declined),
                };
                (Response::new(DECLINED), reply, result)
            }
        };
        self.metrics().owner_answered(result);
        if let Some(owners) = self.owners() {
            owners.add_reply(&mut response, &marker, reply);
        }
        Ok(response)
    }

    /// The response, and whether it was stored here; `None` if there is none to share.
    async fn response_for_server(
        self: Rc<Self>,
        marker: &AskMarker,
        request: &mut Request,
        next: Next,
    ) -> Option<(Response, bool)> {
        // Filters before the cache may have changed the request: it has another key on this server.
        let key = with_key_buffer(|buffer| {
            self.rules().write(request, buffer).ok()?;
            Some(key_digest(buffer.text()))
        });
        if key? != marker.key {
            return None;
        }
        let (method, headers, policy) = (&request.method, &request.headers, &self.config().policy);
        let has_content = !request.body.is_empty();
        let disposition = request::classify(method, headers, false, has_content, policy);
        let Disposition::Lookup(directives) = disposition else { return None };
        let is_shared = !directives.no_store
            && !directives.only_if_cached
            && !request.headers.contains(Known::Authorization);
        match is_shared {
            true => MissHandler::new(self, request, directives, next).run_for_server().await,
            false => None,
        }
    }
}

impl MissHandler<'_> {
    async fn run_for_server(mut self) -> Option<(Response, bool)> {
        for _ in 0..JOIN_ATTEMPTS_MAX {
            let lookup = match self.filter.lookup(self.request, &self.directives).ok()? {
                StoredLookup::Fresh(fresh) => {
                    self.note("hit", Notes::default());
                    let stored = fresh.entry.object().response()?;
                    return Some((unchanged(stored, stored.content.body()), true));
                }
                StoredLookup::Other(lookup) => lookup,
            };
            if matches!(lookup.state, LookupState::Uncacheable(_)) {
                return None;
            }
            let mut follower = match self.join(&lookup.key, false) {
                Join::Full => return None,
                // Its leader may wait for the server that this request is from.
                Join::Follower(follower) if follower.asks_owner() => return None,
                Join::Follower(follower) => {
                    self.note("coalesced", Notes::default());
                    follower
                }
                Join::Leader(leader) => {
                    let stale = lookup.state.response().cloned();
                    if self.newer_lookup(&lookup, stale.as_ref()).is_some()
                        || stale.is_none()
                            && self.filter.load_from_disk(self.request, &lookup.key).await
                    {
                        continue;
                    }
                    let permit = BackgroundPermit::take()?;
                    let why = if stale.is_some() { Forward::Stale } else { Forward::Miss };
                    self.filter.metrics().missed(why);
                    self.note("miss", Notes::default());
                    let follower = leader.follower();
                    let keys = (lookup.primary.clone(), lookup.key.clone());
                    permit.run(self.fetch(leader, keys, stale, None).run()).detach();
                    follower
                }
            };
            match self.follow_for_server(&mut follower, &lookup).await {
                Some(Some(response)) => return Some((response, false)),
                Some(None) => {}
                None => return None,
            }
        }
        None
    }

    /// The response of a fetch; `Some(None)` if the lookup has to be repeated, `None` if there is
    /// none to share.
    async fn follow_for_server(
        &self,
        follower: &mut Follower,
        lookup: &Lookup,
    ) -> Option<Option<Response>> {
        let left = self.deadline.since(net::clock::now());
        let Some(result) = net::timer::within(left, follower.result()).await? else {
            return Some(None);
        };
        match result {
            FetchResult::Unshared | FetchResult::Failed(_) => None,
            FetchResult::Revalidated(object) => {
                let stored = object.response()?;
                let is_it = object.key == lookup.key
                    && !self.is_purged_since(follower, &object.key, Some(stored));
                Some(is_it.then(|| unchanged(stored, stored.content.body())))
            }
            FetchResult::Streaming(streaming) => {
                if self.is_purged_since(follower, &streaming.key, Some(&streaming.stored))
                    || !self.is_requested_variant(&streaming, lookup)
                {
                    return Some(None);
                }
                let reader = streaming.new_reader()?;
                Some(Some(unchanged(&streaming.stored, streaming.body(reader))))
            }
        }
    }
}

/// A stored response as the origin sent it, with its age, and without what was for one client.
fn unchanged(stored: &StoredResponse, body: Body) -> Response {
    let mut headers = stored.head.headers();
    let hidden = stored.hidden.as_ref().map_or_else(Headers::new, |hidden| hidden.headers());
    append(&mut headers, &hidden);
    let age_s = reuse::age_s(&stored.meta, wall_secs());
    headers.set(Known::Age, itoa::Buffer::new().format(age_s));
    Response { status: stored.meta.status, headers, body, ..Response::default() }
}
