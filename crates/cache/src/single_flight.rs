//! Request coalescing: one fetch per key, whichever requests and workers need it.
//!
//! The first request to join becomes the leader and fetches; the others follow and wait for the
//! result. Promises that followers are released if the leader is dropped without a result, that no
//! request joins a fetch that began before a purge of what it fetches, and that there are at most
//! [`limits::IN_FLIGHT_MAX`](crate::limits::IN_FLIGHT_MAX) fetches. Only misses come here: hits
//! take none of its locks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hashbrown::HashTable;
use message::Fault;
use tokio::sync::watch;

use crate::fill::StreamingResponse;
use crate::limits::IN_FLIGHT_MAX;
use crate::store::PurgeEpoch;
use crate::{Key, Object};

const SHARDS: usize = 64;

/// The result of a fetch for its followers.
#[derive(Clone)]
pub(crate) enum FetchResult {
    /// The response head has arrived and the response may be shared; the content follows.
    Streaming(Arc<StreamingResponse>),
    /// The stale response was revalidated and stored.
    Revalidated(Arc<Object>),
    /// The response is for the leader alone: each follower fetches for itself.
    Unshared,
    /// The fetch failed, for all followers.
    Failed(Fault),
}

/// The fetches in flight of one cache.
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
    /// The number of purges when it began.
    begun: PurgeEpoch,
    /// It requests from another server first.
    asks_owner: bool,
}

/// The part of a request in the fetch for its key.
pub(crate) enum Join {
    /// The request becomes the leader and fetches.
    Leader(Leader),
    /// Another request fetches.
    Follower(Follower),
    /// There are too many fetches in flight.
    Full,
}

/// The right to fetch for a key, and the duty to publish the result.
pub(crate) struct Leader {
    single_flight: Arc<SingleFlight>,
    fetch: Arc<InFlight>,
    /// Its hash and key in the table; `None` once no request may join any more.
    place: Option<(u64, Box<[u8]>)>,
}

/// Waits for the result of a fetch.
pub(crate) struct Follower {
    news: watch::Receiver<Option<FetchResult>>,
    /// The number of purges when the fetch began, and when it was joined.
    begun: PurgeEpoch,
    joined: PurgeEpoch,
    asks_owner: bool,
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

    /// Becomes the leader of a fetch for `key`, or a follower of the one in flight. `begun` is the
    /// store's purge epoch now, and whether a new fetch requests from another server first; a fetch
    /// for which `is_current` is false is not joined but replaced.
    pub(crate) fn join(
        self: &Arc<Self>,
        key: &Key,
        (begun, asks_owner): (PurgeEpoch, bool),
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
        let fetch = Arc::new(InFlight { news: watch::Sender::new(None), begun, asks_owner });
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

    /// Becomes the leader of a fetch that no request can join.
    pub(crate) fn unshared(self: &Arc<Self>, begun: PurgeEpoch) -> Leader {
        let news = watch::Sender::new(None);
        let fetch = Arc::new(InFlight { news, begun, asks_owner: false });
        Leader { single_flight: self.clone(), fetch, place: None }
    }

    /// True if a fetch for `key` is in flight.
    #[cfg(test)]
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.shard(key.hash()).find(key.hash(), |entry| *entry.key == *key.text()).is_some()
    }

    /// The number of fetches in flight that can be joined.
    #[cfg(test)]
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    fn insert(&self, shard: &mut HashTable<Entry>, hash: u64, key: &[u8], fetch: &Arc<InFlight>) {
        let entry = Entry { hash, key: key.into(), fetch: fetch.clone() };
        shard.insert_unique(hash, entry, |entry| entry.hash);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a fetch from the table, unless another one has replaced it.
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
        let InFlight { begun, asks_owner, .. } = *self;
        Follower { news: self.news.subscribe(), begun, joined, asks_owner }
    }
}

impl Leader {
    /// The number of purges when it began.
    pub(crate) fn begun(&self) -> PurgeEpoch {
        self.fetch.begun
    }

    /// A follower for the leader's own client.
    pub(crate) fn follower(&self) -> Follower {
        self.fetch.follower(self.fetch.begun)
    }

    /// The number of followers.
    pub(crate) fn followers(&self) -> usize {
        self.fetch.news.receiver_count()
    }

    /// Waits until there is no follower.
    pub(crate) async fn abandoned(&self) {
        self.fetch.news.closed().await;
    }

    /// Publishes a result to present and future followers.
    pub(crate) fn publish(&self, result: FetchResult) {
        self.fetch.news.send_replace(Some(result));
    }

    /// Publishes a result to present followers; no request joins any more.
    pub(crate) fn publish_last(&mut self, result: FetchResult) {
        self.close();
        self.publish(result);
    }

    /// Moves the fetch to the key of the variant that it turned out to be, for requests that join
    /// from now on. False if another fetch has that key.
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

    /// Lets no request join any more.
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
    /// When the fetch began, if there was a purge between that and joining: the tags of a response,
    /// by which it may have been purged, are known only when it arrives.
    pub(crate) fn joined_after_purge(&self) -> Option<PurgeEpoch> {
        (self.begun != self.joined).then_some(self.begun)
    }

    /// True if the fetch may be waiting for another server.
    pub(crate) fn asks_owner(&self) -> bool {
        self.asks_owner && self.news.borrow().is_none()
    }

    /// Waits for the result; `None` if the fetch ended without one.
    pub(crate) async fn result(&mut self) -> Option<FetchResult> {
        self.news.wait_for(Option::is_some).await.ok().and_then(|result| result.clone())
    }
}

#[cfg(test)]
mod tests;
