//! Answers requests: from the cache, from the origin, or by waiting for another request's fetch.
//!
//! Each request is classified and looked up once. What the cache does not handle is forwarded
//! unchanged; unsafe requests are forwarded, and the stored responses that they change are purged
//! (RFC 9111 4.4). A miss is passed on, with its lookup, to [`MissHandler`].

mod encoding;
mod miss;
mod purge_method;
mod serve_stored;

use std::rc::Rc;

use message::{HandlerResult, Request};
use plugin::{MaybeFuture, Middleware, Next};

use crate::filter_config::NAME;
use crate::key::KeyError;
use crate::rules::{
    Disposition, Forward, RequestDirectives, Status, UncachedReason, invalidate, precondition,
    request,
};
use crate::serve::{self, StatusHeaders};
use crate::store::Purge;
use crate::worker_filter::{CacheFilter, Lookup, LookupState, StoredLookup};
use encoding::PreferredCoding;
use miss::MissHandler;
use purge_method::PURGE;

/// The result of classifying a request.
pub(crate) enum Classified {
    /// The stored response, without waiting.
    Hit(HandlerResult),
    /// A response after waiting, from the store or from the origin.
    Miss(RequestDirectives, Lookup),
    Pass(UncachedReason),
    NoKey(KeyError),
    Invalidate,
}

impl CacheFilter {
    /// Classifies a request and looks it up.
    pub(crate) fn classify_request(&self, request: &Request) -> Classified {
        let content = !request.body.is_empty();
        let (method, headers, policy) = (&request.method, &request.headers, &self.config().policy);
        let disposition = request::classify(method, headers, request.upgrade, content, policy);
        let directives = match disposition {
            Disposition::Lookup(directives) => directives,
            Disposition::Pass(reason) => return Classified::Pass(reason),
            Disposition::Invalidate => return Classified::Invalidate,
        };
        let fresh = match self.lookup(request, &directives) {
            Ok(StoredLookup::Fresh(fresh)) => fresh,
            Ok(StoredLookup::Other(lookup)) => return Classified::Miss(directives, lookup),
            Err(error) => return Classified::NoKey(error),
        };
        let coding = self.preferred_coding(&fresh.entry, fresh.left_s, request, &directives);
        let entry = match &coding {
            PreferredCoding::Canonical => Some(&fresh.entry),
            PreferredCoding::Other(entry) => Some(entry),
            PreferredCoding::NotReady => None,
        };
        let response = entry.and_then(|entry| Some((entry, entry.object().response()?)));
        let Some((entry, response)) = response else {
            return Classified::Miss(directives, fresh.into_lookup());
        };
        if !entry.object().is_ready() {
            // It is read and compared with its checksum again, like one that is not in memory.
            self.cache().store().evict(entry.object());
            let mut lookup = fresh.into_lookup();
            lookup.state = LookupState::Missing(Forward::Miss);
            return Classified::Miss(directives, lookup);
        }
        self.metrics().hits.inc();
        let status = StatusHeaders::hit(fresh.age_s, fresh.left_s, self.config().x_status);
        let (headers, body) = entry.parts(response, &status, net::clock::wall_secs());
        Classified::Hit(serve::respond(response, headers, body, &status, request))
    }

    /// Responds to a request that is not a hit.
    async fn respond(
        self: Rc<Self>,
        classified: Classified,
        request: &mut Request,
        next: Next,
    ) -> HandlerResult {
        match classified {
            Classified::Hit(outcome) => outcome,
            Classified::Miss(directives, lookup) => {
                MissHandler::new(self, request, directives, next).run(lookup).await
            }
            Classified::Pass(reason) => self.pass(request, next, reason).await,
            Classified::NoKey(error) => self.pass_keyless(request, next, error).await,
            Classified::Invalidate if request.method.as_bytes() == PURGE => {
                self.purge(request).await
            }
            Classified::Invalidate => self.forward_unsafe(request, next).await,
        }
    }

    /// Forwards a request that the cache does not handle.
    async fn pass(
        &self,
        request: &mut Request,
        next: Next,
        reason: UncachedReason,
    ) -> HandlerResult {
        self.metrics().count_forwarded(reason);
        request.notes.cache = Some("pass");
        precondition::restore_tags(&mut request.headers);
        let outcome = next.run(request).await;
        self.pass_through(outcome, &Status::passed(reason))
    }

    /// Forwards a request that has no key.
    async fn pass_keyless(
        &self,
        request: &mut Request,
        next: Next,
        error: KeyError,
    ) -> HandlerResult {
        self.metrics().passed_keyless(error);
        request.notes.cache = Some("pass");
        let outcome = next.run(request).await;
        let status = Status { detail: Some(error.slug()), ..Status::forwarded(Forward::Bypass) };
        self.pass_through(outcome, &status)
    }

    /// Forwards an unsafe request, and purges what its response invalidates.
    async fn forward_unsafe(&self, request: &mut Request, next: Next) -> HandlerResult {
        self.metrics().count_forwarded(UncachedReason::Method);
        request.notes.cache = Some("pass");
        precondition::restore_tags(&mut request.headers);
        let mut origin = format!("{}://", request.scheme.as_str()).into_bytes();
        origin.extend_from_slice(request.authority());
        let target = request.target.raw().to_vec();
        let outcome = next.run(request).await;
        if let Ok(response) = &outcome {
            let (status, headers) = (response.status, &response.headers);
            self.invalidate(&origin, invalidate::targets(&origin, &target, status, headers));
        }
        self.pass_through(outcome, &Status::passed(UncachedReason::Method))
    }

    fn invalidate(&self, origin: &[u8], invalid: invalidate::Targets) {
        let store = self.cache().store();
        for target in &invalid.targets {
            if let Some(url) = self.rules().normalised_url(&[origin, target].concat()) {
                store.purge_locally(&Purge::Url(&url), false);
            }
        }
        if !invalid.groups.is_empty() {
            store.purge_locally(&Purge::Tags(&invalid.groups), false);
        }
    }
}

impl Middleware for CacheFilter {
    fn name(&self) -> &'static str {
        NAME
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn has_entrance(&self) -> bool {
        self.owners().is_some()
    }

    fn enters(&self, request: &mut Request) -> bool {
        self.owners().is_some_and(|owners| self.is_asked(owners, request))
    }

    fn call<'a>(
        self: Rc<Self>,
        request: &'a mut Request,
        next: Next,
    ) -> MaybeFuture<'a, HandlerResult> {
        if let Some(marker) = self.take_marker(request) {
            return MaybeFuture::of(self.respond_to_server(marker, request, next));
        }
        match self.classify_request(request) {
            Classified::Hit(outcome) => {
                request.notes.cache = Some("hit");
                outcome.into()
            }
            classified => MaybeFuture::of(async move {
                // Changes by the cache apply to the rest of the route only: filters before it see
                // the original.
                let mut own = request.take();
                let outcome = self.respond(classified, &mut own, next).await;
                request.notes = own.notes;
                outcome
            }),
        }
    }
}
