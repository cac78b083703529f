//! Metrics of a cache: of each worker while requests run, and of the store when they are read.
//!
//! Counting writes only the worker's own cells.

use std::cell::OnceCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use coding::Coding;
use plugin::WorkerContext;
use telemetry::families::{self, Family};
use telemetry::{CachePadded, Counter, Histogram, SharedCounter, SharedGauge, Telemetry};

use crate::key::KeyError;
use crate::rules::{Forward, UncachedReason};
use crate::store::{self, DiskState, DiskStats, StoreStats};

type WorkerCounter = Arc<CachePadded<Counter>>;

/// The counters of one cache on one worker; all its filters on that cache share them.
pub(crate) struct CacheMetrics {
    pub(crate) hits: WorkerCounter,
    /// Stale responses served during a revalidation in the background.
    pub(crate) stale_revalidating: WorkerCounter,
    /// Stale responses served because the origin failed.
    pub(crate) stale_error: WorkerCounter,
    /// Misses answered by another request's fetch.
    pub(crate) coalesced: WorkerCounter,
    pub(crate) still_valid: WorkerCounter,
    pub(crate) replaced: WorkerCounter,
    pub(crate) revalidation_failed: WorkerCounter,
    /// Stored parts that newer parts have displaced.
    pub(crate) parts_dropped: WorkerCounter,
    misses: LabelledCounters<{ Forward::ALL.len() }>,
    passes: LabelledCounters<{ UncachedReason::ALL.len() }>,
    keyless: LabelledCounters<KEYLESS>,
    unstored: LabelledCounters<{ UncachedReason::ALL.len() }>,
    derived: LabelledCounters<DERIVED>,
    took: [OnceCell<Arc<Histogram>>; DERIVED],
    owner_asked: LabelledCounters<{ OwnerResult::COUNT }>,
    owner_answered: LabelledCounters<{ OwnerResult::COUNT }>,
}

/// The result of a request to the owner of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnerResult {
    /// The owner had stored the response.
    Stored,
    /// It has requested the response from the origin.
    Fetched,
    /// It has no response to share.
    Declined,
    /// It has not applied a purge that this server knows of.
    Outdated,
    /// It cannot be reached, or is not a server of the fleet.
    Failed,
    Timeout,
    /// It is the server that asks.
    Own,
}

impl OwnerResult {
    const COUNT: usize = OwnerResult::Own as usize + 1;

    fn slug(self) -> &'static str {
        match self {
            OwnerResult::Stored => "stored",
            OwnerResult::Fetched => "fetched",
            OwnerResult::Declined => "declined",
            OwnerResult::Outdated => "outdated",
            OwnerResult::Failed => "failed",
            OwnerResult::Timeout => "timeout",
            OwnerResult::Own => "own",
        }
    }
}

/// The number of key errors.
const KEYLESS: usize = 4;
/// The number of codings, identity included.
const DERIVED: usize = Coding::ALL.len() + 1;

/// Counters of one family by its second label. Each is registered when it is first needed, so that
/// `/metrics` shows no rows of zeros.
struct LabelledCounters<const N: usize> {
    source: MetricSource,
    family: &'static Family,
    cells: [OnceCell<WorkerCounter>; N],
}

#[derive(Clone)]
struct MetricSource {
    telemetry: Arc<Telemetry>,
    worker: usize,
    cache: Rc<str>,
}

impl<const N: usize> LabelledCounters<N> {
    fn new(source: &MetricSource, family: &'static Family) -> Self {
        let cells = std::array::from_fn(|_| OnceCell::new());
        LabelledCounters { source: source.clone(), family, cells }
    }

    fn add(&self, at: usize, label: &str, n: u64) {
        let MetricSource { telemetry, worker, cache } = &self.source;
        let new_counter = || telemetry.worker_counter(*worker, self.family, &[cache, label]);
        self.cells[at].get_or_init(new_counter).add(n);
    }
}

impl CacheMetrics {
    /// Returns the worker's counters of that cache.
    pub(crate) fn of(worker: &WorkerContext, cache: &str) -> Rc<CacheMetrics> {
        worker.local.get(cache.to_owned(), || CacheMetrics::new(worker, cache))
    }

    fn new(worker: &WorkerContext, cache: &str) -> CacheMetrics {
        let plain = |family| worker.telemetry.worker_counter(worker.index, family, &[cache]);
        let labelled = |family, label: &str| {
            worker.telemetry.worker_counter(worker.index, family, &[cache, label])
        };
        let source = MetricSource {
            telemetry: worker.telemetry.clone(),
            worker: worker.index,
            cache: Rc::from(cache),
        };
        CacheMetrics {
            hits: plain(&families::CACHE_HITS),
            stale_revalidating: labelled(&families::CACHE_STALE, "revalidating"),
            stale_error: labelled(&families::CACHE_STALE, "error"),
            coalesced: plain(&families::CACHE_COALESCED),
            still_valid: labelled(&families::CACHE_REVALIDATIONS, "valid"),
            replaced: labelled(&families::CACHE_REVALIDATIONS, "replaced"),
            revalidation_failed: labelled(&families::CACHE_REVALIDATIONS, "failed"),
            parts_dropped: plain(&families::CACHE_PARTS_DROPPED),
            misses: LabelledCounters::new(&source, &families::CACHE_MISSES),
            passes: LabelledCounters::new(&source, &families::CACHE_PASSES),
            keyless: LabelledCounters::new(&source, &families::CACHE_PASSES),
            unstored: LabelledCounters::new(&source, &families::CACHE_UNSTORED),
            derived: LabelledCounters::new(&source, &families::CACHE_DERIVED),
            took: std::array::from_fn(|_| OnceCell::new()),
            owner_asked: LabelledCounters::new(&source, &families::CACHE_OWNER_REQUESTS),
            owner_answered: LabelledCounters::new(&source, &families::CACHE_OWNER_RESPONSES),
        }
    }

    /// Counts a request to the owner of a key.
    pub(crate) fn owner_asked(&self, result: OwnerResult) {
        self.owner_asked.add(result as usize, result.slug(), 1);
    }

    /// Counts a response to a server that asked this one as the owner of a key.
    pub(crate) fn owner_answered(&self, result: OwnerResult) {
        self.owner_answered.add(result as usize, result.slug(), 1);
    }

    /// Counts a request that waits for the origin.
    pub(crate) fn missed(&self, why: Forward) {
        self.misses.add(why as usize, why.token(), 1);
    }

    /// Counts a request that is forwarded.
    pub(crate) fn count_forwarded(&self, why: UncachedReason) {
        self.passes.add(why as usize, why.slug(), 1);
    }

    /// Counts a request that is forwarded because it has no key.
    pub(crate) fn passed_keyless(&self, why: KeyError) {
        self.keyless.add(why as usize % KEYLESS, why.slug(), 1);
    }

    /// Counts a response that is not stored.
    pub(crate) fn not_stored(&self, why: UncachedReason) {
        self.unstored.add(why as usize, why.slug(), 1);
    }

    /// Counts a finished transcode.
    pub(crate) fn derived(&self, coding: Option<Coding>, took_us: u64, bytes: u64) {
        let at = coding.map_or(DERIVED - 1, |coding| coding as usize);
        let token = coding.map_or("identity", Coding::token);
        let MetricSource { telemetry, worker, cache } = &self.derived.source;
        let family = &families::CACHE_DERIVE;
        let new_counter = || telemetry.worker_histogram(*worker, family, &[cache, token]);
        self.took[at].get_or_init(new_counter).record_us(took_us);
        self.derived.add(at, token, bytes);
    }
}

/// Metrics of one store, updated before they are read.
pub(crate) struct StoreMetrics {
    objects: Arc<SharedGauge>,
    memory: Arc<SharedGauge>,
    memory_limit: Arc<SharedGauge>,
    stored: Arc<SharedCounter>,
    removed: [Arc<SharedCounter>; store::RemovalReason::ALL.len()],
    /// The values of the last update: counters are given differences.
    last: Mutex<StoreStats>,
}

impl StoreMetrics {
    pub(crate) fn new(telemetry: &Telemetry, cache: &str) -> StoreMetrics {
        let gauge = |family| telemetry.gauge(family, &[cache]);
        StoreMetrics {
            objects: gauge(&families::CACHE_OBJECTS),
            memory: gauge(&families::CACHE_MEMORY),
            memory_limit: gauge(&families::CACHE_MEMORY_LIMIT),
            stored: telemetry.counter(&families::CACHE_STORED, &[cache]),
            removed: store::RemovalReason::ALL
                .map(|why| telemetry.counter(&families::CACHE_REMOVED, &[cache, why.slug()])),
            last: Mutex::default(),
        }
    }

    pub(crate) fn update(&self, stats: StoreStats) {
        let level = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.objects.set(level(stats.objects));
        self.memory.set(level(stats.bytes));
        self.memory_limit.set(level(stats.memory_bytes));
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        self.stored.add(stats.inserted.saturating_sub(last.inserted));
        for (at, counter) in self.removed.iter().enumerate() {
            counter.add(stats.left[at].saturating_sub(last.left[at]));
        }
        *last = stats;
    }
}

/// Metrics of a disk tier.
pub(crate) struct DiskMetrics {
    objects: Arc<SharedGauge>,
    bytes: Arc<SharedGauge>,
    limit: Arc<SharedGauge>,
    deleted: Arc<SharedGauge>,
    working: Arc<SharedGauge>,
    reads: Arc<SharedCounter>,
    writes: Arc<SharedCounter>,
    dropped: Arc<SharedCounter>,
    failures: [Arc<SharedCounter>; 2],
    /// The values of the last update.
    last: Mutex<DiskStats>,
}

impl DiskMetrics {
    pub(crate) fn new(telemetry: &Telemetry, cache: &str) -> DiskMetrics {
        let gauge = |family| telemetry.gauge(family, &[cache]);
        let counter = |family| telemetry.counter(family, &[cache]);
        DiskMetrics {
            objects: gauge(&families::CACHE_DISK_OBJECTS),
            bytes: gauge(&families::CACHE_DISK),
            limit: gauge(&families::CACHE_DISK_LIMIT),
            deleted: gauge(&families::CACHE_DISK_DELETED),
            working: gauge(&families::CACHE_DISK_WORKING),
            reads: counter(&families::CACHE_DISK_READS),
            writes: counter(&families::CACHE_DISK_WRITES),
            dropped: counter(&families::CACHE_DISK_DROPPED),
            failures: ["damaged", "error"]
                .map(|why| telemetry.counter(&families::CACHE_DISK_FAILURES, &[cache, why])),
            last: Mutex::default(),
        }
    }

    pub(crate) fn update(&self, stats: DiskStats) {
        let level = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        self.objects.set(level(stats.objects));
        self.bytes.set(level(stats.bytes));
        self.limit.set(level(stats.size_bytes));
        self.deleted.set(level(stats.deleted_bytes));
        self.working.set(i64::from(stats.state != DiskState::Failing));
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        // Another directory counts from zero.
        self.reads.add(stats.found.saturating_sub(last.found));
        self.writes.add(stats.written.saturating_sub(last.written));
        self.dropped.add(stats.dropped.saturating_sub(last.dropped));
        self.failures[0].add(stats.damaged.saturating_sub(last.damaged));
        self.failures[1].add(stats.errors.saturating_sub(last.errors));
        *last = stats;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use telemetry::Value;

    #[test]
    fn counters_take_only_what_was_added_since() {
        let telemetry = Telemetry::new();
        let metrics = StoreMetrics::new(&telemetry, "pages");
        let mut stats = StoreStats { objects: 3, bytes: 100, inserted: 5, ..StoreStats::default() };
        stats.left[store::RemovalReason::Size as usize] = 2;
        metrics.update(stats.clone());
        (stats.objects, stats.inserted) = (4, 7);
        metrics.update(stats);
        let value = |family: &Family, labels: &[&str]| {
            let all = telemetry.collect();
            let found = all.iter().find(|found| found.family.name == family.name).unwrap();
            found.samples.iter().find(|sample| sample.labels == labels).unwrap().value.clone()
        };
        assert_eq!(value(&families::CACHE_OBJECTS, &["pages"]), Value::Gauge(4));
        assert_eq!(value(&families::CACHE_STORED, &["pages"]), Value::Counter(7));
        assert_eq!(value(&families::CACHE_REMOVED, &["pages", "size"]), Value::Counter(2));
    }
}
