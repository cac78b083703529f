//! Transcodes in flight: one per content and coding, whichever requests need it.
//!
//! Promises that waiters are released if a transcode ends without a result, that no more run than
//! [`TRANSCODES_PER_CORE`] per core, over all caches, and that a bounded number waits. Transcodes
//! at the best level run only when no other does.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;

use net::clock::precise_us;
use plugin::BackgroundPermit;
use tokio::sync::{Semaphore, watch};

use super::convert::{TranscodeError, convert};
use super::{TargetCoding, find, index, object};
use crate::limits::{TRANSCODES_MAX, TRANSCODES_PER_CORE};
use crate::metrics::CacheMetrics;
use crate::{Cache, CodingSettings, Object};

/// The number of transcodes at a time in the whole process.
static PERMITS_MAX: LazyLock<usize> =
    LazyLock::new(|| available_parallelism().map_or(1, |cores| cores.get()) * TRANSCODES_PER_CORE);

/// The permits to run one.
static PERMITS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(*PERMITS_MAX));

/// The result, once there is one; `None` inside if there is no coding.
type TranscodeResult = Option<Option<Arc<Object>>>;

/// Version of the content, and index of the coding.
type TranscodeKey = (u64, u8);

/// The transcodes in flight of one cache.
#[derive(Default)]
pub(crate) struct Transcodes(Mutex<HashMap<TranscodeKey, watch::Receiver<TranscodeResult>>>);

/// A coding that is needed.
pub(crate) struct TranscodeRequest<'a> {
    pub(crate) cache: &'a Arc<Cache>,
    pub(crate) metrics: &'a std::rc::Rc<CacheMetrics>,
    pub(crate) settings: &'a CodingSettings,
    pub(crate) canonical: &'a Arc<Object>,
    pub(crate) target: TargetCoding,
}

/// The result of starting a transcode.
pub(crate) enum TranscodeStart {
    /// The coding exists.
    Ready(Arc<Object>),
    /// The coding is being made.
    InFlight(TranscodeWaiter),
    /// Too many transcodes are in flight.
    Rejected,
}

/// Waits for a transcode.
pub(crate) struct TranscodeWaiter(watch::Receiver<TranscodeResult>);

impl TranscodeWaiter {
    /// Waits for the coding; `None` if there is none.
    pub(crate) async fn finished(mut self) -> Option<Arc<Object>> {
        self.0.wait_for(Option::is_some).await.ok().and_then(|receiver| receiver.clone().flatten())
    }
}

/// An entry of the table, removed when dropped.
struct InFlightGuard {
    transcodes: Arc<Transcodes>,
    work: TranscodeKey,
}

impl Drop for InFlightGuard {
    fn drop(&mut self) {
        self.transcodes.lock().remove(&self.work);
    }
}

impl Transcodes {
    fn lock(&self) -> MutexGuard<'_, HashMap<TranscodeKey, watch::Receiver<TranscodeResult>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TranscodeRequest<'_> {
    /// Starts the transcode, unless it is in flight.
    pub(crate) fn start(&self) -> TranscodeStart {
        let Some(response) = self.canonical.response() else { return TranscodeStart::Rejected };
        let transcodes = self.cache.transcodes();
        let work = (response.version, index(self.target));
        let mut table = transcodes.lock();
        if let Some(receiver) = table.get(&work) {
            return TranscodeStart::InFlight(TranscodeWaiter(receiver.clone()));
        }
        // It may have been made since the caller looked it up.
        if let Some(made) = find(self.cache.store(), self.canonical, self.target) {
            return TranscodeStart::Ready(made);
        }
        let level = self.target.map_or(0, |coding| self.settings.levels.of(coding));
        if table.len() >= TRANSCODES_MAX {
            return TranscodeStart::Rejected;
        }
        let Some(seat) = BackgroundPermit::take() else { return TranscodeStart::Rejected };
        let (sender, receiver) = watch::channel(None);
        table.insert(work, receiver.clone());
        drop(table);
        let listed = InFlightGuard { transcodes: transcodes.clone(), work };
        let run = self.run(level, None, listed, sender);
        let in_turn = async {
            // Held until the transcode ends; the semaphore is never closed.
            let _turn = PERMITS.acquire().await;
            run.await;
        };
        seat.run(in_turn).detach();
        TranscodeStart::InFlight(TranscodeWaiter(receiver))
    }

    /// Replaces `made` by a transcode at the best level, if no other is running.
    pub(crate) fn transcode_at_best(&self, made: &Object) {
        let Some(coding) = self.target else { return };
        let level = self.settings.best_levels.of(coding);
        let (Some(of), Some(known)) = (self.canonical.response(), made.response()) else { return };
        if level <= self.settings.levels.of(coding) || made.state.was_tried(index(self.target)) {
            return;
        }
        let transcodes = self.cache.transcodes();
        let work = (of.version, index(self.target));
        let mut table = transcodes.lock();
        if table.contains_key(&work) {
            return;
        }
        if PERMITS.available_permits() < *PERMITS_MAX {
            return;
        }
        let Ok(turn) = PERMITS.try_acquire() else { return };
        let Some(seat) = BackgroundPermit::take() else { return };
        made.state.mark_tried(index(self.target));
        let (sender, receiver) = watch::channel(None);
        table.insert(work, receiver);
        drop(table);
        let listed = InFlightGuard { transcodes: transcodes.clone(), work };
        let run = self.run(level, Some(known.content.len()), listed, sender);
        let in_turn = async move {
            let _turn = turn;
            run.await;
        };
        seat.run(in_turn).detach();
    }

    /// Runs the transcode, stores the result and publishes it.
    fn run(
        &self,
        level: u32,
        shorter_than: Option<u64>,
        listed: InFlightGuard,
        sender: watch::Sender<TranscodeResult>,
    ) -> impl Future<Output = ()> + 'static {
        let (cache, metrics) = (self.cache.clone(), self.metrics.clone());
        let (canonical, target) = (self.canonical.clone(), self.target);
        // A longer result would not be stored.
        let bytes_max = self.settings.max_size.bytes().min(cache.store().object_bytes_max());
        async move {
            // The content, its decoded form, and the result.
            let (length, coded) = canonical
                .response()
                .map_or((0, false), |response| (response.content.len(), response.coding.is_some()));
            let plain = if coded { bytes_max } else { 0 };
            let Some(share) = cache.fill_budget().share(2 * length + plain) else {
                drop(listed);
                sender.send_replace(Some(None));
                return;
            };
            let of = canonical.clone();
            let begun_us = precise_us();
            let made = net::blocking(move || {
                let response = of.response().ok_or(TranscodeError::Failed)?;
                let content = convert(response, target, level, bytes_max, shorter_than);
                // This thread may be idle for long, and is one of many.
                net::release_free_memory();
                Ok((object(&of, response, target, content?), precise_us()))
            });
            let stored = match made.await {
                Ok(Ok((made, ended_us))) => {
                    let bytes = made.response().map_or(0, |made| made.content.len());
                    if shorter_than.is_some() {
                        made.state.mark_tried(index(target));
                    }
                    let stored = cache.store().insert_derived(made).ok();
                    // What is counted can be found.
                    metrics.derived(target, ended_us.saturating_sub(begun_us), bytes);
                    stored
                }
                Ok(Err(TranscodeError::Damaged)) => {
                    cache.remove_damaged(&canonical);
                    None
                }
                Ok(Err(TranscodeError::TooLong | TranscodeError::NotShorter))
                    if shorter_than.is_none() =>
                {
                    canonical.state.mark_tried(index(target));
                    None
                }
                _ => None,
            };
            drop(share);
            // Requests from now on find it in the store.
            drop(listed);
            sender.send_replace(Some(stored));
        }
    }
}
