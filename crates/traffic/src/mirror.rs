//! `mirror`: copies of requests go to another handler, whose responses are dropped.
//!
//! Promises that a copy never delays or changes the request: it runs as a task of its own, the body
//! is copied while the request's handler reads it, and a copy that would be too large or one too
//! many is dropped and counted. A mirror that hangs holds at most `concurrent` copies.

mod tee;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration as Span;

use message::{Body, FilterScratch, Request};
use plugin::{
    BackgroundPermit, Condition, Filter, FilterKind, FilterPlan, Handler, HandlerSetting,
    MaybeFuture, RouteNames, Stage, Step, WorkerContext,
};
use settings::{Duration, Node, Percent, Reader, Setting, Size};
use telemetry::{CachePadded, Counter, Gauge, families};
use wire::Known;

use crate::share::{Share, Spread};
use tee::TeeBody;

pub(crate) const KIND: FilterKind = FilterKind { name: "mirror", schema: Mirror::schema, read };

/// Longest response of a mirror that is read, so that its connection can be used again.
const RESPONSE_BYTES_MAX: u64 = 1024 * 1024;

/// Sends copies of requests to another handler and drops its responses: to test a new version with
/// real traffic.
///
/// The copy is the request as it is at this position among the filters. It never delays the
/// request: above `concurrent`, or with a longer body, there is no copy. WebSocket and other
/// upgrades are not copied.
#[derive(Clone, Debug, PartialEq, Setting)]
struct Mirror {
    /// The handler of the copies.
    #[setting(example = { "upstream": "catalog_next" })]
    to: HandlerSetting,
    /// How many of the requests are copied.
    #[setting(default = "100%")]
    share: Percent,
    /// Only requests for which this holds.
    when: Option<Condition>,
    /// How many copies may be in flight at once; a request above that is not copied.
    #[setting(default = 64, range = 1..=100000)]
    concurrent: u32,
    /// The longest body that is copied.
    #[setting(default = "64KiB", range = "0B"..="16MiB")]
    body: Size,
    /// How long a copy may take; then it is cancelled.
    #[setting(default = "10s", range = "10ms"..="10m")]
    timeout: Duration,
    /// The name of the mirror, for metrics: mirrors with the same name share `concurrent`. Without
    /// it each route has its own.
    name: Option<String>,
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(Arc::new(MirrorPlan(Mirror::read(node, reader)?)))
}

struct MirrorPlan(Mirror);

impl FilterPlan for MirrorPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        self.build_on(RouteNames::default(), worker)
    }

    fn build_on(&self, route: RouteNames<'_>, worker: &WorkerContext) -> Stage {
        let name = self.0.name.as_deref().unwrap_or(route.shown);
        let (telemetry, index) = (&worker.telemetry, worker.index);
        let results = CopyResult::ALL.map(|result| {
            telemetry.worker_counter(index, &families::MIRRORED, &[name, result.slug()])
        });
        let budget = worker.shared.get(BudgetKey(name.to_owned()), AtomicU32::default);
        Stage::Filter(Rc::new(MirrorFilter {
            share: Share::new(self.0.share),
            points: Spread::new(),
            when: self.0.when.clone(),
            body_bytes_max: self.0.body.bytes(),
            target: Rc::new(MirrorTarget {
                handler: self.0.to.build(worker),
                timeout: self.0.timeout.get(),
                concurrent: self.0.concurrent,
                budget,
                in_flight: telemetry.worker_gauge(index, &families::MIRROR_IN_FLIGHT, &[name]),
                results,
            }),
        }))
    }

    fn handlers(&self) -> Vec<&HandlerSetting> {
        vec![&self.0.to]
    }

    fn needs_authentication(&self) -> bool {
        self.0.when.as_ref().is_some_and(Condition::needs_authentication)
    }

    fn describe(&self) -> String {
        let when = if self.0.when.is_some() { ", under a condition" } else { "" };
        format!("{} to {}{when}", self.0.share, self.0.to)
    }
}

/// Identifies the copies in flight across reloads.
#[derive(PartialEq, Eq, Hash)]
struct BudgetKey(String);

/// The result of copying a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyResult {
    Ok,
    Failed,
    Timeout,
    OverBudget,
    BodyTooLarge,
    BodyIncomplete,
}

impl CopyResult {
    const ALL: [CopyResult; 6] = [
        CopyResult::Ok,
        CopyResult::Failed,
        CopyResult::Timeout,
        CopyResult::OverBudget,
        CopyResult::BodyTooLarge,
        CopyResult::BodyIncomplete,
    ];

    fn slug(self) -> &'static str {
        match self {
            CopyResult::Ok => "ok",
            CopyResult::Failed => "failed",
            CopyResult::Timeout => "timeout",
            CopyResult::OverBudget => "over_budget",
            CopyResult::BodyTooLarge => "body_too_large",
            CopyResult::BodyIncomplete => "body_incomplete",
        }
    }
}

struct MirrorFilter {
    share: Share,
    points: Spread,
    when: Option<Condition>,
    body_bytes_max: u64,
    target: Rc<MirrorTarget>,
}

/// The handler of the copies.
struct MirrorTarget {
    handler: Rc<dyn Handler>,
    timeout: Span,
    concurrent: u32,
    budget: Arc<AtomicU32>,
    in_flight: Arc<CachePadded<Gauge>>,
    results: [Arc<CachePadded<Counter>>; CopyResult::ALL.len()],
}

impl MirrorTarget {
    fn count(&self, result: CopyResult) {
        self.results[result as usize].inc();
    }
}

/// A copy within the budget, from before its body is there until its response was read.
struct RequestCopy {
    target: Rc<MirrorTarget>,
    request: Option<Request>,
}

impl RequestCopy {
    fn new(target: &Rc<MirrorTarget>, request: &Request) -> Option<RequestCopy> {
        if target.budget.fetch_add(1, Ordering::Relaxed) >= target.concurrent {
            target.budget.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        target.in_flight.inc();
        let mut copy = request.for_background();
        for framing in [Known::ContentLength, Known::TransferEncoding, Known::Expect] {
            copy.headers.remove(framing);
        }
        copy.marks = FilterScratch::default();
        Some(RequestCopy { target: target.clone(), request: Some(copy) })
    }

    /// Sends the copy with its body, in the background.
    fn send(mut self, body: Body) {
        let (Some(mut request), Some(permit)) = (self.request.take(), BackgroundPermit::take())
        else {
            return self.target.count(CopyResult::OverBudget);
        };
        request.body = body;
        permit.run(async move { self.target.count(self.run(request).await) }).detach();
    }

    async fn run(&self, mut request: Request) -> CopyResult {
        let exchange = async {
            match self.target.handler.handle(&mut request).resolve().await {
                Err(_) => CopyResult::Failed,
                Ok(mut response) => {
                    // A response that cannot be read costs the connection, and nothing else.
                    let _ = response.body.collect(RESPONSE_BYTES_MAX).await;
                    if response.status < 500 { CopyResult::Ok } else { CopyResult::Failed }
                }
            }
        };
        net::timer::within(self.target.timeout, exchange).await.unwrap_or(CopyResult::Timeout)
    }
}

impl Drop for RequestCopy {
    fn drop(&mut self) {
        self.target.budget.fetch_sub(1, Ordering::Relaxed);
        self.target.in_flight.dec();
    }
}

impl Filter for MirrorFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        let meant = self.when.as_ref().is_none_or(|when| when.holds(request));
        if meant && !request.upgrade && self.share.contains(self.points.next()) {
            self.copy(request);
        }
        Step::Continue.into()
    }
}

impl MirrorFilter {
    fn copy(&self, request: &mut Request) {
        let length = request.body.length();
        if length.is_some_and(|length| length > self.body_bytes_max) {
            return self.target.count(CopyResult::BodyTooLarge);
        }
        let Some(copy) = RequestCopy::new(&self.target, request) else {
            return self.target.count(CopyResult::OverBudget);
        };
        match &request.body {
            Body::Empty => copy.send(Body::Empty),
            Body::Bytes(bytes) => {
                let bytes = bytes.clone();
                copy.send(Body::from(bytes));
            }
            _ => {
                let body = std::mem::take(&mut request.body);
                request.body = Body::stream(TeeBody::new(body, copy, self.body_bytes_max));
            }
        }
    }
}

#[cfg(test)]
mod tests;
