//! Fetches under way: one per key, whoever asks, on whichever worker.
//!
//! Owns the table of them. Whoever boards first leads and fetches, the others wait for its news.
//! Promises that a fetch which ends without news (its leader was dropped) sets everybody free, that
//! nobody joins one that began before what it fetches was purged, and that there are at most
//! [`limits::IN_FLIGHT_MAX`](crate::limits::IN_FLIGHT_MAX). RequestDirectives only by requests that
//! the store had no answer for, so its locks are on no hit's way.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exchange::Fault;
use hashbrown::HashTable;
use tokio::sync::watch;

use crate::fill::StreamingResponse;
use crate::limits::IN_FLIGHT_MAX;
use crate::store::PurgeEpoch;
use crate::{Key, Object};

const SHARDS: usize = 64;

/// What became of a fetch.
#[derive(Clone)]
pub(crate) enum FetchResult {
    /// The head is here and may be shared; the content grows.
    Streaming(Arc<StreamingResponse>),
    /// It has been stored: what was stale is valid again.
    Revalidated(Arc<Object>),
    /// It is for the leader alone: the others go for themselves.
    Unshared,
    /// The fetch failed, for all who waited for it.
    Failed(Fault),
}

/// The fetches under way of one cache.
pub(crate) struct SingleFlight {
    shards: Box<[Mutex<HashTable<Entry>>]>,
    count: AtomicUsize,
}

struct Entry {
    hash: u64,
    key: Box<[u8]>,
    fetch: Arc<InFlight>,
}

struct InFlight {
    news: watch::Sender<Option<FetchResult>>,
    /// When it began, in purges.
    begun: PurgeEpoch,
}

/// What a request is to its key's fetch.
pub(crate) enum Join {
    /// It has to fetch.
    Leader(Leader),
    /// Somebody does.
    Follower(Follower),
    /// There are too many single_flight to begin one more.
    Full,
}

/// The right to fetch for a key, and the duty to say what became of it.
pub(crate) struct Leader {
    single_flight: Arc<SingleFlight>,
    fetch: Arc<InFlight>,
    /// Where it stands in the table; `None` once nobody shall join any more.
    place: Option<(u64, Box<[u8]>)>,
}

/// Hears what becomes of a fetch. A fetch knows how many hear.
pub(crate) struct Follower {
    news: watch::Receiver<Option<FetchResult>>,
    /// When the fetch began, in purges, and when it was joined.
    begun: PurgeEpoch,
    joined: PurgeEpoch,
}

impl Default for SingleFlight {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        SingleFlight { shards, count: AtomicUsize::new(0) }
    }
}

impl SingleFlight {
    fn shard(&self, hash: u64) -> MutexGuard<'_, HashTable<Entry>> {
        // The low bits choose the place in a shard.
        let shard = (hash >> 48) as usize % self.shards.len();
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leads a fetch for `key`, or hears of the one under way. `begun` is the store's token of
    /// now; a fetch for which `is_current` is not true any more is not joined, and this one takes
    /// its place.
    pub(crate) fn join(
        self: &Arc<Self>,
        key: &Key,
        begun: PurgeEpoch,
        is_current: impl Fn(PurgeEpoch, Option<&FetchResult>) -> bool,
    ) -> Join {
        let (hash, text) = (key.hash(), key.text());
        let mut shard = self.shard(hash);
        let known = shard.find_mut(hash, |entry| *entry.key == *text);
        if let Some(entry) = &known
            && is_current(entry.fetch.begun, entry.fetch.news.borrow().as_ref())
        {
            return Join::Follower(entry.fetch.follower(begun));
        }
        if known.is_none() && self.count.load(Ordering::Relaxed) >= IN_FLIGHT_MAX {
            return Join::Full;
        }
        let fetch = Arc::new(InFlight { news: watch::Sender::new(None), begun });
        match known {
            Some(entry) => entry.fetch = fetch.clone(),
            None => self.insert(&mut shard, hash, text, &fetch),
        }
        drop(shard);
        Join::Leader(Leader {
            single_flight: self.clone(),
            fetch,
            place: Some((hash, text.into())),
        })
    }

    /// Leads a fetch that nobody can join.
    pub(crate) fn unshared(self: &Arc<Self>, begun: PurgeEpoch) -> Leader {
        let fetch = Arc::new(InFlight { news: watch::Sender::new(None), begun });
        Leader { single_flight: self.clone(), fetch, place: None }
    }

    /// Whether a fetch for `key` is under way.
    #[cfg(test)]
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.shard(key.hash()).find(key.hash(), |entry| *entry.key == *key.text()).is_some()
    }

    /// How many fetches are under way that others may join.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn insert(&self, shard: &mut HashTable<Entry>, hash: u64, key: &[u8], fetch: &Arc<InFlight>) {
        let entry = Entry { hash, key: key.into(), fetch: fetch.clone() };
        shard.insert_unique(hash, entry, |entry| entry.hash);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a fetch from its place, unless another one has taken that over.
    fn remove(&self, (hash, key): &(u64, Box<[u8]>), fetch: &Arc<InFlight>) {
        let mut shard = self.shard(*hash);
        let own = |entry: &Entry| entry.key == *key && Arc::ptr_eq(&entry.fetch, fetch);
        if let Ok(entry) = shard.find_entry(*hash, own) {
            entry.remove();
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl InFlight {
    fn follower(&self, joined: PurgeEpoch) -> Follower {
        Follower { news: self.news.subscribe(), begun: self.begun, joined }
    }
}

impl Leader {
    /// When it began, in purges.
    pub(crate) fn begun(&self) -> PurgeEpoch {
        self.fetch.begun
    }

    /// One who hears of it: the leader's own client.
    pub(crate) fn follower(&self) -> Follower {
        self.fetch.follower(self.fetch.begun)
    }

    /// How many wait.
    pub(crate) fn followers(&self) -> usize {
        self.fetch.news.receiver_count()
    }

    /// Ready when nobody waits.
    pub(crate) async fn abandoned(&self) {
        self.fetch.news.closed().await;
    }

    /// Says what became of it, to those who wait and to those who join.
    pub(crate) fn publish(&self, result: FetchResult) {
        self.fetch.news.send_replace(Some(result));
    }

    /// Says what became of it to those who wait. Nobody joins any more.
    pub(crate) fn publish_last(&mut self, result: FetchResult) {
        self.close();
        self.publish(result);
    }

    /// It turned out to be for `key`, one variant of what it joined for, or nobody could join so
    /// far: who asks for that key may join from now on, and only he. Whether it has that place:
    /// another fetch may have it.
    pub(crate) fn rekey(&mut self, key: &Key) -> bool {
        let (hash, text) = (key.hash(), key.text());
        if self.place.as_ref().is_some_and(|(_, place)| **place == *text) {
            return true;
        }
        self.close();
        let mut shard = self.single_flight.shard(hash);
        let free = shard.find(hash, |entry| *entry.key == *text).is_none();
        if free {
            self.single_flight.insert(&mut shard, hash, text, &self.fetch);
            self.place = Some((hash, text.into()));
        }
        free
    }

    /// Nobody joins any more.
    pub(crate) fn close(&mut self) {
        if let Some(place) = self.place.take() {
            self.single_flight.remove(&place, &self.fetch);
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.close();
    }
}

impl Follower {
    /// When the fetch began, if something was purged between then and the boarding: by which tags
    /// what comes can be purged is known only when it is here.
    pub(crate) fn joined_after_purge(&self) -> Option<PurgeEpoch> {
        (self.begun != self.joined).then_some(self.begun)
    }

    /// The news; `None` if the fetch ended without.
    pub(crate) async fn result(&mut self) -> Option<FetchResult> {
        self.news.wait_for(Option::is_some).await.ok().and_then(|result| result.clone())
    }
}

#[cfg(test)]
mod tests;
