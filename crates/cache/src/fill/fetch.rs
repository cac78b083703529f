//! One request to the origin for the cache, independent of the client that caused it.
//!
//! Promises that every follower gets a result, that a purge during the fetch keeps its response out
//! of the store, and that errors leave the stored response as it is.

use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use bytes::Bytes;
use message::{
    Fault, FaultKind, HandlerResult, Headers, Inform, Notes, Request, Response, SharedBodyReader,
    Side, shared_body,
};
use net::clock::wall_secs;
use plugin::{KeyOwner, Next};
use tokio::sync::oneshot;
use wire::Method;

use super::budget::BudgetShare;
use super::copy_body::{CopyResult, copy_body, shared_body_bytes_max};
use super::decode::content_coding;
use super::origin_request::origin_request;
use super::{StreamingResponse, build_object};
use crate::limits::{HEAD_BYTES_MAX, REST_S};
use crate::rules::validate::ValidationResponse;
use crate::rules::{
    self, RequestDirectives, StorableResponse, Times, UncachedReason, Vary, merge, reuse, validate,
    vary,
};
use crate::single_flight::{FetchResult, Follower, Leader};
use crate::transcode;
use crate::worker_filter::CacheFilter;
use crate::{Cache, Content, Key, Object, ObjectKind};

/// Forwards interim responses (103 Early Hints) to the client that caused a fetch, while that
/// client waits for it.
pub(crate) struct InterimForwarder(pub(crate) Weak<Rc<dyn Inform>>);

impl Inform for InterimForwarder {
    fn inform(&self, status: u16, headers: &Headers) {
        if let Some(client) = self.0.upgrade() {
            client.inform(status, headers);
        }
    }
}

/// The result of a fetch, for the client that caused it.
pub(crate) enum FetchOutcome {
    /// The response is for this client alone. The request of the client may differ from the one
    /// that was sent.
    Unshared(Box<Response>, UncachedReason),
    /// A response that other requests share, and the headers of it for this client alone.
    Streaming(Arc<StreamingResponse>, SharedBodyReader, Headers),
    /// The stored response is valid, and the headers of the 304 for this client alone.
    Revalidated(Arc<Object>, Headers),
    Failed(Fault),
}

/// A fetch before it runs.
pub(crate) struct Fetch {
    pub(crate) filter: Rc<CacheFilter>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) leader: Leader,
    /// The key without Vary.
    pub(crate) primary: Key,
    /// The key that the fetch is for, as far as it is known.
    pub(crate) key: Key,
    /// A copy of the client's request.
    pub(crate) request: Request,
    pub(crate) directives: RequestDirectives,
    /// The stored response to revalidate.
    pub(crate) stale: Option<Arc<Object>>,
    pub(crate) next: Next,
    /// The server that is requested before the origin.
    pub(crate) owner: Option<Box<dyn KeyOwner>>,
    /// What Cache-Status says about the response.
    pub(crate) detail: Option<&'static str>,
    /// To the client that caused the fetch, if it waits.
    pub(crate) report: Option<oneshot::Sender<(FetchOutcome, Notes)>>,
    /// Keeps a background fetch running without other followers.
    pub(crate) own: Option<Follower>,
}

impl Fetch {
    /// Runs the fetch to its end.
    pub(crate) async fn run(mut self) {
        if let Some(owner) = self.owner.take()
            && let Some(owned) = self.ask_owner(owner).await
        {
            self.detail = Some(owned.detail());
            return self.received(owned.response, owned.times, owned.notes).await;
        }
        let stored = self.stored();
        let mut validators = stored.as_ref();
        loop {
            let config = &self.filter.config().fetch;
            let mut request = origin_request(&self.request, &self.key, validators, config);
            vary::normalise(&mut request.headers, &self.filter.config().policy);
            request.informer = self.request.informer.clone();
            let requested_secs = wall_secs();
            let Some((outcome, notes)) = self.run_while_wanted(request).await else { return };
            let times = Times { requested_secs, received_secs: wall_secs() };
            let response = match outcome {
                Ok(response) => response,
                Err(fault) => return self.failed(fault, notes),
            };
            let answer = stored
                .as_ref()
                .map(|stored| validate::classify(stored, response.status, &response.headers));
            match answer {
                Some(ValidationResponse::Revalidated) => {
                    return self.revalidated(&response, times, notes);
                }
                Some(ValidationResponse::OtherRepresentation) if validators.take().is_some() => {}
                Some(ValidationResponse::ServerError) if self.has_stale_fallback() => {
                    let detail = format!("the origin responded with {}", response.status);
                    let fault =
                        Fault::new(FaultKind::ResponseStatus, detail).with_status(response.status);
                    return self.failed(fault, notes);
                }
                _ => return self.received(response, times, notes).await,
            }
        }
    }

    /// The headers of the stored response, validators included.
    fn stored(&self) -> Option<Headers> {
        let stored = self.stale.as_ref()?.response()?;
        Some(stored.head.headers())
    }

    /// Sends the request; gives up a bounded time after the last follower has left.
    async fn run_while_wanted(&self, mut request: Request) -> Option<(HandlerResult, Notes)> {
        let mut run = pin!(async {
            let outcome = self.next.clone().run(&mut request).await;
            (outcome, std::mem::take(&mut request.notes))
        });
        loop {
            tokio::select! {
                biased;
                done = &mut run => return Some(done),
                () = self.leader.abandoned() => {}
            }
            let outlive = self.filter.config().fetch.outlive;
            match net::timer::within(outlive, &mut run).await {
                Some(done) => return Some(done),
                None if self.leader.followers() == 0 => return None,
                None => {}
            }
        }
    }

    /// True if a stored response may be served when the origin fails.
    fn has_stale_fallback(&self) -> bool {
        let stored = self.stale.as_ref().and_then(|stale| stale.response());
        stored.is_some_and(|stored| {
            reuse::may_serve_on_error(&stored.meta, &self.directives, wall_secs())
        })
    }

    fn report(&mut self, outcome: FetchOutcome, notes: Notes) {
        if let Some(report) = self.report.take() {
            // A client that has left needs no result.
            let _ = report.send((outcome, notes));
        }
    }

    /// Gives all followers the fault of this fetch, or lets them serve the stale response.
    fn failed(mut self, fault: Fault, notes: Notes) {
        // A request that was rejected for this client may be allowed for another.
        if fault.side() == Side::Client {
            self.leader.publish_last(FetchResult::Unshared);
            return self.report(FetchOutcome::Failed(fault), notes);
        }
        if let Some(stale) = &self.stale {
            stale.state.back_off_until(wall_secs() + REST_S);
            self.filter.metrics().revalidation_failed.inc();
        }
        self.leader.publish_last(FetchResult::Failed(fault.clone()));
        self.report(FetchOutcome::Failed(fault), notes);
    }

    pub(super) fn evaluate(
        &self,
        status: u16,
        headers: &Headers,
        times: Times,
    ) -> Result<StorableResponse, UncachedReason> {
        let fetch = rules::FetchContext {
            method: &Method::Get,
            request: &self.request.headers,
            directives: &self.directives,
            origin: self.primary.origin(),
            times,
        };
        rules::store::evaluate(&fetch, status, headers, &self.filter.config().policy)
    }

    /// Updates the stored response with the headers of a 304 (RFC 9111 4.3.4).
    fn revalidated(mut self, response: &Response, times: Times, notes: Notes) {
        let Some(stale) = self.stale.clone() else { return };
        let Some(stored) = stale.response() else { return };
        let hidden = stored.hidden.as_ref().map(|hidden| hidden.headers()).unwrap_or_default();
        let merged = merge::merged([&stored.head.headers(), &hidden], &response.headers);
        let judged = self.evaluate(stored.meta.status, &merged, times).and_then(|storing| {
            let key = self
                .revalidated_key(&stale, storing.vary.as_ref())
                .ok_or(UncachedReason::Failed)?;
            Ok((storing, key))
        });
        let config = self.filter.config().clone();
        self.filter.metrics().still_valid.inc();
        match judged {
            Ok((storing, key)) => {
                let make = || {
                    let content = (stored.content.clone(), Some(stored.content.len()));
                    let (coding, version) = (stored.coding, stored.version);
                    let new = build_object::stored_response(
                        &storing,
                        content,
                        coding,
                        version,
                        &config.codings,
                    );
                    build_object::new_object(key.clone(), ObjectKind::Response(new))
                };
                let object = self.insert(make()).unwrap_or_else(|| Arc::new(make()));
                transcode::refresh(self.cache.store(), &object);
                if storing.share {
                    self.leader.publish_last(FetchResult::Revalidated(object.clone()));
                } else {
                    self.leader.publish_last(FetchResult::Unshared);
                }
                self.report(FetchOutcome::Revalidated(object, storing.private), notes);
            }
            Err(reason) => {
                // The origin no longer allows storing it: this client is the last to get it. A
                // response that only Authorization keeps from being stored was shared before, and
                // stays stored.
                if reason != UncachedReason::Authorization {
                    self.cache.store().remove(stale.key.hash(), stale.key.text());
                }
                self.mark_uncacheable(reason, 200);
                let mut last = Response::new(stored.meta.status);
                last.headers = merged;
                last.body = stored.content.body();
                self.leader.publish_last(FetchResult::Unshared);
                self.report(FetchOutcome::Unshared(Box::new(last), reason), notes);
            }
        }
    }

    /// The key of the revalidated response: a 304 may add Vary (RFC 9111 4.3.4). A response that
    /// was stored without Vary under the key of a variant stays there (see `forgotten_vary`).
    fn revalidated_key(&self, stale: &Object, vary: Option<&Vary>) -> Option<Key> {
        let Some(vary) = vary else { return Some(stale.key.clone()) };
        let key = self.filter.variant_key(&self.primary, &self.request, vary)?;
        if key != stale.key {
            self.store_vary(vary);
        }
        Some(key)
    }

    /// Stores the Vary of a URL, unless it is known.
    fn store_vary(&self, vary: &Vary) {
        let known = self.cache.store().peek(self.primary.hash(), self.primary.text());
        let same = |known: &Arc<Object>| matches!(&known.kind, ObjectKind::Varies(v) if v == vary);
        if !known.as_ref().is_some_and(same) {
            self.insert(build_object::new_object(
                self.primary.clone(),
                ObjectKind::Varies(vary.clone()),
            ));
        }
    }

    /// Handles a response other than a 304 or a server error with a stale substitute.
    async fn received(mut self, response: Response, times: Times, notes: Notes) {
        self.cache.drop_other_parts(&self.key, response.status, &response.headers);
        if self.stale.is_some() {
            self.filter.metrics().replaced.inc();
        }
        let judged = self.evaluate(response.status, &response.headers, times);
        let length = response.body.length();
        let too_long = length.is_some_and(|length| length > self.bytes_max());
        let refused = match judged {
            Err(reason) => reason,
            Ok(_) if too_long => UncachedReason::ContentLength,
            Ok(storing) if head_bytes(&storing.head) > HEAD_BYTES_MAX => UncachedReason::HeadLength,
            Ok(mut storing) => {
                storing.vary = storing.vary.or_else(|| self.forgotten_vary());
                match self.reserve(&storing, length) {
                    Some((key, share)) => {
                        return self.stream(response, storing, (key, share, length), notes).await;
                    }
                    None => UncachedReason::Failed,
                }
            }
        };
        self.mark_uncacheable(refused, response.status);
        self.leader.publish_last(FetchResult::Unshared);
        self.report(FetchOutcome::Unshared(Box::new(response), refused), notes);
    }

    /// The Vary of a fresh variant, for a response without one: some origins send Vary only at
    /// times (RFC 9111 4.1).
    fn forgotten_vary(&self) -> Option<Vary> {
        let store = self.cache.store();
        let known = store.peek(self.primary.hash(), self.primary.text())?;
        let ObjectKind::Varies(vary) = &known.kind else { return None };
        let now_secs = wall_secs();
        let counts = |object: &Arc<Object>| {
            let of_this = object.key.text().starts_with(self.primary.text());
            object.response().is_some_and(|stored| {
                let fresh = reuse::left_s(&stored.meta, now_secs) > 0;
                of_this
                    && fresh
                    && vary::of_response(&stored.head.headers()) == Ok(Some(vary.clone()))
            })
        };
        store.of_url(self.primary.url()).iter().any(counts).then(|| vary.clone())
    }

    /// The longest content that is stored.
    fn bytes_max(&self) -> u64 {
        self.filter.config().body_bytes_max.min(self.cache.store().object_bytes_max())
    }

    /// Reserves the key and the memory of a response; `None` if another fetch stores the same, or
    /// no memory is left.
    fn reserve(
        &mut self,
        storing: &StorableResponse,
        length: Option<u64>,
    ) -> Option<(Key, BudgetShare)> {
        let search_keys =
            storing.search.as_ref().and_then(|rule| self.filter.search_keys(&self.request, rule));
        if let Some((place, canonical)) = search_keys {
            let rule = storing.search.clone()?;
            self.insert(build_object::new_object(place, ObjectKind::NoVarySearch(rule)));
            self.primary = canonical;
        }
        let key = match &storing.vary {
            Some(vary) => self.filter.variant_key(&self.primary, &self.request, vary)?,
            None => self.primary.clone(),
        };
        let share = self.cache.fill_budget().share(length.unwrap_or(0))?;
        if let Some(vary) = &storing.vary {
            self.store_vary(vary);
        }
        let is_first = !storing.share || self.leader.rekey(&key);
        is_first.then_some((key, share))
    }

    /// Lets followers read the response while it arrives, and stores it when it is complete.
    async fn stream(
        mut self,
        mut response: Response,
        mut storing: StorableResponse,
        (key, share, length): (Key, BudgetShare, Option<u64>),
        notes: Notes,
    ) {
        let config = self.filter.config().clone();
        let (writer, content) = shared_body(shared_body_bytes_max(self.bytes_max()), length);
        let reader = content.reader();
        let (coding, none) = (content_coding(&storing.head), Content::Memory(Bytes::new()));
        let version = self.cache.store().next_version();
        let streaming = Arc::new(StreamingResponse {
            key,
            vary: storing.vary.clone(),
            stored: build_object::stored_response(
                &storing,
                (none, length),
                coding,
                version,
                &config.codings,
            ),
            length,
            content: content.clone(),
            share,
            server: notes.upstream.as_deref().map(Box::from),
            detail: self.detail,
            damaged: Default::default(),
        });
        match storing.share {
            true => self.leader.publish(FetchResult::Streaming(streaming.clone())),
            false => self.leader.publish_last(FetchResult::Unshared),
        }
        // The reader starts with the copy: it counts from the first piece.
        let private = std::mem::take(&mut storing.private);
        self.report(FetchOutcome::Streaming(streaming.clone(), reader, private), notes);
        let mut body = std::mem::take(&mut response.body);
        let bounds = (&*config, self.bytes_max());
        let copied = copy_body(&mut body, writer, &streaming, &mut self.leader, bounds).await;
        drop(body);
        match copied {
            CopyResult::Complete => self.store(&streaming, &storing).await,
            CopyResult::TooLong => {
                self.mark_uncacheable(UncachedReason::ContentLength, storing.meta.status)
            }
            CopyResult::Failed => self.filter.metrics().not_stored(UncachedReason::Failed),
        }
    }

    async fn store(&mut self, streaming: &StreamingResponse, storing: &StorableResponse) {
        let Some(pieces) = streaming.content.complete_frames() else { return };
        let Ok(content) = build_object::join_pieces(pieces).await else { return };
        if streaming.is_damaged() {
            return;
        }
        let (coding, version) = (streaming.stored.coding, streaming.stored.version);
        let length = content.len();
        let codings = &self.filter.config().codings;
        let content = (content, Some(length));
        let stored = build_object::stored_response(storing, content, coding, version, codings);
        let stored = self
            .insert(build_object::new_object(streaming.key.clone(), ObjectKind::Response(stored)));
        // A lookup may have found it damaged before it was stored.
        if let Some(object) = stored.filter(|_| streaming.is_damaged()) {
            self.cache.remove_damaged(&object);
        }
    }

    /// Stores an object, unless it was purged since the fetch began.
    fn insert(&self, object: Object) -> Option<Arc<Object>> {
        let most = self.filter.config().policy.variants_max;
        // By No-Vary-Search the object may have another URL than the request, whose purge counts
        // too.
        let (begun, fetched_url) = (self.leader.begun(), self.key.url());
        if object.key.url() != fetched_url
            && !self.cache.store().is_current(fetched_url, &[], begun)
        {
            return None;
        }
        self.cache.store().insert(object, begun, most).ok()
    }

    /// Remembers that the response could not be stored, so that requests do not wait for each
    /// other. Reasons in this one request or in a failing origin are not remembered, and an error
    /// that may be about this one client (400, 401, 403, 429) does not replace what is stored.
    fn mark_uncacheable(&self, reason: UncachedReason, status: u16) {
        let hit_for_miss_s = u64::from(self.filter.config().hit_for_miss_s);
        let passing = matches!(
            reason,
            UncachedReason::RequestNoStore
                | UncachedReason::Authorization
                | UncachedReason::Failed
                | UncachedReason::Partial
        );
        let spares_stored = (400..500).contains(&status) && !matches!(status, 404 | 410);
        let keeps = spares_stored && self.stale.is_some();
        if hit_for_miss_s == 0 || passing || keeps || status >= 500 || status == 304 {
            return;
        }
        let until_secs = wall_secs() + hit_for_miss_s;
        self.insert(build_object::new_object(
            self.key.clone(),
            ObjectKind::Uncacheable { until_secs, why: reason },
        ));
    }
}

pub(crate) fn head_bytes(headers: &Headers) -> usize {
    headers.iter().map(|field| field.name.len() + field.value.len() + 4).sum()
}
