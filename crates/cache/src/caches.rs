//! All caches of the process, by name.
//!
//! `server` applies the caches of every new plan here before its workers build their filters;
//! filters and the admin API find their cache by name. Stored content stays while the name does,
//! whatever else of the settings changes. A cache that the new plan does not name lives until the
//! last filter of an old plan is gone.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use message::Headers;
use plugin::Shared;
use telemetry::Telemetry;
use telemetry::log::Level;
use tokio::sync::mpsc;
use wire::Known;

use crate::fill::FillBudget;
use crate::metrics::{DiskMetrics, StoreMetrics};
use crate::settings::CacheSettings;
use crate::shared_purges::{LogProgress, OutgoingPurge, PurgeOutbox};
use crate::single_flight::SingleFlight;
use crate::store::{RemovalReason, Store};
use crate::transcode::{self, Transcodes};
use crate::{Key, Object, parts_key};

/// The registry of caches. The process has one, in its [`Shared`] state; `server` holds it.
#[derive(Default)]
pub struct Caches {
    // Locked when a plan is applied or built and by the admin API, never for a request.
    caches: Mutex<BTreeMap<String, Arc<Cache>>>,
    /// True if purges are shared with other servers.
    shares_purges: AtomicBool,
    outbox: Arc<PurgeOutbox>,
    fleet: FleetState,
}

/// What this process tells other servers about itself.
#[derive(Clone)]
struct FleetState {
    /// Distinguishes it from the others.
    process: u64,
    progress: Arc<LogProgress>,
}

impl Default for FleetState {
    fn default() -> FleetState {
        FleetState { process: fastrand::u64(..), progress: Arc::default() }
    }
}

/// One entry of `caches:`. It outlives plans, and all workers share it.
pub struct Cache {
    name: Box<str>,
    store: Store,
    single_flight: Arc<SingleFlight>,
    fill_budget: Arc<FillBudget>,
    transcodes: Arc<Transcodes>,
    metrics: StoreMetrics,
    /// The metrics of the disk tier, if there is one.
    disk_metrics: Mutex<Option<DiskMetrics>>,
    settings: Mutex<CacheSettings>,
    outbox: Arc<PurgeOutbox>,
    fleet: FleetState,
}

impl Cache {
    fn new(
        name: &str,
        settings: &CacheSettings,
        telemetry: &Telemetry,
        (outbox, fleet): (Arc<PurgeOutbox>, FleetState),
    ) -> Cache {
        let cache = Cache {
            name: name.into(),
            store: Store::new(settings.memory.bytes()),
            single_flight: Arc::default(),
            fill_budget: Arc::new(FillBudget::new(settings.memory.bytes())),
            transcodes: Arc::default(),
            metrics: StoreMetrics::new(telemetry, name),
            disk_metrics: Mutex::default(),
            settings: Mutex::new(settings.clone()),
            outbox,
            fleet,
        };
        cache.apply_disk(settings, telemetry);
        cache
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Where the method PURGE sends purges that are shared.
    pub(crate) fn outbox(&self) -> &PurgeOutbox {
        &self.outbox
    }

    /// How far this server is in the log of purges.
    pub(crate) fn log_progress(&self) -> &LogProgress {
        &self.fleet.progress
    }

    /// The number of this process, for other servers.
    pub(crate) fn process(&self) -> u64 {
        self.fleet.process
    }

    /// Prepares for storing responses of other servers.
    pub(crate) fn stores_of_owners(&self) {
        self.store.remember_local_purges();
        self.fleet.progress.set_used();
    }

    /// The fetches in flight.
    pub(crate) fn single_flight(&self) -> &Arc<SingleFlight> {
        &self.single_flight
    }

    /// The memory that fetches and decoders may take together.
    pub(crate) fn fill_budget(&self) -> &Arc<FillBudget> {
        &self.fill_budget
    }

    /// The codings that are being made.
    pub(crate) fn transcodes(&self) -> &Arc<Transcodes> {
        &self.transcodes
    }

    /// The settings of the plan in use.
    pub fn settings(&self) -> CacheSettings {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Loads an object from disk into memory. Returns false if there is none, or no memory to read
    /// it.
    pub(crate) async fn load_from_disk(&self, key: &Key) -> bool {
        let Some((stored, begun)) = self.store.find_on_disk(key) else { return false };
        let Some(share) = self.fill_budget.share(stored.memory_bytes()) else { return false };
        let wanted = key.clone();
        let read = net::blocking(move || stored.read(&wanted)).await;
        drop(share);
        let Ok(Some(object)) = read else { return false };
        self.store.insert_from_disk(object, begun).is_ok()
    }

    /// Removes a response that does not decode, so that it is fetched again.
    pub(crate) fn remove_damaged(&self, object: &Arc<Object>) {
        object.state.set_damaged();
        let (hash, key) = (object.key.hash(), object.key.text());
        // Another object may be stored under its key by now.
        let is_it = |stored: Arc<Object>| transcode::is_same(&stored, object);
        if !self.store.peek(hash, key).is_some_and(is_it) {
            return;
        }
        self.store.remove_because(hash, key, RemovalReason::Damaged);
        let url = object.key.url();
        let path = &url[..memchr::memchr(b'?', url).unwrap_or(url.len())];
        telemetry::event_limited!(
            10,
            Level::Warn,
            "stored response does not decode: removed from the cache, fetching it again",
            cache = self.name,
            url = String::from_utf8_lossy(path)
        );
    }

    /// Removes stored parts that a response of the origin contradicts: a whole or a part under
    /// another validator, or 404 or 410.
    pub(crate) fn drop_other_parts(&self, key: &Key, status: u16, headers: &Headers) {
        let key = parts_key(key);
        let Some(known) = self.store.peek(key.hash(), key.text()) else { return };
        let known = known.response().map(|known| known.head.headers());
        let same = known.is_some_and(|known| known.get(Known::Etag) == headers.get(Known::Etag));
        if matches!(status, 404 | 410) || (status / 100 == 2 && !same) {
            self.store.remove_because(key.hash(), key.text(), RemovalReason::Replaced);
        }
    }

    /// Opens, resizes or closes the disk tier as the settings say.
    fn apply_disk(&self, settings: &CacheSettings, telemetry: &Telemetry) {
        let tier = settings.disk.as_ref().map(|disk| (disk.path.as_ref(), disk.size.bytes()));
        if let Err(error) = self.store.set_disk(&self.name, tier) {
            telemetry::event!(
                Level::Error,
                "disk cache disabled, serving from memory",
                cache = self.name,
                why = "its thread cannot be started",
                error = error
            );
        }
        let mut metrics = self.disk_metrics();
        match tier {
            None => *metrics = None,
            Some(_) if metrics.is_none() => {
                *metrics = Some(DiskMetrics::new(telemetry, &self.name))
            }
            Some(_) => {}
        }
    }

    fn disk_metrics(&self) -> MutexGuard<'_, Option<DiskMetrics>> {
        self.disk_metrics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Updates the metrics of the store.
    fn update(&self) {
        self.metrics.update(self.store.stats());
        if let (Some(stats), Some(metrics)) = (self.store.disk_stats(), &*self.disk_metrics()) {
            metrics.update(stats);
        }
    }

    /// Applies new settings; stored content stays as far as it fits.
    fn apply(&self, settings: &CacheSettings, telemetry: &Telemetry) {
        self.store.set_memory(settings.memory.bytes());
        self.apply_disk(settings, telemetry);
        self.fill_budget.set(settings.memory.bytes());
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = settings.clone();
    }
}

impl Caches {
    /// Returns the registry of the process. [`Shared`] keeps it only as long as something holds it:
    /// the server does, for its whole life.
    pub fn of(shared: &Shared) -> Arc<Caches> {
        shared.get((), Caches::default)
    }

    fn caches(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Cache>>> {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies the caches of a plan. To be called before the workers build their filters.
    pub fn apply<'a>(
        &self,
        plan: impl IntoIterator<Item = (&'a str, &'a CacheSettings)>,
        telemetry: &Telemetry,
    ) {
        let mut caches = self.caches();
        let mut kept = BTreeMap::new();
        for (name, settings) in plan {
            let cache = match caches.remove(name) {
                Some(cache) => {
                    cache.apply(settings, telemetry);
                    cache
                }
                None => self.make(name, settings, telemetry),
            };
            cache.store.purges().follow(self.shares_purges.load(Ordering::Relaxed));
            kept.insert(name.to_owned(), cache);
        }
        *caches = kept;
    }

    fn make(&self, name: &str, settings: &CacheSettings, telemetry: &Telemetry) -> Arc<Cache> {
        let cache =
            Cache::new(name, settings, telemetry, (self.outbox.clone(), self.fleet.clone()));
        cache.store.purges().follow(self.shares_purges.load(Ordering::Relaxed));
        Arc::new(cache)
    }

    /// Whether the caches of the next plan share purges with other servers: nothing in them is used
    /// until they have missed none. To be called before [`Caches::apply`].
    pub fn set_shares_purges(&self, shares: bool) {
        self.shares_purges.store(shares, Ordering::Relaxed);
        if !shares {
            self.outbox.close();
        }
    }

    /// Opens the queue of purges by the method PURGE, in place of an earlier one.
    pub fn outgoing_purges(&self) -> mpsc::Receiver<OutgoingPurge> {
        self.outbox.open()
    }

    /// How far this server is in the log of purges.
    pub fn log_progress(&self) -> &LogProgress {
        &self.fleet.progress
    }

    /// Updates the metrics of all stores: to be called before they are read.
    pub fn update_metrics(&self) {
        self.all().iter().for_each(|cache| cache.update());
    }

    /// Returns the cache of that name in the plan applied last.
    pub fn get(&self, name: &str) -> Option<Arc<Cache>> {
        self.caches().get(name).cloned()
    }

    /// Returns the cache of that name, or makes one with default settings if no plan names it.
    pub(crate) fn get_or_make(&self, name: &str, telemetry: &Telemetry) -> Arc<Cache> {
        let make = || self.make(name, &CacheSettings::default(), telemetry);
        self.caches().entry(name.to_owned()).or_insert_with(make).clone()
    }

    /// Returns all caches of the plan applied last, ordered by name.
    pub fn all(&self) -> Vec<Arc<Cache>> {
        self.caches().values().cloned().collect()
    }
}
