//! `quota`: a number of requests per key and day, week, month or other period.
//!
//! Counts are words of a file that is shared as memory ([`table`]): all workers and processes count
//! together, and neither a reload, a restart nor a killed process loses a request. Without its file
//! a quota cannot be exact: an error is logged, and requests are rejected until a reload opens it.

mod amount;
mod period;
mod registry;
mod shared;
mod stored_table;
mod table;

use std::rc::Rc;
use std::sync::Arc;

use message::{Fault, FaultKind, Headers, Request, Response};
use plugin::{
    ConsumerLimit, Filter, FilterKind, FilterPlan, MaybeFuture, Stage, Step, WorkerContext,
};
use settings::{FilePath, Key, Node, Reader, Setting};
use telemetry::{CachePadded, Counter, LimitHit, WorkerMetrics};

use crate::cost::{self, Cost};
use crate::limit_fields::{LimitFields, Remaining};
use crate::rate_limit::check_consumer_key;
use crate::request_key::{RequestKey, check_ipv6_prefix};
use period::{Calendar, Period, Zone};
use registry::Registered;
use shared::QuotaPeriod;
use stored_table::{StoredTable, TableSettings};
use table::{Fingerprint, QuotaCount};

pub use amount::{AmountKey, AmountQuota, AmountQuotaSettings, AmountUse};
pub use registry::{QuotaInfo, QuotaUse, Quotas};

pub(crate) const KIND: FilterKind = FilterKind { name: "quota", schema: Quota::schema, read };

/// Limits the requests of each key per day, week, month or other period.
///
/// Requests above the limit get 429 with `Retry-After`. Counts are stored in a file: they survive
/// restarts and killed processes, and all workers count together. Only a crash of the operating
/// system can lose the requests of the last half minute. While the file cannot be opened, requests
/// get 503; a reload tries again.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
struct Quota {
    /// The name: that of the file, in `limits.quotas` of consumers, in the admin API and in header
    /// fields. Letters, digits, `-` and `_`. Quotas of the same name count together.
    #[setting(example = "monthly")]
    name: String,
    /// How many requests a key may make in a period.
    #[setting(example = 10000)]
    limit: u32,
    /// How long a period is: `day`, `week` (from Monday) and `month` begin at midnight; a time
    /// such as `30d` begins with the first request of a key.
    #[setting(default = "month", example = "day", example = "30d")]
    period: Period,
    /// The time zone of midnight, by its IANA name.
    #[setting(default = "UTC", example = "Europe/Berlin")]
    time_zone: Zone,
    /// The key by which requests are counted. Requests for which it is empty count as one.
    #[setting(default = "client_ip", example = "consumer", example = "header.x-user")]
    key: Key,
    /// Costs other than 1: the first entry whose condition holds applies.
    #[setting(default = [], example = [{ "when": { "query": "export" }, "cost": 10 }])]
    cost: Vec<Cost>,
    /// Where the key is `client_ip`: how many bits of an IPv6 address count.
    #[setting(default = 64, range = 1..=128)]
    ipv6_prefix: u8,
    /// Uses the limit of this name in `limits.quotas` of the request's consumer, if its entry has
    /// one; `limit` is for all others. The key contains the consumer.
    #[setting(default = false)]
    consumer_limits: bool,
    /// The status of a rejection.
    #[setting(default = 429, range = 400..=599)]
    status: u16,
    /// Sends the remaining requests to clients, in `RateLimit` and `RateLimit-Policy`.
    #[setting(default = true)]
    headers: bool,
    /// Counts together with the servers that have a quota of the same name, through the Redis of
    /// `shared`. Each server decides by itself and exchanges counts with Redis some times in a
    /// second; without Redis it allows its share of the rest. The period is `day`, `week` or
    /// `month`.
    #[setting(default = false)]
    shared: bool,
    /// How many keys are stored, each in 32 to 64 bytes. Beyond that, keys whose period has ended
    /// and then those with the lowest counts begin again at zero. A change keeps the counts.
    #[setting(default = 65536, range = 1..=1048576)]
    entries: u32,
    /// The directory of the file `NAME.quota`; without it `quotas` in the state directory:
    /// `$STATE_DIRECTORY`, `$XDG_STATE_HOME/tidegate`, `/var/lib/tidegate` for root, or
    /// `~/.local/state/tidegate`.
    #[setting(example = "/var/lib/tidegate/quotas")]
    directory: Option<FilePath>,
}

fn check(settings: &Quota, node: &Node, reader: &mut Reader<'_>) {
    stored_table::check_name(&settings.name, node, reader);
    let properties = [
        "requests".to_owned(),
        settings.period.to_string(),
        settings.time_zone.to_string(),
        settings.key.to_string(),
        settings.ipv6_prefix.to_string(),
        settings.entries.to_string(),
        format!("{:?}", settings.directory),
        settings.shared.to_string(),
    ];
    shares_name(&settings.name, properties, node, reader);
    if settings.consumer_limits {
        check_consumer_key(&settings.key, node, reader);
    }
    if settings.shared {
        check_shared(settings.period, node, reader);
    }
    check_time_zone(settings.period, node, reader);
    check_ipv6_prefix([&settings.key], node, reader);
    if settings.cost.iter().any(|entry| entry.cost > settings.limit) {
        let span = node.get("cost").unwrap_or(node).span;
        reader.error(span, "a cost above the limit never passes").help("raise `limit`");
    }
}

/// What quotas of one name have in common: requests and tokens of one name count together.
const SHARED_PROPERTIES: [&str; 8] = [
    "unit (requests, tokens)",
    "period",
    "time_zone",
    "key",
    "ipv6_prefix",
    "number of entries",
    "directory",
    "value of `shared`",
];

/// Requires that other quotas of this name have the same [`SHARED_PROPERTIES`].
fn shares_name(name: &str, properties: [String; 8], node: &Node, reader: &mut Reader<'_>) {
    let span = node.get("name").unwrap_or(node).span;
    let mut values = properties.into_iter();
    let properties = SHARED_PROPERTIES.map(|label| (label, values.next().unwrap_or_default()));
    reader.shares_state(KIND.name, name, span, properties);
}

fn check_time_zone(period: Period, node: &Node, reader: &mut Reader<'_>) {
    if let Period::Rolling { .. } = period {
        let why = "the period begins with the first request of a key, not at midnight";
        reader.no_effect(node, &["time_zone"], why);
    }
}

/// Checks the period of a quota that servers share: it has to begin at the same time on all.
fn check_shared(period: Period, node: &Node, reader: &mut Reader<'_>) {
    reader.uses_shared(node.get("shared").unwrap_or(node).span);
    if let Period::Rolling { .. } = period {
        let span = node.get("period").unwrap_or(node).span;
        let why = "a period that begins with the first request of a key is that of one server";
        reader.error(span, why).help("write `period: day`, `week` or `month`, or remove `shared`");
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(Arc::new(QuotaPlan(Quota::read(node, reader)?)))
}

struct QuotaPlan(Quota);

impl FilterPlan for QuotaPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        let settings = &self.0;
        let table = TableSettings {
            directory: settings.directory.as_ref(),
            name: &settings.name,
            entries: settings.entries,
            shared: settings
                .shared
                .then_some(QuotaPeriod { period: settings.period, zone: &settings.time_zone }),
        };
        let table = StoredTable::open(&table, worker);
        let quotas = worker.shared.get((), Quotas::default);
        quotas.register(
            &settings.name,
            Registered {
                table: Arc::downgrade(&table),
                limit: settings.limit,
                period: settings.period,
                zone: settings.time_zone.clone(),
                key: settings.key.clone(),
                ipv6_prefix: settings.ipv6_prefix,
            },
        );
        let window_s = settings.period.nominal_s();
        Stage::Filter(Rc::new(QuotaFilter {
            calendar: Calendar::new(settings.period, &settings.time_zone),
            key: RequestKey::new(&settings.key, settings.ipv6_prefix),
            fields: settings
                .headers
                .then(|| LimitFields::new(&settings.name, settings.limit, window_s)),
            worker: worker.telemetry.worker(worker.index),
            rejected: worker.policy_rejections(KIND.name, &settings.name),
            without_file: worker.policy_rejections(KIND.name, "no_file"),
            settings: settings.clone(),
            table,
            _quotas: quotas,
        }))
    }

    fn consumer_limits(&self) -> Vec<ConsumerLimit> {
        let own = self.0.consumer_limits.then(|| ConsumerLimit::Quota(self.0.name.clone()));
        own.into_iter().collect()
    }

    fn needs_authentication(&self) -> bool {
        self.0.key.template().needs_authentication() || cost::need_authentication(&self.0.cost)
    }

    fn describe(&self) -> String {
        let Quota { limit, period, key, time_zone, .. } = &self.0;
        let own = if self.0.consumer_limits { ", or the consumer's own" } else { "" };
        let shared = if self.0.shared { ", shared by the servers" } else { "" };
        match period {
            Period::Rolling { .. } => format!("{limit} per {period} by {key}{own}"),
            _ => format!("{limit} per {period} ({time_zone}) by {key}{own}{shared}"),
        }
    }
}

struct QuotaFilter {
    settings: Quota,
    table: Arc<StoredTable>,
    calendar: Calendar,
    key: RequestKey,
    fields: Option<LimitFields>,
    worker: Arc<WorkerMetrics>,
    rejected: Arc<CachePadded<Counter>>,
    /// Requests rejected because the file cannot be used.
    without_file: Arc<CachePadded<Counter>>,
    /// The register lives as long as a quota does.
    _quotas: Arc<Quotas>,
}

impl Filter for QuotaFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        let Some(table) = self.table.get() else {
            self.without_file.inc();
            let detail = "the file of the quota cannot be used";
            return Step::Fail(Fault::new(FaultKind::Unavailable, detail)).into();
        };
        let now_s = net::clock::wall_secs();
        let own = self.own_limit(request);
        let limit = own.unwrap_or(self.settings.limit);
        let cost = cost::of(&self.settings.cost, request);
        let key = self.key.with(request, Fingerprint::of);
        let count = table.take(key, self.calendar.at(now_s), limit, cost);
        let remaining = remaining(count, limit, now_s);
        if count.is_allowed {
            if self.fields.is_some() {
                let word = u64::from(remaining.requests) << 32 | u64::from(remaining.full_in_s);
                request.marks.set(self, word);
            }
            return Step::Continue.into();
        }
        self.worker.hit(LimitHit::Rate);
        self.rejected.inc();
        let mut fault = Fault::new(FaultKind::RateLimited, "").with_status(self.settings.status);
        fault.retry_after_s = Some(remaining.full_in_s.max(1));
        self.write(remaining, request, fault.fields.get_or_insert_default());
        Step::Fail(fault).into()
    }

    fn on_response<'a>(
        &'a self,
        request: &'a mut Request,
        response: &'a mut Response,
    ) -> MaybeFuture<'a, Step> {
        if let Some(word) = request.marks.get(self) {
            self.write(unpack(word), request, &mut response.headers);
        }
        Step::Continue.into()
    }

    fn on_fault(&self, request: &mut Request, fault: &mut Fault) {
        if let Some(word) = request.marks.get(self) {
            self.write(unpack(word), request, fault.fields.get_or_insert_default());
        }
    }
}

fn remaining(count: QuotaCount, limit: u32, now_s: u64) -> Remaining {
    let full_in_s = u32::try_from(count.end_s.saturating_sub(now_s)).unwrap_or(u32::MAX);
    Remaining { requests: limit.saturating_sub(count.used), full_in_s }
}

fn unpack(word: u64) -> Remaining {
    Remaining { requests: (word >> 32) as u32, full_in_s: word as u32 }
}

impl QuotaFilter {
    /// The limit of this name in the entry of the request's consumer.
    fn own_limit(&self, request: &Request) -> Option<u32> {
        let limits = request.consumer.as_ref()?.limits.as_ref();
        limits?.quotas.get(&self.settings.name).copied().filter(|_| self.settings.consumer_limits)
    }

    fn write(&self, remaining: Remaining, request: &Request, headers: &mut Headers) {
        let Some(fields) = &self.fields else { return };
        match self.own_limit(request) {
            Some(limit) => {
                let policy = (limit, self.settings.period.nominal_s());
                fields.write_own(policy, remaining, headers);
            }
            None => fields.write(remaining, headers),
        }
    }
}

#[cfg(test)]
mod tests;
