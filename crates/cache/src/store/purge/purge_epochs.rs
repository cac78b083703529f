//! Keeps purged responses out of the store.
//!
//! A purge removes what is stored; the response of a fetch that began before it must not be stored
//! after it. So a fetch begins with a [`PurgeEpoch`], and its response is stored only if no purge
//! since then covers it. This costs one comparison if nothing was purged, no lock if only URLs and
//! tags were, and a bounded amount of memory: in doubt a response is rejected.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use super::Purge;
use crate::Object;
use crate::key::url_hash;
use crate::limits::{PURGE_PREFIXES_MAX, PURGE_TIMES};

/// The number of purges when a fetch began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PurgeEpoch(u64);

impl PurgeEpoch {
    /// A time as an epoch: see [`PurgeEpochs::note_at`].
    pub(in crate::store) fn of_time(time: u64) -> PurgeEpoch {
        PurgeEpoch(time)
    }

    /// The number that is stored on disk.
    pub(in crate::store) fn bits(self) -> u64 {
        self.0
    }
}

/// The epochs of the last purges.
pub(in crate::store) struct PurgeEpochs {
    /// The number of purges so far.
    count: AtomicU64,
    all: AtomicU64,
    /// The last purge of the URLs, and of the tags, that share an entry.
    urls: Box<[AtomicU64]>,
    tags: Box<[AtomicU64]>,
    /// The last purge of a prefix, read before the lock is taken.
    prefix: AtomicU64,
    prefixes: RwLock<Prefixes>,
}

#[derive(Default)]
struct Prefixes {
    recent: VecDeque<(u64, Box<[u8]>)>,
    /// The last purge that is no longer among the recent ones.
    forgotten: u64,
}

impl PurgeEpochs {
    /// Counts from `start`, which no purge before a restart has reached.
    pub(in crate::store) fn new(start: u64) -> PurgeEpochs {
        let times = || (0..PURGE_TIMES).map(|_| AtomicU64::new(0)).collect();
        PurgeEpochs {
            count: AtomicU64::new(start),
            all: AtomicU64::new(0),
            urls: times(),
            tags: times(),
            prefix: AtomicU64::new(0),
            prefixes: RwLock::default(),
        }
    }

    /// Memory without prefixes.
    pub(in crate::store) fn bytes(&self) -> usize {
        size_of_val(&*self.urls) + size_of_val(&*self.tags)
    }

    /// The epoch of a fetch that begins now.
    pub(in crate::store) fn purge_epoch(&self) -> PurgeEpoch {
        PurgeEpoch(self.count.load(Ordering::Acquire))
    }

    /// Notes a purge before it removes anything, and returns its epoch. An insertion that takes the
    /// shard's lock before the purge does is found by the purge; one that takes it later finds this
    /// note.
    pub(in crate::store) fn note(&self, purge: &Purge<'_>) -> u64 {
        let time = self.count.fetch_add(1, Ordering::AcqRel) + 1;
        self.set(purge, time);
        time
    }

    /// Notes a purge by the time at which it is made, where epochs are times.
    pub(in crate::store) fn note_at(&self, purge: &Purge<'_>, time: u64) {
        self.count.fetch_max(time, Ordering::AcqRel);
        self.set(purge, time);
    }

    fn set(&self, purge: &Purge<'_>, time: u64) {
        match purge {
            Purge::Url(url) => {
                purge_time(&self.urls, url_hash(url)).fetch_max(time, Ordering::AcqRel)
            }
            Purge::Tags(tags) => tags
                .iter()
                .map(|tag| purge_time(&self.tags, *tag).fetch_max(time, Ordering::AcqRel))
                .fold(0, u64::max),
            Purge::All => self.all.fetch_max(time, Ordering::AcqRel),
            Purge::Prefix(prefix) => {
                let mut prefixes = self.prefixes.write().unwrap_or_else(PoisonError::into_inner);
                prefixes.recent.push_back((time, (*prefix).into()));
                if prefixes.recent.len() > PURGE_PREFIXES_MAX
                    && let Some((time, _)) = prefixes.recent.pop_front()
                {
                    prefixes.forgotten = prefixes.forgotten.max(time);
                }
                self.prefix.fetch_max(time, Ordering::AcqRel)
            }
        };
    }

    /// True if a response fetched since `begun` may be stored.
    pub(in crate::store) fn admit(
        &self,
        object: &Object,
        url_hash: u64,
        begun: PurgeEpoch,
    ) -> bool {
        let tags = object.response().map_or(&[][..], |response| &response.tags);
        self.is_current(object.key.url(), url_hash, tags, begun)
    }

    /// The same for a URL and tags.
    pub(in crate::store) fn is_current(
        &self,
        url: &[u8],
        url_hash: u64,
        tags: &[u64],
        begun: PurgeEpoch,
    ) -> bool {
        if self.count.load(Ordering::Acquire) == begun.0 {
            return true;
        }
        let later = |time: &AtomicU64| time.load(Ordering::Acquire) > begun.0;
        if later(&self.all)
            || later(purge_time(&self.urls, url_hash))
            || tags.iter().any(|tag| later(purge_time(&self.tags, *tag)))
        {
            return false;
        }
        if !later(&self.prefix) {
            return true;
        }
        let prefixes = self.prefixes.read().unwrap_or_else(PoisonError::into_inner);
        prefixes.forgotten <= begun.0
            && !prefixes
                .recent
                .iter()
                .any(|(time, prefix)| *time > begun.0 && url.starts_with(prefix))
    }
}

fn purge_time(times: &[AtomicU64], hash: u64) -> &AtomicU64 {
    &times[hash as usize & (PURGE_TIMES - 1)]
}
