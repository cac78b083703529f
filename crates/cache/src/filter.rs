//! One worker's life of an entry `cache:`: what stands around the rest of a route's way.
//!
//! Decides for each request whether it is for the cache at all; what is not goes by as it came.
//! What is unsafe goes by too, and what it changes is purged (RFC 9111 4.4). The rest is looked for
//! (`looking`), and if it has to be waited for, fetched once for all (`asking`).

mod asking;
mod given;
mod looking;
mod purging;

use std::rc::Rc;
use std::sync::Arc;

use exchange::{LocalFuture, Middleware, Next, Outcome, Request, WorkerContext};

use crate::Cache;
use crate::key::KeyRules;
use crate::metrics::Metrics;
use crate::plan::{FILTER, Terms};
use crate::rules::{Reason, Status, Way, invalidate, precondition, request};
use crate::serve::Shelf;
use crate::store::Purge;
use asking::Asking;
use purging::PURGE;

/// The filter as one worker runs it.
pub(crate) struct CacheFilter {
    cache: Arc<Cache>,
    pub(crate) terms: Arc<Terms>,
    pub(crate) rules: KeyRules,
    pub(crate) shelf: Rc<Shelf>,
    pub(crate) metrics: Rc<Metrics>,
}

impl CacheFilter {
    pub(crate) fn new(
        cache: Arc<Cache>,
        terms: Arc<Terms>,
        rules: KeyRules,
        worker: &WorkerContext,
    ) -> CacheFilter {
        let metrics = Metrics::of(worker, cache.name());
        // One for all filters of the worker on that cache; another of the same name that comes
        // after it has one of its own.
        // So has one whose memory has changed.
        let memory_bytes = cache.store().memory_bytes();
        let shelf =
            worker.local.get((Arc::as_ptr(&cache), memory_bytes), || Shelf::new(memory_bytes));
        CacheFilter { cache, terms, rules, shelf, metrics }
    }

    pub(crate) fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    pub(crate) fn terms(&self) -> &Arc<Terms> {
        &self.terms
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Lets a request by, and its answer.
    async fn pass(&self, mut request: Request, next: Next, reason: Reason) -> Outcome {
        self.metrics.passed(reason);
        request.notes.cache = Some("pass");
        precondition::restore_tags(&mut request.headers);
        let outcome = next.run(request).await;
        self.went_by(outcome, &Status::passed(reason))
    }

    /// Lets a request by that changes something, and purges what its answer says is not so any
    /// more.
    async fn change(&self, mut request: Request, next: Next) -> Outcome {
        self.metrics.passed(Reason::Method);
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
        self.went_by(outcome, &Status::passed(Reason::Method))
    }

    fn invalidate(&self, origin: &[u8], found: invalidate::Targets) {
        let store = self.cache.store();
        for target in &found.targets {
            if let Some(url) = self.rules.of_url(&[origin, target].concat()) {
                store.purge(&Purge::Url(&url), false);
            }
        }
        if !found.groups.is_empty() {
            store.purge(&Purge::Tags(&found.groups), false);
        }
    }
}

impl Middleware for CacheFilter {
    fn name(&self) -> &'static str {
        FILTER.name
    }

    fn answer(&self, request: &mut Request) -> Option<Outcome> {
        let outcome = self.hit(request)?;
        request.notes.cache = Some("hit");
        Some(outcome)
    }

    fn call(self: Rc<Self>, request: Request, next: Next) -> LocalFuture<'static, Outcome> {
        Box::pin(async move {
            let content = !request.body.is_empty();
            let policy = &self.terms.policy;
            let (method, fields) = (&request.method, &request.headers);
            match request::consider(method, fields, request.upgrade, content, policy) {
                Way::Pass(reason) => self.pass(request, next, reason).await,
                Way::Invalidate if method.as_bytes() == PURGE => self.purge(&request),
                Way::Invalidate => self.change(request, next).await,
                Way::Lookup(asked) => Asking::new(self, request, asked, next).answer().await,
            }
        })
    }
}
