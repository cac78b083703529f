//! `concurrency`: how many requests are in flight at once; and load shedding.
//!
//! A request holds a permit until the last byte of its response was sent ([`Request::permits`]).
//! Counters are shared by all workers and keyed by the identity of the limit, so that a reload
//! forgets no request in flight.

mod gradient;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use message::{Fault, FaultKind, Request, Response};
use plugin::{
    Condition, Filter, FilterKind, FilterPlan, Keyed, MaybeFuture, RouteNames, Stage, Step,
    WorkerContext,
};
use settings::{Key, Node, Percent, Reader, Setting};
use telemetry::{CachePadded, Counter, Gauge, LimitHit, SharedGauge, WorkerMetrics, families};

use crate::keyed_state;
use crate::request_key::{RequestKey, check_ipv6_prefix};
use gradient::{Gradient, LimitRange};

pub(crate) const KIND: FilterKind =
    FilterKind { name: "concurrency", schema: Concurrency::schema, read };

/// Limits how many requests are in flight at once, and sheds load where a server is overloaded.
///
/// A request counts from this filter until the last byte of its response was sent. With `adaptive`
/// the limit is adjusted: it falls when responses get slower, and grows again.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
struct Concurrency {
    /// The limit; instead of `adaptive`.
    #[setting(range = 1..=1000000, example = 100)]
    limit: Option<u32>,
    /// A limit that follows the latency of responses; instead of `limit`.
    adaptive: Option<Adaptive>,
    /// The key of requests; each value has a limit of its own. Unless set, all requests count
    /// together.
    #[setting(example = "client_ip", example = "consumer")]
    key: Option<Key>,
    /// Where the key is `client_ip`: how many bits of an IPv6 address count. A single customer
    /// usually has 64.
    #[setting(default = 64, range = 1..=128)]
    ipv6_prefix: u8,
    /// Requests that may use only a part of the limit, so that they are the first to be rejected.
    /// The first entry whose condition holds applies; all other requests may use the whole limit.
    #[setting(default = [], example = [{ "when": { "header": "x-batch" }, "share": "50%" }])]
    priorities: Vec<Priority>,
    /// The status of a rejection.
    #[setting(default = 503, range = 400..=599)]
    status: u16,
    /// The name of the limit, for metrics: limits of the same name and settings count together.
    /// Without it each route has its own.
    name: Option<String>,
    /// How many values of `key` are stored. Beyond that, keys that were idle longest are counted
    /// from zero.
    #[setting(default = 65536, range = 1..=16777216)]
    entries: u32,
}

/// A limit that follows the latency of responses.
#[derive(Clone, Debug, PartialEq, Setting)]
struct Adaptive {
    /// The lowest limit.
    #[setting(default = 10, range = 1..=1000000)]
    min: u32,
    /// The highest limit.
    #[setting(default = 1000, range = 1..=1000000)]
    max: u32,
}

/// Requests that may use only a part of the limit.
#[derive(Clone, Debug, PartialEq, Setting)]
struct Priority {
    /// Which requests.
    when: Condition,
    /// How much of the limit.
    #[setting(example = "50%")]
    share: Percent,
}

fn check(settings: &Concurrency, node: &Node, reader: &mut Reader<'_>) {
    if settings.key.is_none() {
        reader.no_effect(node, &["entries"], "there is no `key`");
    }
    check_ipv6_prefix(&settings.key, node, reader);
    if settings.limit.is_some() == settings.adaptive.is_some() {
        reader.error(node.span, "a concurrency limit needs either `limit` or `adaptive`");
    }
    if let Some(adaptive) = &settings.adaptive {
        if adaptive.min > adaptive.max {
            let span = node.get("adaptive").unwrap_or(node).span;
            reader.error(span, "`min` is greater than `max`");
        }
        if settings.key.is_some() {
            let span = node.get("key").unwrap_or(node).span;
            let why = "an adaptive limit belongs to the server behind it and has no `key`";
            reader.error(span, why).help("use a second `concurrency` with `limit` and `key`");
        }
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(Arc::new(ConcurrencyPlan(Arc::new(Concurrency::read(node, reader)?))))
}

struct ConcurrencyPlan(Arc<Concurrency>);

/// Identifies the counters of a limit across reloads: a changed `limit` counts the same requests.
#[derive(PartialEq, Eq, Hash)]
struct CountersKey {
    name: String,
    key: Option<Key>,
    ipv6_prefix: u8,
    entries: u32,
}

impl FilterPlan for ConcurrencyPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        self.build_on(RouteNames::default(), worker)
    }

    fn build_on(&self, route: RouteNames<'_>, worker: &WorkerContext) -> Stage {
        let settings = &*self.0;
        let name = settings.name.as_deref().unwrap_or(route.shown);
        let (telemetry, index) = (&worker.telemetry, worker.index);
        let identity = CountersKey {
            name: name.to_owned(),
            key: settings.key.clone(),
            ipv6_prefix: settings.ipv6_prefix,
            entries: settings.entries,
        };
        let limit = match &settings.adaptive {
            None => Limit::Fixed(settings.limit.unwrap_or(u32::MAX)),
            Some(Adaptive { min, max }) => {
                let range = LimitRange { min: *min, max: *max };
                let gradient = worker.shared.get((name.to_owned(), range), || Gradient::new(range));
                let shown = telemetry.gauge(&families::CONCURRENCY_LIMIT, &[name]);
                shown.set(i64::from(gradient.limit()));
                Limit::Adaptive { gradient, shown }
            }
        };
        Stage::Filter(Rc::new(ConcurrencyFilter {
            counted: match &settings.key {
                None => Counted::Together(worker.shared.get(identity, Counting::default)),
                Some(key) => {
                    let counts = worker
                        .shared
                        .get(identity, || keyed_state::table(telemetry, name, settings.entries));
                    Counted::ByKey(RequestKey::new(key, settings.ipv6_prefix), counts)
                }
            },
            limit,
            settings: self.0.clone(),
            in_flight: telemetry.worker_gauge(index, &families::CONCURRENCY_IN_FLIGHT, &[name]),
            rejected: telemetry.worker_counter(index, &families::CONCURRENCY_REJECTED, &[name]),
            worker: telemetry.worker(index),
        }))
    }

    fn needs_authentication(&self) -> bool {
        let of_priority = |entry: &Priority| entry.when.needs_authentication();
        self.0.key.as_ref().is_some_and(|key| key.template().needs_authentication())
            || self.0.priorities.iter().any(of_priority)
    }

    fn route_state(&self) -> Option<String> {
        let Concurrency { name, key, ipv6_prefix, entries, .. } = &*self.0;
        name.is_none().then(|| match key {
            Some(key) => format!("{key},{ipv6_prefix},{entries}"),
            None => String::new(),
        })
    }

    fn describe(&self) -> String {
        let limit = match (&self.0.adaptive, self.0.limit) {
            (Some(Adaptive { min, max }), _) => format!("adaptive, {min} to {max}"),
            (None, limit) => limit.unwrap_or_default().to_string(),
        };
        match &self.0.key {
            Some(key) => format!("{limit} by {key}"),
            None => limit,
        }
    }
}

/// Requests in flight. The permits of requests hold it too, so that it is exact while any is there.
#[derive(Default)]
struct Counting(Arc<AtomicU32>);

enum Counted {
    Together(Arc<Counting>),
    ByKey(RequestKey, Arc<Keyed<Counting>>),
}

enum Limit {
    Fixed(u32),
    Adaptive { gradient: Arc<Gradient>, shown: Arc<SharedGauge> },
}

struct ConcurrencyFilter {
    counted: Counted,
    limit: Limit,
    settings: Arc<Concurrency>,
    in_flight: Arc<CachePadded<Gauge>>,
    rejected: Arc<CachePadded<Counter>>,
    worker: Arc<WorkerMetrics>,
}

/// The right of one request to be in flight.
struct Permit {
    count: Arc<AtomicU32>,
    in_flight: Arc<CachePadded<Gauge>>,
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.in_flight.dec();
    }
}

impl Filter for ConcurrencyFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        let limit = self.limit_for(request);
        let permit = match &self.counted {
            Counted::Together(counting) => self.acquire(counting, limit),
            Counted::ByKey(key, counts) => key.with(request, |key| {
                keyed_state::with(counts, key, |counting| self.acquire(counting, limit))
            }),
        };
        let Some(permit) = permit else {
            self.rejected.inc();
            self.worker.hit(LimitHit::InFlight);
            let fault =
                Fault::new(FaultKind::ConcurrencyLimited, "too many requests are in flight");
            let fault = Fault { retry_after_s: Some(1), ..fault.with_status(self.settings.status) };
            return Step::Fail(fault).into();
        };
        request.permits.push(Box::new(permit));
        if let Limit::Adaptive { .. } = self.limit {
            request.marks.set(self, net::clock::now_us());
        }
        Step::Continue.into()
    }

    fn on_response<'a>(
        &'a self,
        request: &'a mut Request,
        response: &'a mut Response,
    ) -> MaybeFuture<'a, Step> {
        // An immediate failure is not a measure of the server's speed.
        if response.status < 500 {
            self.sample(request);
        }
        Step::Continue.into()
    }

    fn on_fault(&self, request: &mut Request, fault: &mut Fault) {
        if fault.status == 504 {
            self.sample(request);
        }
    }
}

impl ConcurrencyFilter {
    /// Returns the part of the limit that a request may use.
    fn limit_for(&self, request: &Request) -> u32 {
        let limit = match &self.limit {
            Limit::Fixed(limit) => *limit,
            Limit::Adaptive { gradient, .. } => gradient.limit(),
        };
        let priority = self.settings.priorities.iter().find(|entry| entry.when.holds(request));
        priority.map_or(limit, |entry| (f64::from(limit) * entry.share.fraction()).ceil() as u32)
    }

    fn acquire(&self, counting: &Counting, limit: u32) -> Option<Permit> {
        let count = &counting.0;
        if count.fetch_add(1, Ordering::Relaxed) >= limit {
            count.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        self.in_flight.inc();
        Some(Permit { count: count.clone(), in_flight: self.in_flight.clone() })
    }

    fn sample(&self, request: &Request) {
        let Limit::Adaptive { gradient, shown } = &self.limit else { return };
        let Counted::Together(counting) = &self.counted else { return };
        let Some(began_us) = request.marks.get(self) else { return };
        let now_us = net::clock::recent_us();
        let in_flight = counting.0.load(Ordering::Relaxed);
        if let Some(limit) = gradient.sample(now_us, now_us.saturating_sub(began_us), in_flight) {
            shown.set(i64::from(limit));
        }
    }
}

#[cfg(test)]
mod tests;
