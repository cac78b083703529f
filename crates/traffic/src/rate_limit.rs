//! `rate_limit`: a number of requests per key and time, and a burst.
//!
//! The state of a key is one atomic in `plugin::Keyed`, and a request is one compare-and-swap for
//! each limit. Promises that a reload resets no limit, that memory is bounded whatever keys come,
//! and that a request which one limit rejects counts for no other. Reads the worker's cached clock,
//! never the system's.

mod declaration;
mod gcra;
mod shared;
mod sliding;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use message::{Fault, FaultKind, Headers, Request, Response};
use plugin::{
    ConsumerLimit, Filter, FilterKind, FilterPlan, Keyed, MaybeFuture, Stage, Step, WorkerContext,
};
use settings::{Key, Node, Per, Rate, Reader, Setting};
use telemetry::{CachePadded, Counter, LimitHit, WorkerMetrics, families};

use crate::cost::{self, Cost};
use crate::keyed_state;
use crate::limit_fields::{LimitFields, Remaining};
use crate::request_key::RequestKey;
use crate::shared_limits::SharedLimits;
use declaration::{OneLimit, RateLimit, Window, window_burst};
pub(crate) use declaration::{burst, check_consumer_key};
pub(crate) use gcra::Gcra;
use shared::SharedRates;
use sliding::SlidingWindow;

pub(crate) const KIND: FilterKind =
    FilterKind { name: "rate_limit", schema: RateLimit::schema, read };

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
            cells: match self.0.shared {
                false => LimitCells::Local(worker.shared.get(counters, || {
                    keyed_state::table(&worker.telemetry, &name, self.0.entries)
                })),
                true => self.shared_cells(limit, counters, worker),
            },
            window: limit.window,
            algorithm: Algorithm::new(limit.window, limit.rate, limit.burst),
            consumer_limits: limit.consumer_limits,
            fields: self.0.headers.then(|| LimitFields::new(&name, requests, window_s)),
            refused,
        }
    }

    /// The cells of a limit that servers share: those of equal names, keys and prefixes.
    fn shared_cells(
        &self,
        limit: &OneLimit,
        counters: CountersKey,
        worker: &WorkerContext,
    ) -> LimitCells {
        let limits = worker.shared.get((), SharedLimits::default);
        let name = match &counters.limit {
            Limit::Named(name) => name.clone(),
            Limit::Unnamed { rate, burst } => format!("{rate},{burst}"),
        };
        let identity = format!("{},{}", counters.key, self.0.ipv6_prefix);
        let made = || {
            let table =
                keyed_state::changing_table(&worker.telemetry, &limit.label(), self.0.entries);
            SharedRates::new(name, &identity, table, limits.sharing())
        };
        let rates = worker.shared.get(counters, made);
        limits.settle(rates.clone());
        let bucket = Gcra::new(limit.rate, limit.burst());
        LimitCells::Shared { rates, bucket, _limits: limits }
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

    fn consumer_limits(&self) -> Vec<ConsumerLimit> {
        let limits = self.0.limits();
        let own = limits.iter().find(|limit| limit.consumer_limits);
        own.map(|_| ConsumerLimit::Rate).into_iter().collect()
    }

    fn needs_authentication(&self) -> bool {
        let own = self.0.limits.iter().filter_map(|limit| limit.key.as_ref());
        own.chain([&self.0.key]).any(|key| key.template().needs_authentication())
            || cost::need_authentication(&self.0.cost)
    }

    fn describe(&self) -> String {
        let one = |limit: &OneLimit| {
            let key = limit.key.as_ref().unwrap_or(&self.0.key);
            let how = match limit.window {
                Window::Bucket => format!("burst {}", limit.burst()),
                Window::Sliding => "sliding".to_owned(),
            };
            let own = if limit.consumer_limits { ", or the consumer's own" } else { "" };
            let shared = if self.0.shared { ", shared by the servers" } else { "" };
            format!("{} by {key}, {how}{own}{shared}", limit.rate)
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
    cells: LimitCells,
    window: Window,
    algorithm: Algorithm,
    consumer_limits: bool,
    key: RequestKey,
    /// Fields of responses, if they are sent.
    fields: Option<LimitFields>,
    refused: Arc<CachePadded<Counter>>,
}

/// Where the state of the keys is.
enum LimitCells {
    Local(Arc<Keyed<AtomicU64>>),
    /// A token bucket that several servers share.
    Shared {
        rates: Arc<SharedRates>,
        bucket: Gcra,
        /// The register lives as long as a shared limit does.
        _limits: Arc<SharedLimits>,
    },
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

    fn take(&self, request: &Request, cost: u32, now_us: u64) -> RateDecision {
        match &self.cells {
            LimitCells::Local(cells) => {
                let algorithm = self.algorithm(request);
                let take = |cell: &AtomicU64| algorithm.take(cell, cost, now_us);
                self.key.with(request, |key| keyed_state::with(cells, key, take))
            }
            LimitCells::Shared { rates, bucket, .. } => {
                let bucket = self.own_bucket(request).unwrap_or(*bucket);
                self.key.with(request, |key| rates.take(key, bucket, cost, now_us))
            }
        }
    }

    /// Returns what [`LimitState::take`] has just taken.
    fn give_back(&self, request: &Request, cost: u32, now_us: u64) {
        match &self.cells {
            LimitCells::Local(cells) => {
                let algorithm = self.algorithm(request);
                let give_back = |cell: &AtomicU64| algorithm.give_back(cell, cost, now_us);
                self.key.with(request, |key| keyed_state::with(cells, key, give_back));
            }
            LimitCells::Shared { rates, bucket, .. } => {
                let bucket = self.own_bucket(request).unwrap_or(*bucket);
                self.key.with(request, |key| rates.give_back(key, bucket, cost));
            }
        }
    }

    /// The bucket of the request's consumer, if its entry has one.
    fn own_bucket(&self, request: &Request) -> Option<Gcra> {
        let (rate, burst) = self.own_rate(request)?;
        Some(Gcra::new(rate, window_burst(Window::Bucket, rate, burst)))
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
            let decision = limit.take(request, cost, now_us);
            match decision {
                RateDecision::Allowed(remaining) => {
                    if remaining.requests < tightest.1.requests {
                        tightest = (at, remaining);
                    }
                }
                RateDecision::Refused { .. } => {
                    for taken in &self.limits[..at] {
                        taken.give_back(request, cost, now_us);
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
