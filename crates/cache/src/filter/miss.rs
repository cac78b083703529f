//! One request that the store has no ready response for.
//!
//! It joins the fetch in flight for its key, or starts one. Promises a response whatever becomes of
//! other requests: waiting has a deadline, the lookup is repeated a bounded number of times, and
//! then the request is forwarded by itself.

use std::rc::Rc;
use std::sync::Arc;

use message::{Fault, FaultKind, HandlerResult, Headers, Inform, Notes, Request, Side};
use net::clock::{self, Moment, wall_secs};
use plugin::{BackgroundPermit, KeyOwner, Next};
use tokio::sync::oneshot;
use wire::{Known, Method};

use crate::fill::{Fetch, FetchOutcome, InterimForwarder, StreamingResponse, accepts, append};
use crate::limits::JOIN_ATTEMPTS_MAX;
use crate::rules::{
    CacheOutcome, Forward, RequestDirectives, Reuse, Status, UncachedReason, reuse,
};
use crate::serve::PARTIAL_REQUEST_FIELDS;
use crate::single_flight::{FetchResult, Follower, Join, Leader};
use crate::worker_filter::{CacheFilter, Lookup, LookupState, StoredLookup};
use crate::{Key, Object};

mod asked;
mod parts;

/// A request on its way from a lookup without a ready response to its response.
pub(super) struct MissHandler<'a> {
    filter: Rc<CacheFilter>,
    request: &'a mut Request,
    directives: RequestDirectives,
    next: Next,
    /// When waiting for other requests' fetches ends.
    deadline: Moment,
    /// A stored response was damaged: the owner of its key may have the same.
    avoids_owner: bool,
}

/// The decision after a lookup.
enum MissDecision {
    Done(HandlerResult),
    /// A fetch; with it the stored response that may be revalidated.
    Fetch(Forward, Option<Arc<Object>>),
    /// A fetch that no other request shares.
    Uncacheable,
    /// The stored response cannot be decoded for this client.
    Undecodable(UncachedReason),
}

/// The result of waiting for another request's fetch.
enum FollowResult {
    Done(HandlerResult),
    /// The fetch was for other requests or ended without a result: something may be stored now.
    Retry,
    /// The response was for one client alone.
    Unshared,
    TimedOut,
}

impl<'a> MissHandler<'a> {
    pub(super) fn new(
        filter: Rc<CacheFilter>,
        request: &'a mut Request,
        directives: RequestDirectives,
        next: Next,
    ) -> MissHandler<'a> {
        let deadline = clock::now().after(filter.config().fetch.wait);
        MissHandler { filter, request, directives, next, deadline, avoids_owner: false }
    }

    pub(super) async fn run(mut self, lookup: Lookup) -> HandlerResult {
        let mut why = Forward::Miss;
        let mut next_lookup = Some(lookup);
        for _ in 0..JOIN_ATTEMPTS_MAX {
            let Some(lookup) = next_lookup.take().or_else(|| self.lookup_again()) else { break };
            if let Some(outcome) = self.serve_stored_parts(&lookup) {
                return outcome;
            }
            if self.load_without_origin(&lookup).await {
                continue;
            }
            let stale;
            (why, stale) = match self.decide(&lookup).await {
                MissDecision::Done(outcome) => return outcome,
                MissDecision::Uncacheable => return self.fetch_unshared(lookup).await,
                MissDecision::Undecodable(reason) => return self.pass(reason).await,
                MissDecision::Fetch(why, stale) => (why, stale),
            };
            if self.directives.no_store {
                return self.pass(UncachedReason::RequestNoStore).await;
            }
            if self.request.headers.contains(Known::Authorization) {
                return self.fetch_unshared(lookup).await;
            }
            if stale.is_none()
                && let Some(part) = self.stale_part_fetch(&lookup)
            {
                self.filter.metrics().missed(Forward::Stale);
                return self.fetch_part(part, Forward::Stale).await;
            }
            let owner = self.owner(&lookup.primary);
            match self.join(&lookup.key, owner.is_some()) {
                Join::Leader(leader) => match self.newer_lookup(&lookup, stale.as_ref()) {
                    Some(newer) => {
                        drop(leader);
                        next_lookup = Some(newer);
                    }
                    None if stale.is_none()
                        && self.filter.load_from_disk(self.request, &lookup.key).await =>
                    {
                        // Followers repeat the lookup too.
                        drop(leader);
                    }
                    None => return self.fetch_as_leader(leader, lookup, (why, stale, owner)).await,
                },
                Join::Full => break,
                Join::Follower(follower) => {
                    match self.follow(follower, &lookup, why, stale.as_ref()).await {
                        FollowResult::Done(outcome) => return outcome,
                        FollowResult::Retry => {}
                        FollowResult::Unshared => {
                            // Each request revalidates for itself (RFC 9111 4).
                            let stored = |lookup: &Lookup| lookup.state.response().is_some();
                            match self.lookup_again().filter(stored) {
                                Some(lookup) => return self.fetch_unshared(lookup).await,
                                None => break,
                            }
                        }
                        FollowResult::TimedOut => {
                            self.filter.metrics().missed(why);
                            let status = Status { detail: Some("waited"), ..forwarded(why) };
                            return self.bypass(&status).await;
                        }
                    }
                }
            }
        }
        self.filter.metrics().missed(why);
        self.bypass(&forwarded(why)).await
    }

    /// Loads a response from disk for a request that must not be forwarded; true if there was one.
    async fn load_without_origin(&self, lookup: &Lookup) -> bool {
        self.directives.only_if_cached
            && matches!(lookup.state, LookupState::Missing(_))
            && self.filter.load_from_disk(self.request, &lookup.key).await
    }

    /// Looks the request up once more; its key was valid the first time.
    fn lookup_again(&self) -> Option<Lookup> {
        match self.filter.lookup(self.request, &self.directives).ok()? {
            StoredLookup::Fresh(fresh) => Some(fresh.into_lookup()),
            StoredLookup::Other(lookup) => Some(lookup),
        }
    }

    /// Decides what a lookup leads to; serves what is stored, if that is allowed.
    async fn decide(&mut self, lookup: &Lookup) -> MissDecision {
        let (object, reuse) = match &lookup.state {
            LookupState::Response(object, reuse) => (object, *reuse),
            _ if self.directives.only_if_cached => return MissDecision::Done(Err(not_cached())),
            LookupState::Uncacheable(_) => return MissDecision::Uncacheable,
            LookupState::Missing(why) => return MissDecision::Fetch(*why, None),
        };
        let (metrics, now_secs) = (self.filter.metrics(), wall_secs());
        let coding = object.response().and_then(|stored| stored.coding);
        match reuse {
            Reuse::OnlyIfCached => MissDecision::Done(Err(not_cached())),
            Reuse::Use { .. }
                if object.state.is_too_long_decoded() && !accepts(self.request, coding) =>
            {
                MissDecision::Undecodable(UncachedReason::DecodedSize)
            }
            Reuse::Use { refresh, left_s, .. } => {
                let hit = CacheOutcome::Hit;
                let outcome = self.serve_stored(object, hit).await;
                if object.state.is_damaged() {
                    self.avoids_owner = true;
                    return MissDecision::Fetch(Forward::UriMiss, None);
                }
                if outcome.as_ref().is_err_and(|fault| fault.kind == FaultKind::DecodingFull) {
                    return MissDecision::Undecodable(UncachedReason::DecodingFull);
                }
                match refresh {
                    true => metrics.stale_revalidating.inc(),
                    false => metrics.hits.inc(),
                }
                self.note(if left_s > 0 { "hit" } else { "stale" }, Notes::default());
                if refresh && !object.state.is_backing_off(now_secs) {
                    self.refresh_in_background(lookup, object);
                }
                MissDecision::Done(outcome)
            }
            Reuse::Validate { if_error: true, .. } if object.state.is_backing_off(now_secs) => {
                metrics.stale_error.inc();
                self.note("stale", Notes::default());
                let hit = CacheOutcome::Hit;
                MissDecision::Done(self.serve_stored(object, hit).await)
            }
            Reuse::Validate { why, .. } => MissDecision::Fetch(why, Some(object.clone())),
        }
    }

    async fn serve_stored(&self, object: &Arc<Object>, outcome: CacheOutcome) -> HandlerResult {
        self.filter.serve_stored(object, outcome, self.request, &self.directives).await
    }

    /// What another fetch has stored, or a purge removed, between the lookup and becoming the
    /// leader; `None` if nothing has changed.
    fn newer_lookup(&self, lookup: &Lookup, stale: Option<&Arc<Object>>) -> Option<Lookup> {
        let removed = stale.is_some_and(|stale| stale.state.is_removed());
        if !removed && self.filter.cache().store().insertions() == lookup.insertions {
            return None;
        }
        let newer = self.lookup_again()?;
        let changed = match (&newer.state, stale) {
            (LookupState::Response(object, _), Some(stale)) => !Arc::ptr_eq(object, stale),
            (LookupState::Response(..) | LookupState::Uncacheable(_), _) => true,
            (LookupState::Missing(_), _) => removed || newer.key != lookup.key,
        };
        changed.then_some(newer)
    }

    /// The server that is requested for a key before the origin, if there is one.
    fn owner(&self, key: &Key) -> Option<Box<dyn KeyOwner>> {
        self.filter.owners().filter(|_| !self.avoids_owner)?.owner(key)
    }

    fn join(&self, key: &Key, asks_owner: bool) -> Join {
        let store = self.filter.cache().store();
        let begun = (store.purge_epoch(), asks_owner);
        self.filter.cache().single_flight().join(key, begun, |begun, result| {
            let tags = match result {
                Some(FetchResult::Streaming(streaming)) => &*streaming.stored.tags,
                _ => &[],
            };
            store.is_current(key.url(), tags, begun)
        })
    }

    /// Notes for the access log how the cache handled the request.
    fn note(&mut self, word: &'static str, notes: Notes) {
        self.request.notes = Notes { cache: Some(word), ..notes };
    }

    /// Forwards the request because of something in it or in the stored response.
    async fn pass(self, reason: UncachedReason) -> HandlerResult {
        self.filter.metrics().count_forwarded(reason);
        self.bypass(&Status::passed(reason)).await
    }

    /// Forwards the request unchanged.
    async fn bypass(self, status: &Status<'_>) -> HandlerResult {
        self.request.notes.cache = Some("pass");
        let outcome = self.next.run(self.request).await;
        self.filter.pass_through(outcome, status)
    }

    fn fetch(
        &self,
        leader: Leader,
        keys: (Key, Key),
        stale: Option<Arc<Object>>,
        owner: Option<Box<dyn KeyOwner>>,
    ) -> Fetch {
        let (primary, key) = keys;
        Fetch {
            filter: self.filter.clone(),
            cache: self.filter.cache().clone(),
            leader,
            primary,
            key,
            request: self.request.for_background(),
            directives: self.directives,
            stale,
            next: self.next.clone(),
            owner,
            detail: None,
            report: None,
            own: None,
        }
    }

    /// Revalidates a response that was served stale, unless another request does.
    fn refresh_in_background(&self, lookup: &Lookup, object: &Arc<Object>) {
        let owner = self.owner(&lookup.primary);
        let Join::Leader(leader) = self.join(&lookup.key, owner.is_some()) else { return };
        if self.newer_lookup(lookup, Some(object)).is_some() {
            return;
        }
        let Some(permit) = BackgroundPermit::take() else { return };
        let own = leader.follower();
        let keys = (lookup.primary.clone(), lookup.key.clone());
        let mut fetch = self.fetch(leader, keys, Some(object.clone()), owner);
        fetch.own = Some(own);
        permit.run(fetch.run()).detach();
    }

    /// Fetches for this request alone: the last response could not be shared. The response is
    /// stored if it may be.
    async fn fetch_unshared(self, lookup: Lookup) -> HandlerResult {
        let stale = lookup.state.response().cloned();
        let why = if stale.is_some() { Forward::Stale } else { Forward::Miss };
        if self.wants_partial(stale.is_some()) {
            self.filter.metrics().missed(why);
            let too_long =
                matches!(lookup.state, LookupState::Uncacheable(UncachedReason::ContentLength));
            return match self.part_fetch(&lookup).filter(|_| too_long) {
                Some(part) => self.fetch_part(part, why).await,
                None => self.bypass(&forwarded(why)).await,
            };
        }
        let cache = self.filter.cache();
        let leader = cache.single_flight().unshared(cache.store().purge_epoch());
        self.fetch_as_leader(leader, lookup, (why, stale, None)).await
    }

    /// True if the origin should get the request as it is: for a part, with conditions, or a HEAD
    /// for something that is not `stored`.
    fn wants_partial(&self, stored: bool) -> bool {
        let head = !stored && self.request.method == Method::Head;
        head || self.request.headers.contains_any(&PARTIAL_REQUEST_FIELDS)
    }

    /// Fetches for this request and its followers.
    async fn fetch_as_leader(
        mut self,
        leader: Leader,
        lookup: Lookup,
        (why, stale, owner): (Forward, Option<Arc<Object>>, Option<Box<dyn KeyOwner>>),
    ) -> HandlerResult {
        let metrics = self.filter.metrics();
        metrics.missed(why);
        let Some(permit) = BackgroundPermit::take() else {
            drop(leader);
            let status = Status { detail: Some("too-many-fetches"), ..forwarded(why) };
            return self.bypass(&status).await;
        };
        let part = self.part_fetch(&lookup);
        let (report, outcome) = oneshot::channel();
        // The fetch runs on as long as it has a follower.
        let own = leader.follower();
        let mut fetch = self.fetch(leader, (lookup.primary, lookup.key), stale.clone(), owner);
        fetch.report = Some(report);
        let informer = self.request.informer.clone().map(Rc::new);
        let interim = |client| Rc::new(InterimForwarder(Rc::downgrade(client))) as Rc<dyn Inform>;
        fetch.request.informer = informer.as_ref().map(interim);
        permit.run(fetch.run()).detach();
        let outcome = outcome.await;
        drop((own, informer));
        let Ok((outcome, notes)) = outcome else {
            return Err(Fault::internal("a cache fetch ended without a result"));
        };
        let word = match &outcome {
            FetchOutcome::Revalidated(..) => "revalidated",
            FetchOutcome::Unshared(..) => "pass",
            FetchOutcome::Streaming(..) | FetchOutcome::Failed(_) => "miss",
        };
        self.note(word, notes);
        let filter = self.filter.clone();
        match outcome {
            FetchOutcome::Streaming(streaming, reader, private) => {
                let cache_outcome = forwarded_stored(why, None, false);
                filter.serve_streaming(&streaming, reader, &private, cache_outcome, self.request)
            }
            FetchOutcome::Revalidated(object, private) => {
                let cache_outcome = forwarded_stored(why, Some(304), false);
                let mut outcome = self.serve_stored(&object, cache_outcome).await;
                if let Ok(response) = &mut outcome {
                    append(&mut response.headers, &private);
                }
                outcome
            }
            FetchOutcome::Failed(fault) => self.failed(fault, why, stale.as_ref(), false).await,
            FetchOutcome::Unshared(response, reason) => {
                self.serve_unshared(*response, (why, reason), part).await
            }
        }
    }

    /// Serves the stale response where the origin failed, if that is allowed, or else the fault.
    async fn failed(
        &mut self,
        fault: Fault,
        why: Forward,
        stale: Option<&Arc<Object>>,
        collapsed: bool,
    ) -> HandlerResult {
        let filter = self.filter.clone();
        let may = |stale: &&Arc<Object>| {
            let stored = stale.response().filter(|_| fault.side() != Side::Client);
            stored
                .is_some_and(|s| reuse::may_serve_on_error(&s.meta, &self.directives, wall_secs()))
        };
        let cache_outcome =
            CacheOutcome::Forwarded { why, status: Some(fault.status), stored: false, collapsed };
        match stale.filter(may) {
            Some(stale) => {
                filter.metrics().stale_error.inc();
                // A leader has noted its own request to the origin.
                if collapsed {
                    self.note("stale", Notes::default());
                }
                self.serve_stored(stale, cache_outcome).await
            }
            None => Err(fault),
        }
    }

    /// Waits for the fetch of another request.
    async fn follow(
        &mut self,
        mut follower: Follower,
        lookup: &Lookup,
        why: Forward,
        stale: Option<&Arc<Object>>,
    ) -> FollowResult {
        let filter = self.filter.clone();
        let left = self.deadline.since(clock::now());
        let Some(result) = net::timer::within(left, follower.result()).await else {
            return FollowResult::TimedOut;
        };
        self.note("coalesced", Notes::default());
        let outcome = match result {
            None => return FollowResult::Retry,
            Some(FetchResult::Unshared) => return FollowResult::Unshared,
            Some(FetchResult::Failed(fault)) => self.failed(fault, why, stale, true).await,
            Some(FetchResult::Revalidated(object))
                if self.is_purged_since(&follower, &object.key, object.response()) =>
            {
                return FollowResult::Retry;
            }
            Some(FetchResult::Revalidated(object)) if object.key == lookup.key => {
                self.serve_stored(&object, forwarded_stored(why, Some(304), true)).await
            }
            Some(FetchResult::Revalidated(_)) => return FollowResult::Retry,
            Some(FetchResult::Streaming(streaming)) => {
                if self.is_purged_since(&follower, &streaming.key, Some(&streaming.stored))
                    || !self.is_requested_variant(&streaming, lookup)
                {
                    return FollowResult::Retry;
                }
                let Some(reader) = streaming.new_reader() else { return FollowResult::Unshared };
                let cache_outcome = forwarded_stored(why, None, true);
                filter.serve_streaming(
                    &streaming,
                    reader,
                    &Headers::new(),
                    cache_outcome,
                    self.request,
                )
            }
        };
        filter.metrics().missed(why);
        filter.metrics().coalesced.inc();
        FollowResult::Done(outcome)
    }

    /// True if a response was purged between the beginning of its fetch and when that was joined.
    fn is_purged_since(
        &self,
        follower: &Follower,
        key: &Key,
        stored: Option<&crate::StoredResponse>,
    ) -> bool {
        let tags = stored.map_or(&[][..], |stored| &stored.tags);
        let store = self.filter.cache().store();
        let begun = follower.joined_after_purge();
        begun.is_some_and(|begun| !store.is_current(key.url(), tags, begun))
    }

    /// True if the response is the variant that this request selects (RFC 9111 4.1).
    fn is_requested_variant(&self, streaming: &StreamingResponse, lookup: &Lookup) -> bool {
        match &streaming.vary {
            None => true,
            Some(vary) => {
                let key = self.filter.variant_key(&lookup.primary, self.request, vary);
                key.is_some_and(|key| key == streaming.key)
            }
        }
    }
}

/// The fault for `only-if-cached` without a usable stored response (RFC 9111 5.2.1.7).
fn not_cached() -> Fault {
    Fault::new(FaultKind::OnlyIfCached, "no stored response can be used")
}

fn forwarded(why: Forward) -> Status<'static> {
    Status::forwarded(why)
}

fn forwarded_stored(why: Forward, status: Option<u16>, collapsed: bool) -> CacheOutcome {
    CacheOutcome::Forwarded { why, status, stored: true, collapsed }
}
