//! All caches of the process, by name.
//!
//! `server` applies the caches of every new Plan here before its workers build their filters;
//! filters find their cache by name, and so does the admin API. What is in a cache stays while its
//! name does, whatever else of its settings changes; a cache that the new Plan does not name lives
//! on until the last filter of an old one is gone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exchange::{Headers, Shared};
use telemetry::Telemetry;
use telemetry::log::Level;
use wire::Known;

use crate::fill::FillBudget;
use crate::metrics::{DiskMetrics, StoreMetrics};
use crate::settings::CacheSettings;
use crate::single_flight::SingleFlight;
use crate::store::{RemovalReason, Store};
use crate::transcode::{self, Transcodes};
use crate::{Key, Object, parts_key};

/// The registry. The process has one, in its [`Shared`] state; whoever runs the process holds it.
#[derive(Default)]
pub struct Caches {
    // CacheOutcome when a Plan is applied or built and when the admin API asks, never for a
    // request.
    caches: Mutex<BTreeMap<String, Arc<Cache>>>,
}

/// One of `caches:`, which outlives Plans: all workers share it.
pub struct Cache {
    name: Box<str>,
    store: Store,
    single_flight: Arc<SingleFlight>,
    fill_budget: Arc<FillBudget>,
    transcodes: Arc<Transcodes>,
    metrics: StoreMetrics,
    /// Where there is a tier on disk.
    disk_metrics: Mutex<Option<DiskMetrics>>,
    settings: Mutex<CacheSettings>,
}

impl Cache {
    fn new(name: &str, settings: &CacheSettings, telemetry: &Telemetry) -> Cache {
        let cache = Cache {
            name: name.into(),
            store: Store::new(settings.memory.bytes()),
            single_flight: Arc::default(),
            fill_budget: Arc::new(FillBudget::new(settings.memory.bytes())),
            transcodes: Arc::default(),
            metrics: StoreMetrics::new(telemetry, name),
            disk_metrics: Mutex::default(),
            settings: Mutex::new(settings.clone()),
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

    /// The fetches under way.
    pub(crate) fn single_flight(&self) -> &Arc<SingleFlight> {
        &self.single_flight
    }

    /// What they may take together.
    pub(crate) fn fill_budget(&self) -> &Arc<FillBudget> {
        &self.fill_budget
    }

    /// The codings that are being made.
    pub(crate) fn transcodes(&self) -> &Arc<Transcodes> {
        &self.transcodes
    }

    /// What the Plan in use says of it.
    pub fn settings(&self) -> CacheSettings {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Brings an object from the disk into memory, if it is there and there is room to read it;
    /// whether it was.
    pub(crate) async fn load_from_disk(&self, key: &Key) -> bool {
        let Some((stored, begun)) = self.store.find_on_disk(key) else { return false };
        let Some(share) = self.fill_budget.share(stored.length()) else { return false };
        let run_while_wanted = key.clone();
        let read = net::blocking(move || stored.read(&run_while_wanted)).await;
        drop(share);
        let Ok(Some(object)) = read else { return false };
        self.store.insert_from_disk(object, begun).is_ok()
    }

    /// Takes out a response that does not decode, so that it is fetched again.
    pub(crate) fn remove_damaged(&self, object: &Arc<Object>) {
        object.state.set_damaged();
        let (hash, key) = (object.key.hash(), object.key.text());
        // Another one may have its place.
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
            "stored response does not decode: removed from the cache, to be fetched again",
            cache = self.name,
            url = String::from_utf8_lossy(path)
        );
    }

    /// Takes out stored parts that the origin has something else in the place of: a whole or parts
    /// under another validator, or nothing.
    pub(crate) fn drop_other_parts(&self, key: &Key, status: u16, headers: &Headers) {
        let key = parts_key(key);
        let Some(known) = self.store.peek(key.hash(), key.text()) else { return };
        let known = known.response().map(|known| known.head.headers());
        let same = known.is_some_and(|known| known.get(Known::Etag) == headers.get(Known::Etag));
        if matches!(status, 404 | 410) || (status / 100 == 2 && !same) {
            self.store.remove_because(key.hash(), key.text(), RemovalReason::Replaced);
        }
    }

    /// Uses the folder that the settings name, if they do.
    fn apply_disk(&self, settings: &CacheSettings, telemetry: &Telemetry) {
        let tier = settings.disk.as_ref().map(|disk| (disk.path.as_ref(), disk.size.bytes()));
        if let Err(error) = self.store.set_disk(&self.name, tier) {
            telemetry::event!(
                Level::Error,
                "a cache goes on without its disk",
                cache = self.name,
                why = "no thread for it",
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

    /// Brings the metrics up to date.
    fn update(&self) {
        self.metrics.update(self.store.stats());
        if let (Some(stats), Some(metrics)) = (self.store.disk_stats(), &*self.disk_metrics()) {
            metrics.update(stats);
        }
    }

    /// Takes new settings; what is stored stays as far as it fits.
    fn apply(&self, settings: &CacheSettings, telemetry: &Telemetry) {
        self.store.set_memory(settings.memory.bytes());
        self.apply_disk(settings, telemetry);
        self.fill_budget.set(settings.memory.bytes());
        *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = settings.clone();
    }
}

impl Caches {
    /// The registry of the process. [`Shared`] keeps it only as long as somebody holds it: the
    /// server does, for its whole life.
    pub fn of(shared: &Shared) -> Arc<Caches> {
        shared.get((), Caches::default)
    }

    fn caches(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Cache>>> {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the caches of a Plan, by name. To be called before the workers build their filters.
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
                None => Arc::new(Cache::new(name, settings, telemetry)),
            };
            kept.insert(name.to_owned(), cache);
        }
        *caches = kept;
    }

    /// Brings the metrics of all stores up to date: before they are read.
    pub fn update_metrics(&self) {
        self.all().iter().for_each(|cache| cache.update());
    }

    /// The cache of that name in the Plan applied last.
    pub fn get(&self, name: &str) -> Option<Arc<Cache>> {
        self.caches().get(name).cloned()
    }

    /// The cache of that name; where nobody has applied a Plan that names it, one as they are by
    /// default.
    pub(crate) fn get_or_make(&self, name: &str, telemetry: &Telemetry) -> Arc<Cache> {
        let make = || Arc::new(Cache::new(name, &CacheSettings::default(), telemetry));
        self.caches().entry(name.to_owned()).or_insert_with(make).clone()
    }

    /// All caches of the Plan applied last, in the transcode_request of their names.
    pub fn all(&self) -> Vec<Arc<Cache>> {
        self.caches().values().cloned().collect()
    }
}
