//! `rate_limit`: a number of requests per key and time, and a burst.
//!
//! Owns the generic cell rate algorithm over `plugin::Keyed`: the state of a key is one atomic,
//! the time at which its debt is paid back, and a request is one compare-and-swap. Promises that a
//! reload resets no limit, that memory is bounded whatever keys come, and that over any time no
//! more requests are allowed than `burst` plus the rate. Reads the worker's cached clock, never the
//! system's.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use message::{BegunField, Fault, FaultKind, Headers, Request, Response};
use plugin::{
    Condition, Filter, FilterKind, FilterPlan, Keyed, MaybeFuture, Stage, Step, WorkerContext,
    variables,
};
use settings::{Key, Node, Rate, Reader, Setting, Variable};
use telemetry::{CachePadded, Counter, LimitHit, WorkerMetrics, families};
use wire::Known;

use crate::keyed_state;

pub(crate) const KIND: FilterKind =
    FilterKind { name: "rate_limit", schema: RateLimit::schema, read };

/// A debt that exceeds the burst by more than this was made under another limit: the cached clocks
/// of workers differ by less.
const CLOCKS_DIFFER_NS: u64 = 1_000_000_000;
/// The most that a request may be late without a loss of rate: what a busy worker is.
const LATE_NS_MAX: u64 = 10_000_000;
/// Longest name; it is sent with every response.
const NAME_BYTES_MAX: usize = 64;

/// Limits the requests of each key over time.
///
/// Requests above the limit get 429 with `Retry-After`. Requests that come evenly pass at the rate;
/// after a pause a key may make `burst` requests at once. Limits with the same settings count
/// together wherever they are, also after a reload: a `name` separates them.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
struct RateLimit {
    /// How many requests a key may make over time.
    #[setting(example = "200/s", example = "10/m")]
    rate: Rate,
    /// How many requests a key may make at once; without it as many as the rate allows in a
    /// second, at least one.
    #[setting(range = 1..=1000000, example = 50)]
    burst: Option<u32>,
    /// What requests are counted by. Requests for which it is empty count as one key.
    #[setting(default = "client_ip", example = "header.x-user", example = "{consumer}-{host}")]
    key: Key,
    /// What requests cost, where it is not 1: the first entry whose condition holds counts. A
    /// request that costs more than `burst` never passes.
    #[setting(default = [], example = [{ "when": { "query": "export" }, "cost": 10 }])]
    cost: Vec<Cost>,
    /// Where the key is `client_ip`: how many bits of an IPv6 address count. A single customer
    /// usually has 64.
    #[setting(default = 64, range = 1..=128)]
    ipv6_prefix: u8,
    /// The status of a rejection.
    #[setting(default = 429, range = 400..=599)]
    status: u16,
    /// Sends the remaining quota to clients, in `RateLimit` and `RateLimit-Policy`.
    #[setting(default = true)]
    headers: bool,
    /// The name of the limit: limits of the same name and key count together, and others do not.
    /// Clients see it.
    name: Option<String>,
    /// How many keys are stored. Beyond that, keys that were idle longest begin again with a full
    /// burst.
    #[setting(default = 65536, range = 1..=16777216)]
    entries: u32,
}

/// The cost of some requests.
#[derive(Clone, Debug, PartialEq, Setting)]
struct Cost {
    /// Which requests.
    when: Condition,
    /// How many requests one of them counts as; 0 is not limited.
    #[setting(range = 0..=1000000, example = 10)]
    cost: u32,
}

fn check(settings: &RateLimit, node: &Node, reader: &mut Reader<'_>) {
    let burst = settings.burst();
    if settings.cost.iter().any(|entry| entry.cost > burst) {
        let span = node.get("cost").unwrap_or(node).span;
        reader
            .error(span, format!("a cost above the burst of {burst} never passes"))
            .help("raise `burst`");
    }
    let Some(name) = &settings.name else { return };
    // A string of a structured field (RFC 9651 3.3.3), without what would need escapes.
    let fits = |byte: u8| (byte == b' ' || byte.is_ascii_graphic()) && !b"\"\\".contains(&byte);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(fits) {
        let why = format!("the name is 1 to {NAME_BYTES_MAX} ASCII characters without quotes");
        reader.error(node.get("name").unwrap_or(node).span, why);
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(Arc::new(RateLimitPlan(RateLimit::read(node, reader)?)))
}

struct RateLimitPlan(RateLimit);

/// Identifies the counters of a limit across reloads.
#[derive(PartialEq, Eq, Hash)]
struct CountersKey {
    limit: Limit,
    key: Key,
    ipv6_prefix: u8,
    entries: u32,
}

#[derive(PartialEq, Eq, Hash)]
enum Limit {
    Named(String),
    Unnamed { rate: Rate, burst: u32 },
}

impl RateLimit {
    fn burst(&self) -> u32 {
        let per_second = (self.rate.per_second() as u32).max(1);
        self.burst.unwrap_or(per_second)
    }
}

impl RateLimitPlan {
    /// The key of the counters: limits with equal keys count together. It includes neither route
    /// nor chain, so that it means the same after a reload.
    fn counters(&self) -> CountersKey {
        let RateLimit { rate, key, ipv6_prefix, entries, name, .. } = &self.0;
        let limit = match name {
            Some(name) => Limit::Named(name.clone()),
            None => Limit::Unnamed { rate: *rate, burst: self.0.burst() },
        };
        CountersKey { limit, key: key.clone(), ipv6_prefix: *ipv6_prefix, entries: *entries }
    }
}

impl FilterPlan for RateLimitPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        let name = self.0.name.as_deref().unwrap_or("default");
        let RateLimit { rate, .. } = self.0;
        let by_address = self.0.key.variable() == Some(&Variable::ClientIp);
        Stage::Filter(Rc::new(RateLimitFilter {
            cells: worker.shared.get(self.counters(), || {
                keyed_state::table(&worker.telemetry, name, self.0.entries)
            }),
            gcra: Gcra::new(rate, self.0.burst()),
            costs: self.0.cost.clone(),
            key: (!by_address).then(|| self.0.key.clone()),
            ipv6_mask: u128::MAX << (128 - u32::from(self.0.ipv6_prefix)),
            status: self.0.status,
            told: self.0.headers.then(|| {
                let policy = format!("\"{name}\";q={};w={}", rate.count, rate.per.secs());
                let left = format!("\"{name}\";r=");
                (
                    BegunField::new(Known::RateLimitPolicy, &policy),
                    BegunField::new(Known::RateLimit, &left),
                )
            }),
            worker: worker.telemetry.worker(worker.index),
            refused: worker.telemetry.worker_counter(
                worker.index,
                &families::RATE_LIMITED,
                &[name],
            ),
        }))
    }

    fn describe(&self) -> String {
        format!("{} by {}, burst {}", self.0.rate, self.0.key, self.0.burst())
    }
}

struct RateLimitFilter {
    cells: Arc<Keyed<AtomicU64>>,
    gcra: Gcra,
    costs: Vec<Cost>,
    /// `None` if it is the client's address, which needs no text.
    key: Option<Key>,
    ipv6_mask: u128,
    status: u16,
    /// The value of RateLimit-Policy, and how RateLimit begins, if they are sent.
    told: Option<(BegunField, BegunField)>,
    worker: Arc<WorkerMetrics>,
    refused: Arc<CachePadded<Counter>>,
}

impl Filter for RateLimitFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        let now_ns = net::clock::now_us() * 1000;
        let entry = self.costs.iter().find(|entry| entry.when.holds(request));
        let cost = entry.map_or(1, |entry| entry.cost);
        match self.take(request, cost, now_ns) {
            RateDecision::Allowed(quota) => {
                if self.told.is_some() {
                    request.marks.set(self, quota.pack());
                }
                Step::Continue.into()
            }
            RateDecision::Refused { quota, wait_s } => {
                self.worker.hit(LimitHit::Rate);
                self.refused.inc();
                let mut fault = Fault::new(FaultKind::RateLimited, "").with_status(self.status);
                fault.retry_after_s = Some(wait_s);
                self.write_quota(quota, fault.fields.get_or_insert_default());
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
            self.write_quota(Quota::unpack(word), &mut response.headers);
        }
        Step::Continue.into()
    }

    fn on_fault(&self, request: &mut Request, fault: &mut Fault) {
        if let Some(word) = request.marks.get(self) {
            self.write_quota(Quota::unpack(word), fault.fields.get_or_insert_default());
        }
    }
}

impl RateLimitFilter {
    fn take(&self, request: &Request, cost: u32, now_ns: u64) -> RateDecision {
        let used = |key: &[u8]| {
            keyed_state::with(&self.cells, key, |cell| self.gcra.take(cell, cost, now_ns))
        };
        match &self.key {
            None => match request.client_ip {
                IpAddr::V4(address) => used(&address.octets()),
                IpAddr::V6(address) => used(&(address.to_bits() & self.ipv6_mask).to_be_bytes()),
            },
            Some(key) => used(&variables::key(key, request)),
        }
    }

    /// draft-ietf-httpapi-ratelimit-headers-10: the policy, and the remaining quota and its time.
    fn write_quota(&self, quota: Quota, headers: &mut Headers) {
        let Some((policy, left)) = &self.told else { return };
        headers.append_begun(policy, |_| ());
        headers.append_begun(left, |value| {
            let mut number = itoa::Buffer::new();
            value.extend_from_slice(number.format(quota.left).as_bytes());
            value.extend_from_slice(b";t=");
            value.extend_from_slice(number.format(quota.full_in_s).as_bytes());
        });
    }
}

/// The generic cell rate algorithm, as "virtual scheduling" (ITU-T I.371).
#[derive(Clone, Copy, Debug)]
struct Gcra {
    /// The cost of one request.
    interval_ns: u64,
    /// How far the debt of a key may be ahead of the clock.
    burst_ns: u64,
    /// How late a request may be without a loss of rate. With a burst of one each request is late
    /// by the time since the debt was paid back, which would add up to several per cent; two
    /// requests never pass at once all the same.
    late_ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RateDecision {
    Allowed(Quota),
    Refused { quota: Quota, wait_s: u32 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Quota {
    /// Requests that would be allowed now.
    left: u32,
    /// Time until `left` is the whole burst again.
    full_in_s: u32,
}

impl Quota {
    fn pack(self) -> u64 {
        u64::from(self.left) << 32 | u64::from(self.full_in_s)
    }

    fn unpack(word: u64) -> Quota {
        Quota { left: (word >> 32) as u32, full_in_s: word as u32 }
    }
}

impl Gcra {
    fn new(rate: Rate, burst: u32) -> Gcra {
        let interval_ns = (rate.interval().as_nanos() as u64).max(1);
        let late_ns = if burst == 1 { (interval_ns / 10 * 9).min(LATE_NS_MAX) } else { 0 };
        Gcra { interval_ns, burst_ns: interval_ns * u64::from(burst), late_ns }
    }

    /// Takes the cost of a request from a cell, which holds the time at which the debt is paid
    /// back.
    fn take(&self, cell: &AtomicU64, cost: u32, now_ns: u64) -> RateDecision {
        let cost_ns = self.interval_ns * u64::from(cost);
        let mut cell_ns = cell.load(Ordering::Relaxed);
        loop {
            // Under this limit no debt is longer than the burst. The excess is the debt of a lower
            // limit of the same name, before a reload: it is cut to the burst.
            let is_foreign = cell_ns > now_ns + self.burst_ns + CLOCKS_DIFFER_NS;
            let seen = if is_foreign {
                now_ns + self.burst_ns
            } else {
                cell_ns.max(now_ns - self.late_ns.min(now_ns))
            };
            let paid_at = seen + cost_ns;
            let debt = paid_at.saturating_sub(now_ns);
            if debt > self.burst_ns {
                if is_foreign {
                    // If this fails another request has cut it.
                    let _ =
                        cell.compare_exchange(cell_ns, seen, Ordering::Relaxed, Ordering::Relaxed);
                }
                let full_in_s = seconds(seen.saturating_sub(now_ns));
                let quota = Quota { left: 0, full_in_s };
                return RateDecision::Refused { quota, wait_s: seconds(debt - self.burst_ns) };
            }
            // Nothing else is published with the cell, so relaxed ordering suffices.
            let (new, order) = (paid_at, Ordering::Relaxed);
            match cell.compare_exchange_weak(cell_ns, new, order, order) {
                Ok(_) => {
                    let left = ((self.burst_ns - debt) / self.interval_ns) as u32;
                    return RateDecision::Allowed(Quota { left, full_in_s: seconds(debt) });
                }
                Err(newer) => cell_ns = newer,
            }
        }
    }
}

/// Rounded up: a client that waits that long has waited enough.
fn seconds(ns: u64) -> u32 {
    u32::try_from(ns.div_ceil(1_000_000_000)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
