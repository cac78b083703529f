//! Fetches under way: one per key, whoever asks, on whichever worker.
//!
//! Owns the table of them. Whoever boards first leads and fetches, the others wait for its news.
//! Promises that a flight which ends without news (its leader was dropped) sets everybody free,
//! that nobody joins one that began before what it fetches was purged, and that there are at most
//! [`limits::FLIGHTS_MAX`](crate::limits::FLIGHTS_MAX). Asked only by requests that the store had
//! no answer for, so its locks are on no hit's way.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use exchange::Fault;
use hashbrown::HashTable;
use tokio::sync::watch;

use crate::fill::Arrival;
use crate::limits::FLIGHTS_MAX;
use crate::store::Token;
use crate::{Key, Object};

const SHARDS: usize = 64;

/// What became of a flight.
#[derive(Clone)]
pub(crate) enum Landing {
    /// The head is here and may be shared; the content grows.
    Arrived(Arc<Arrival>),
    /// It has been stored: what was stale is valid again.
    Stored(Arc<Object>),
    /// It is for the leader alone: the others go for themselves.
    Alone,
    /// The fetch failed, for all who waited for it.
    Failed(Fault),
}

/// The fetches under way of one cache.
pub(crate) struct Flights {
    shards: Box<[Mutex<HashTable<Entry>>]>,
    count: AtomicUsize,
}

struct Entry {
    hash: u64,
    key: Box<[u8]>,
    flight: Arc<Flight>,
}

struct Flight {
    news: watch::Sender<Option<Landing>>,
    /// When it began, in purges.
    begun: Token,
}

/// What a request is to its key's flight.
pub(crate) enum Boarding {
    /// It has to fetch.
    Lead(Lead),
    /// Somebody does.
    Wait(Waiter),
    /// There are too many flights to begin one more.
    Full,
}

/// The right to fetch for a key, and the duty to say what became of it.
pub(crate) struct Lead {
    flights: Arc<Flights>,
    flight: Arc<Flight>,
    /// Where it stands in the table; `None` once nobody shall join any more.
    place: Option<(u64, Box<[u8]>)>,
}

/// Hears what becomes of a flight. A flight knows how many hear.
pub(crate) struct Waiter {
    news: watch::Receiver<Option<Landing>>,
    /// When the flight began, in purges, and when it was boarded.
    begun: Token,
    boarded: Token,
}

impl Default for Flights {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Flights { shards, count: AtomicUsize::new(0) }
    }
}

impl Flights {
    fn shard(&self, hash: u64) -> MutexGuard<'_, HashTable<Entry>> {
        // The low bits choose the place in a shard.
        let shard = (hash >> 48) as usize % self.shards.len();
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leads a flight for `key`, or hears of the one under way. `begun` is the store's token of
    /// now; a flight for which `is_current` is not true any more is not joined, and this one takes
    /// its place.
    pub(crate) fn board(
        self: &Arc<Self>,
        key: &Key,
        begun: Token,
        is_current: impl Fn(Token, Option<&Landing>) -> bool,
    ) -> Boarding {
        let (hash, text) = (key.hash(), key.text());
        let mut shard = self.shard(hash);
        let known = shard.find_mut(hash, |entry| *entry.key == *text);
        if let Some(entry) = &known
            && is_current(entry.flight.begun, entry.flight.news.borrow().as_ref())
        {
            return Boarding::Wait(entry.flight.waiter(begun));
        }
        if known.is_none() && self.count.load(Ordering::Relaxed) >= FLIGHTS_MAX {
            return Boarding::Full;
        }
        let flight = Arc::new(Flight { news: watch::Sender::new(None), begun });
        match known {
            Some(entry) => entry.flight = flight.clone(),
            None => self.insert(&mut shard, hash, text, &flight),
        }
        drop(shard);
        Boarding::Lead(Lead { flights: self.clone(), flight, place: Some((hash, text.into())) })
    }

    /// Leads a flight that nobody can join.
    pub(crate) fn alone(self: &Arc<Self>, begun: Token) -> Lead {
        let flight = Arc::new(Flight { news: watch::Sender::new(None), begun });
        Lead { flights: self.clone(), flight, place: None }
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

    fn insert(&self, shard: &mut HashTable<Entry>, hash: u64, key: &[u8], flight: &Arc<Flight>) {
        let entry = Entry { hash, key: key.into(), flight: flight.clone() };
        shard.insert_unique(hash, entry, |entry| entry.hash);
        self.count.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes a flight from its place, unless another one has taken that over.
    fn remove(&self, (hash, key): &(u64, Box<[u8]>), flight: &Arc<Flight>) {
        let mut shard = self.shard(*hash);
        let own = |entry: &Entry| entry.key == *key && Arc::ptr_eq(&entry.flight, flight);
        if let Ok(entry) = shard.find_entry(*hash, own) {
            entry.remove();
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Flight {
    fn waiter(&self, boarded: Token) -> Waiter {
        Waiter { news: self.news.subscribe(), begun: self.begun, boarded }
    }
}

impl Lead {
    /// When it began, in purges.
    pub(crate) fn begun(&self) -> Token {
        self.flight.begun
    }

    /// One who hears of it: the leader's own client.
    pub(crate) fn waiter(&self) -> Waiter {
        self.flight.waiter(self.flight.begun)
    }

    /// How many wait.
    pub(crate) fn waiters(&self) -> usize {
        self.flight.news.receiver_count()
    }

    /// Ready when nobody waits.
    pub(crate) async fn unwanted(&self) {
        self.flight.news.closed().await;
    }

    /// Says what became of it, to those who wait and to those who join.
    pub(crate) fn land(&self, landing: Landing) {
        self.flight.news.send_replace(Some(landing));
    }

    /// Says what became of it to those who wait. Nobody joins any more.
    pub(crate) fn land_last(&mut self, landing: Landing) {
        self.close();
        self.land(landing);
    }

    /// It turned out to be for `key`, one variant of what it boarded for, or nobody could join so
    /// far: who asks for that key may join from now on, and only he. Whether it has that place:
    /// another fetch may have it.
    pub(crate) fn move_to(&mut self, key: &Key) -> bool {
        let (hash, text) = (key.hash(), key.text());
        if self.place.as_ref().is_some_and(|(_, place)| **place == *text) {
            return true;
        }
        self.close();
        let mut shard = self.flights.shard(hash);
        let free = shard.find(hash, |entry| *entry.key == *text).is_none();
        if free {
            self.flights.insert(&mut shard, hash, text, &self.flight);
            self.place = Some((hash, text.into()));
        }
        free
    }

    /// Nobody joins any more.
    pub(crate) fn close(&mut self) {
        if let Some(place) = self.place.take() {
            self.flights.remove(&place, &self.flight);
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        self.close();
    }
}

impl Waiter {
    /// When the flight began, if something was purged between then and the boarding: by which tags
    /// what comes can be purged is known only when it is here.
    pub(crate) fn joined_late(&self) -> Option<Token> {
        (self.begun != self.boarded).then_some(self.begun)
    }

    /// The news; `None` if the flight ended without.
    pub(crate) async fn landing(&mut self) -> Option<Landing> {
        self.news.wait_for(Option::is_some).await.ok().and_then(|landing| landing.clone())
    }
}

#[cfg(test)]
mod tests;
