//! Codings under way: one per content and coding, whoever asks, on whichever worker.
//!
//! Promises that a coding which ends without a result, its worker being gone, sets everybody free;
//! that no more are made at a time than [`MAKING_PER_CORE`] per core of the machine, whatever the
//! caches, the others waiting for their turn; and that a bounded number does. The better ones are
//! made only when nothing else is.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;

use exchange::BackgroundPermit;
use net::clock::precise_us;
use tokio::sync::{Semaphore, watch};

use super::make::{Unfit, make};
use super::{Target, find, index, object};
use crate::limits::{MAKING_PER_CORE, MAKING_WAITING_MAX};
use crate::metrics::Metrics;
use crate::{Cache, CodingSettings, Object};

/// How many may be made at a time in the whole process.
static TURNS_MAX: LazyLock<usize> =
    LazyLock::new(|| available_parallelism().map_or(1, |cores| cores.get()) * MAKING_PER_CORE);

/// The turns to make one.
static TURNS: LazyLock<Semaphore> = LazyLock::new(|| Semaphore::new(*TURNS_MAX));

/// What became of it; nothing yet.
type News = Option<Option<Arc<Object>>>;

/// What one cache's codings are made of: version, and coding.
type Work = (u64, u8);

/// The codings under way of one cache.
#[derive(Default)]
pub(crate) struct Making(Mutex<HashMap<Work, watch::Receiver<News>>>);

/// A coding that is asked for.
pub(crate) struct Order<'a> {
    pub(crate) cache: &'a Arc<Cache>,
    pub(crate) metrics: &'a std::rc::Rc<Metrics>,
    pub(crate) settings: &'a CodingSettings,
    pub(crate) canonical: &'a Arc<Object>,
    pub(crate) target: Target,
}

/// What an order came to.
pub(crate) enum Started {
    /// It is there.
    Ready(Arc<Object>),
    /// It is being made.
    UnderWay(Waiter),
    /// Too much is under way.
    No,
}

/// Hears when a coding is made.
pub(crate) struct Waiter(watch::Receiver<News>);

impl Waiter {
    /// The coding; `None` if there will be none.
    pub(crate) async fn made(mut self) -> Option<Arc<Object>> {
        self.0.wait_for(Option::is_some).await.ok().and_then(|news| news.clone().flatten())
    }
}

/// Work in the table, until it is dropped.
struct Listed {
    making: Arc<Making>,
    work: Work,
}

impl Drop for Listed {
    fn drop(&mut self) {
        self.making.lock().remove(&self.work);
    }
}

impl Making {
    fn lock(&self) -> MutexGuard<'_, HashMap<Work, watch::Receiver<News>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Order<'_> {
    /// Has it made, unless somebody does.
    pub(crate) fn start(&self) -> Started {
        let Some(response) = self.canonical.response() else { return Started::No };
        let making = self.cache.making();
        let work = (response.version, index(self.target));
        let mut table = making.lock();
        if let Some(news) = table.get(&work) {
            return Started::UnderWay(Waiter(news.clone()));
        }
        // It may have been made since the caller looked.
        if let Some(made) = find(self.cache.store(), self.canonical, self.target) {
            return Started::Ready(made);
        }
        let level = self.target.map_or(0, |coding| self.settings.levels.of(coding));
        if table.len() >= MAKING_WAITING_MAX {
            return Started::No;
        }
        let Some(seat) = BackgroundPermit::take() else { return Started::No };
        let (tell, news) = watch::channel(None);
        table.insert(work, news.clone());
        drop(table);
        let listed = Listed { making: making.clone(), work };
        let run = self.run(level, None, listed, tell);
        let in_turn = async {
            // Held until it is made; the semaphore is never closed.
            let _turn = TURNS.acquire().await;
            run.await;
        };
        seat.run(in_turn).let_go();
        Started::UnderWay(Waiter(news))
    }

    /// Has a better one made in the place of `made`, if nothing else is being made.
    pub(crate) fn improve(&self, made: &Object) {
        let Some(coding) = self.target else { return };
        let level = self.settings.best_levels.of(coding);
        let (Some(of), Some(known)) = (self.canonical.response(), made.response()) else { return };
        if level <= self.settings.levels.of(coding) || made.life.was_tried(index(self.target)) {
            return;
        }
        let making = self.cache.making();
        let work = (of.version, index(self.target));
        let mut table = making.lock();
        if table.contains_key(&work) {
            return;
        }
        if TURNS.available_permits() < *TURNS_MAX {
            return;
        }
        let Ok(turn) = TURNS.try_acquire() else { return };
        let Some(seat) = BackgroundPermit::take() else { return };
        made.life.try_once(index(self.target));
        let (tell, news) = watch::channel(None);
        table.insert(work, news);
        drop(table);
        let listed = Listed { making: making.clone(), work };
        let run = self.run(level, Some(known.content.len()), listed, tell);
        let in_turn = async move {
            let _turn = turn;
            run.await;
        };
        seat.run(in_turn).let_go();
    }

    /// Makes it, stores it and says so.
    fn run(
        &self,
        level: u32,
        shorter_than: Option<u64>,
        listed: Listed,
        tell: watch::Sender<News>,
    ) -> impl Future<Output = ()> + 'static {
        let (cache, metrics) = (self.cache.clone(), self.metrics.clone());
        let (canonical, target) = (self.canonical.clone(), self.target);
        // What is longer is not stored either.
        let bytes_max = self.settings.max_size.bytes().min(cache.store().object_bytes_max());
        async move {
            // The content, what it unpacks to, and what is made of that.
            let (length, coded) = canonical
                .response()
                .map_or((0, false), |response| (response.content.len(), response.coding.is_some()));
            let plain = if coded { bytes_max } else { 0 };
            let Some(share) = cache.fills().share(2 * length + plain) else {
                drop(listed);
                tell.send_replace(Some(None));
                return;
            };
            let of = canonical.clone();
            let begun_us = precise_us();
            let made = net::blocking(move || {
                let response = of.response().ok_or(Unfit::Failed)?;
                let content = make(response, target, level, bytes_max, shorter_than);
                // This thread may have nothing to do for long, or be one of many.
                net::release_free_memory();
                Ok((object(&of, response, target, content?), precise_us()))
            });
            let stored = match made.await {
                Ok(Ok((made, ended_us))) => {
                    let bytes = made.response().map_or(0, |made| made.content.len());
                    metrics.derived(target, ended_us.saturating_sub(begun_us), bytes);
                    if shorter_than.is_some() {
                        made.life.try_once(index(target));
                    }
                    cache.store().insert_derived(made).ok()
                }
                Ok(Err(Unfit::Damaged)) => {
                    cache.remove_damaged(&canonical);
                    None
                }
                Ok(Err(Unfit::TooLong | Unfit::NoShorter)) if shorter_than.is_none() => {
                    canonical.life.try_once(index(target));
                    None
                }
                _ => None,
            };
            drop(share);
            // Those who come from now on find it in the store.
            drop(listed);
            tell.send_replace(Some(stored));
        }
    }
}
