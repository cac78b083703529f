//! `rate_limit`: a number of requests per key and time, and a burst.
//!
//! The state of a key is one atomic in `plugin::Keyed`, and a request is one compare-and-swap for
//! each limit. Promises that a reload resets no limit, that memory is bounded whatever keys come,
//! and that a request which one limit rejects counts for no other. Reads the worker's cached clock,
//! never the system's.

mod gcra;
mod sliding;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use message::{Fault, FaultKind, Headers, Request, Response};
use plugin::{Filter, FilterKind, FilterPlan, Keyed, MaybeFuture, Stage, Step, WorkerContext};
use settings::{Key, Node, Per, Rate, Reader, Setting, Variable};
use telemetry::{CachePadded, Counter, LimitHit, WorkerMetrics, families};

use crate::cost::{self, Cost};
use crate::keyed_state;
use crate::limit_fields::{LimitFields, Remaining, check_name};
use crate::request_key::RequestKey;
pub(crate) use gcra::Gcra;
use sliding::SlidingWindow;

pub(crate) const KIND: FilterKind =
    FilterKind { name: "rate_limit", schema: RateLimit::schema, read };

/// Most limits of one filter.
const LIMITS_MAX: usize = 8;

/// Limits the requests of each key over time.
///
/// Requests above the limit get 429 with `Retry-After`. Requests that come evenly pass at the rate;
/// after a pause a key may make `burst` requests at once. Limits with the same settings count
/// together wherever they are, also after a reload: a `name` separates them.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
struct RateLimit {
    /// How many requests a key may make over time; instead of `limits`.
    #[setting(example = "200/s", example = "10/m")]
    rate: Option<Rate>,
    /// How many requests a key may make at once; without it as many as the rate allows in a
    /// second, at least one.
    #[setting(range = 1..=1000000, example = 50)]
    burst: Option<u32>,
    /// How requests are counted over time.
    #[setting(default = "bucket")]
    window: Window,
    /// Several limits at once, up to eight; instead of `rate`. A request passes if all of them
    /// allow it; one that any of them rejects counts for none.
    #[setting(
        default = [],
        example = [{ "rate": "10/s" }, { "rate": "1000/h", "window": "sliding" }]
    )]
    limits: Vec<OneLimit>,
    /// The key by which requests are counted. Requests for which it is empty count as one.
    #[setting(default = "client_ip", example = "header.x-user", example = "{consumer}-{host}")]
    key: Key,
    /// Costs other than 1: the first entry whose condition holds applies. A request that costs more
    /// than `burst` never passes.
    #[setting(default = [], example = [{ "when": { "query": "export" }, "cost": 10 }])]
    cost: Vec<Cost>,
    /// Where the key is `client_ip`: how many bits of an IPv6 address count. A single customer
    /// usually has 64.
    #[setting(default = 64, range = 1..=128)]
    ipv6_prefix: u8,
    /// Uses the rate and burst in the `limits` of the request's consumer, if its entry has them;
    /// `rate` and `burst` are for all others. The key contains the consumer.
    #[setting(default = false)]
    consumer_limits: bool,
    /// The status of a rejection.
    #[setting(default = 429, range = 400..=599)]
    status: u16,
    /// Sends the remaining requests to clients, in `RateLimit` and `RateLimit-Policy`. Of several
    /// limits these show the one with the fewest remaining requests.
    #[setting(default = true)]
    headers: bool,
    /// The name of the limit: limits of the same name and key count together, and others do not.
    /// Clients see it.
    name: Option<String>,
    /// How many keys are stored for each limit. Beyond that, keys that were idle longest begin
    /// again with a full burst.
    #[setting(default = 65536, range = 1..=16777216)]
    entries: u32,
}

/// One of several limits.
#[derive(Clone, Debug, PartialEq, Setting)]
struct OneLimit {
    /// How many requests a key may make over time.
    #[setting(example = "10/s")]
    rate: Rate,
    /// How many requests a key may make at once; as in the filter.
    #[setting(range = 1..=1000000, example = 50)]
    burst: Option<u32>,
    /// How requests are counted over time.
    #[setting(default = "bucket")]
    window: Window,
    /// What this limit counts by; without it the `key` of the filter.
    #[setting(example = "consumer")]
    key: Option<Key>,
    /// Uses the rate and burst of the request's consumer; as in the filter.
    #[setting(default = false)]
    consumer_limits: bool,
    /// The name of this limit; without it its rate.
    name: Option<String>,
}

/// How requests are counted over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Setting)]
enum Window {
    /// A token bucket: `burst` requests at once, refilled at the rate (GCRA).
    Bucket,
    /// At most the number of the rate within a window of its unit (second, minute or hour) that
    /// slides. It has no `burst`. An estimate from two counters: it takes the requests of the
    /// window before as evenly spread.
    Sliding,
}

impl RateLimit {
    /// The limits, however they are written.
    fn limits(&self) -> Vec<OneLimit> {
        let only = self.rate.map(|rate| OneLimit {
            rate,
            burst: self.burst,
            window: self.window,
            key: None,
            consumer_limits: self.consumer_limits,
            name: Some(self.name.clone().unwrap_or_else(|| "default".to_owned())),
        });
        only.into_iter().chain(self.limits.iter().cloned()).collect()
    }
}

impl OneLimit {
    /// How many requests may come at once.
    fn burst(&self) -> u32 {
        window_burst(self.window, self.rate, self.burst)
    }

    fn label(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.rate.to_string())
    }
}

fn window_burst(window: Window, rate: Rate, own: Option<u32>) -> u32 {
    match window {
        Window::Bucket => own.unwrap_or_else(|| burst(rate)),
        Window::Sliding => rate.count,
    }
}

/// The burst of a bucket without its own.
pub(crate) fn burst(rate: Rate) -> u32 {
    (rate.per_second() as u32).max(1)
}

fn check(settings: &RateLimit, node: &Node, reader: &mut Reader<'_>) {
    if settings.rate.is_some() != settings.limits.is_empty() {
        reader.error(node.span, "a rate limit needs either `rate` or `limits`");
        return;
    }
    if settings.limits.len() > LIMITS_MAX {
        let span = node.get("limits").unwrap_or(node).span;
        reader.error(span, format!("a filter has at most {LIMITS_MAX} limits"));
    }
    if settings.rate.is_none() {
        for key in ["burst", "window", "consumer_limits", "name"] {
            if let Some(written) = node.get(key) {
                let why = format!("`{key}` belongs to an entry of `limits`");
                reader.error(written.span, why);
            }
        }
    }
    let limits = settings.limits();
    for (at, limit) in limits.iter().enumerate() {
        let written = node.get("limits").and_then(|list| list.list()?.get(at)).unwrap_or(node);
        check_limit(limit, settings, written, reader);
        let same = |other: &&OneLimit| other.label() == limit.label();
        if limits[..at].iter().any(|other| same(&other)) {
            let why = format!("two limits are called \"{}\"", limit.label());
            reader.error(written.span, why).help("give them different names");
        }
    }
}

fn check_limit(limit: &OneLimit, settings: &RateLimit, node: &Node, reader: &mut Reader<'_>) {
    let burst = limit.burst();
    if settings.cost.iter().any(|entry| entry.cost > burst) {
        let span = node.get("cost").unwrap_or(node).span;
        let why = format!("a cost above the burst of {burst} never passes");
        reader.error(span, why).help("raise `burst`");
    }
    if limit.window == Window::Sliding {
        if let Some(written) = node.get("burst") {
            reader.error(written.span, "a sliding window has no `burst`");
        }
        if limit.rate.count > sliding::LIMIT_MAX {
            let why = format!("a sliding window counts at most {}", sliding::LIMIT_MAX);
            reader.error(node.get("rate").unwrap_or(node).span, why);
        }
    }
    if limit.consumer_limits {
        check_consumer_key(limit.key.as_ref().unwrap_or(&settings.key), node, reader);
    }
    if let Some(name) = &limit.name {
        check_name(name, node, reader);
    }
}

/// Reports a key under which consumers with limits of their own would count together.
pub(crate) fn check_consumer_key(key: &Key, node: &Node, reader: &mut Reader<'_>) {
    if !key.template().variables().any(|variable| *variable == Variable::Consumer) {
        let span = node.get("consumer_limits").unwrap_or(node).span;
        let why = "limits of consumers need a key with the consumer in it";
        reader.error(span, why).help("write `key: consumer`");
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(Arc::new(RateLimitPlan(RateLimit::read(node, reader)?)))
}

struct RateLimitPlan(RateLimit);

/// Identifies the counters of a limit across reloads: limits with equal keys count together. It
/// includes neither route nor chain, so that it means the same after a reload.
#[derive(PartialEq, Eq, Hash)]
struct CountersKey {
    limit: Limit,
    /// The unit of a sliding window: its counters have another meaning than a bucket's.
    sliding: Option<Per>,
    key: Key,
    ipv6_prefix: u8,
    entries: u32,
}

#[derive(PartialEq, Eq, Hash)]
enum Limit {
    Named(String),
    Unnamed { rate: Rate, burst: u32 },
}

impl RateLimitPlan {
    fn counters(&self, limit: &OneLimit) -> CountersKey {
        let RateLimit { key, ipv6_prefix, entries, name, .. } = &self.0;
        let name = match self.0.rate {
            Some(_) => name,
            None => &limit.name,
        };
        CountersKey {
            limit: match name {
                Some(name) => Limit::Named(name.clone()),
                None => Limit::Unnamed { rate: limit.rate, burst: limit.burst() },
            },
            sliding: (limit.window == Window::Sliding).then_some(limit.rate.per),
            key: limit.key.as_ref().unwrap_or(key).clone(),
            ipv6_prefix: *ipv6_prefix,
            entries: *entries,
        }
    }

    fn state(&self, limit: &OneLimit, worker: &WorkerContext) -> LimitState {
        let counters = self.counters(limit);
        let name = limit.label();
        let refused =
            worker.telemetry.worker_counter(worker.index, &families::RATE_LIMITED, &[&*name]);
        let (requests, window_s) = policy(limit.rate);
        LimitState {
            key: RequestKey::new(&counters.key, self.0.ipv6_prefix),
            cells: worker
                .shared
                .get(counters, || keyed_state::table(&worker.telemetry, &name, self.0.entries)),
            window: limit.window,
            algorithm: Algorithm::new(limit.window, limit.rate, limit.burst),
            consumer_limits: limit.consumer_limits,
            fields: self.0.headers.then(|| LimitFields::new(&name, requests, window_s)),
            refused,
        }
    }
}

/// The number of requests and the seconds of a rate, for `RateLimit-Policy`.
fn policy(rate: Rate) -> (u32, u64) {
    (rate.count, rate.per.secs())
}

impl FilterPlan for RateLimitPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        let limits = self.0.limits();
        Stage::Filter(Rc::new(RateLimitFilter {
            limits: limits.iter().map(|limit| self.state(limit, worker)).collect(),
            costs: self.0.cost.clone(),
            status: self.0.status,
            worker: worker.telemetry.worker(worker.index),
        }))
    }

    fn describe(&self) -> String {
        let one = |limit: &OneLimit| {
            let key = limit.key.as_ref().unwrap_or(&self.0.key);
            let how = match limit.window {
                Window::Bucket => format!("burst {}", limit.burst()),
                Window::Sliding => "sliding".to_owned(),
            };
            let own = if limit.consumer_limits { ", or the consumer's own" } else { "" };
            format!("{} by {key}, {how}{own}", limit.rate)
        };
        let limits: Vec<String> = self.0.limits().iter().map(one).collect();
        limits.join("; ")
    }
}

struct RateLimitFilter {
    limits: Box<[LimitState]>,
    costs: Vec<Cost>,
    status: u16,
    worker: Arc<WorkerMetrics>,
}

/// One limit on one worker.
struct LimitState {
    cells: Arc<Keyed<AtomicU64>>,
    window: Window,
    algorithm: Algorithm,
    consumer_limits: bool,
    key: RequestKey,
    /// Fields of responses, if they are sent.
    fields: Option<LimitFields>,
    refused: Arc<CachePadded<Counter>>,
}

/// The counting algorithm of a limit, with its parameters.
#[derive(Clone, Copy, Debug)]
enum Algorithm {
    Bucket(Gcra),
    Sliding(SlidingWindow),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RateDecision {
    Allowed(Remaining),
    Refused { remaining: Remaining, wait_s: u32 },
}

impl Algorithm {
    fn new(window: Window, rate: Rate, own_burst: Option<u32>) -> Algorithm {
        match window {
            Window::Bucket => {
                Algorithm::Bucket(Gcra::new(rate, window_burst(window, rate, own_burst)))
            }
            Window::Sliding => Algorithm::Sliding(SlidingWindow::new(rate)),
        }
    }

    fn take(&self, cell: &AtomicU64, cost: u32, now_us: u64) -> RateDecision {
        match self {
            Algorithm::Bucket(gcra) => gcra.take(cell, cost, now_us * 1000),
            Algorithm::Sliding(window) => window.take(cell, cost, now_us),
        }
    }

    fn give_back(&self, cell: &AtomicU64, cost: u32, now_us: u64) {
        match self {
            Algorithm::Bucket(gcra) => gcra.give_back(cell, cost),
            Algorithm::Sliding(window) => window.give_back(cell, cost, now_us),
        }
    }
}

impl LimitState {
    /// The rate and burst in the entry of the request's consumer.
    fn own_rate(&self, request: &Request) -> Option<(Rate, Option<u32>)> {
        let limits = request.consumer.as_ref()?.limits.as_ref();
        limits.filter(|_| self.consumer_limits).and_then(|own| Some((own.rate?, own.burst)))
    }

    fn algorithm(&self, request: &Request) -> Algorithm {
        match self.own_rate(request) {
            Some((rate, burst)) => Algorithm::new(self.window, rate, burst),
            None => self.algorithm,
        }
    }

    fn with<R>(&self, request: &Request, using: impl FnOnce(Algorithm, &AtomicU64) -> R) -> R {
        let algorithm = self.algorithm(request);
        self.key
            .with(request, |key| keyed_state::with(&self.cells, key, |cell| using(algorithm, cell)))
    }

    fn write(&self, remaining: Remaining, request: &Request, headers: &mut Headers) {
        let Some(fields) = &self.fields else { return };
        match self.own_rate(request) {
            Some((rate, _)) => fields.write_own(policy(rate), remaining, headers),
            None => fields.write(remaining, headers),
        }
    }
}

/// Which limit is the tightest and what remains of it, as the word that a request carries.
fn pack((at, remaining): (usize, Remaining)) -> u64 {
    let full_in_s = remaining.full_in_s.min((1 << 28) - 1);
    u64::from(remaining.requests) << 32 | u64::from(full_in_s) << 4 | at as u64
}

fn unpack(word: u64) -> (usize, Remaining) {
    let (requests, full_in_s) = ((word >> 32) as u32, (word as u32) >> 4);
    ((word & 0xf) as usize, Remaining { requests, full_in_s })
}

impl Filter for RateLimitFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        let cost = cost::of(&self.costs, request);
        match self.take(request, cost, net::clock::now_us()) {
            (at, RateDecision::Allowed(remaining)) => {
                if self.limits[at].fields.is_some() {
                    request.marks.set(self, pack((at, remaining)));
                }
                Step::Continue.into()
            }
            (at, RateDecision::Refused { remaining, wait_s }) => {
                self.worker.hit(LimitHit::Rate);
                self.limits[at].refused.inc();
                let mut fault = Fault::new(FaultKind::RateLimited, "").with_status(self.status);
                fault.retry_after_s = Some(wait_s);
                self.limits[at].write(remaining, request, fault.fields.get_or_insert_default());
                Step::Fail(fault).into()
            }
        }
    }

    fn on_response<'a>(
        &'a self,
        request: &'a mut Request,
        response: &'a mut Response,
    ) -> MaybeFuture<'a, Step> {
        if let Some(word) = request.marks.get(self) {
            self.write(word, request, &mut response.headers);
        }
        Step::Continue.into()
    }

    fn on_fault(&self, request: &mut Request, fault: &mut Fault) {
        if let Some(word) = request.marks.get(self) {
            self.write(word, request, fault.fields.get_or_insert_default());
        }
    }
}

impl RateLimitFilter {
    /// Takes the cost of a request from every limit, or from none; and the limit that rejects it,
    /// or the one with the fewest remaining requests.
    fn take(&self, request: &Request, cost: u32, now_us: u64) -> (usize, RateDecision) {
        let mut tightest = (0, Remaining { requests: u32::MAX, full_in_s: 0 });
        for (at, limit) in self.limits.iter().enumerate() {
            let decision =
                limit.with(request, |algorithm, cell| algorithm.take(cell, cost, now_us));
            match decision {
                RateDecision::Allowed(remaining) => {
                    if remaining.requests < tightest.1.requests {
                        tightest = (at, remaining);
                    }
                }
                RateDecision::Refused { .. } => {
                    for taken in &self.limits[..at] {
                        taken.with(request, |algorithm, cell| {
                            algorithm.give_back(cell, cost, now_us);
                        });
                    }
                    return (at, decision);
                }
            }
        }
        (tightest.0, RateDecision::Allowed(tightest.1))
    }

    fn write(&self, word: u64, request: &Request, headers: &mut Headers) {
        let (at, remaining) = unpack(word);
        self.limits[at].write(remaining, request, headers);
    }
}

#[cfg(test)]
mod tests;
