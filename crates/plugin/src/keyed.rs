//! State keyed by bytes that many workers share and that outlives plans (extension point 9).
//!
//! Owns a sharded table, bounded in entries, whose values carry their own atomics. Promises that a
//! hit takes a read lock and writes nothing but the value's own atomics and one saturating bit;
//! only an insertion takes its shard's write lock, and a full shard evicts an entry that was not
//! used recently (CLOCK). Never waits for anything else: changes for another machine are noted in a
//! bounded queue, and the control thread sends them ([`Keyed::synchronise`]).

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crossbeam_queue::ArrayQueue;
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use telemetry::{SharedCounter, SharedGauge};

/// Most shards: more than workers, so that two insertions seldom wait for one another.
const SHARDS_MAX: usize = 64;
/// Fewer entries than this make no shard: keys spread unevenly, and a shard evicts by itself.
const SHARD_ENTRIES_MIN: usize = 64;
/// Entries that an eviction examines before it removes the next one, whether or not it was used.
const EVICTION_STEPS: usize = 32;
/// Keys in one batch to the remote.
pub const NEWS_BATCH: usize = 1024;

/// Bounds of one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyedLimits {
    pub entries: usize,
    /// Changed keys that may wait for the remote side; 0 where there is none, and then noting a
    /// change costs nothing.
    pub changes: usize,
}

/// The counters of a table. They change when an entry is added or removed, never with a hit.
#[derive(Clone, Debug, Default)]
pub struct KeyedMetrics {
    /// Entries there are now.
    pub entries: Arc<SharedGauge>,
    /// Entries that had to go because the table was full.
    pub evictions: Arc<SharedCounter>,
}

/// The result of [`Keyed::claim`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    Added,
    /// The key is in the table already.
    Known,
    /// There is no place for another key.
    Full,
}

/// The table.
pub struct Keyed<V> {
    shards: Box<[Padded<V>]>,
    hasher: RandomState,
    changes: Option<ArrayQueue<Box<[u8]>>>,
    metrics: KeyedMetrics,
    unheard: AtomicU64,
}

/// A shard on cache lines of its own: its lock word is written by every hit.
#[repr(align(128))]
struct Padded<V>(RwLock<Shard<V>>);

struct Shard<V> {
    /// Places in `slots`, found by the hash of the key.
    index: HashTable<u32>,
    slots: Vec<KeySlot<V>>,
    limit: usize,
    /// The position where the next eviction begins.
    hand: usize,
}

struct KeySlot<V> {
    hash: u64,
    key: Box<[u8]>,
    value: V,
    /// Used since the last pass of an eviction. New entries begin without it, so that keys used
    /// once are evicted before keys used again.
    used: AtomicBool,
    /// True if its key is in the queue of changes.
    changed: AtomicBool,
}

/// Keys and the news of each.
pub type Batch<N> = Vec<(Box<[u8]>, N)>;

/// What a remote has done with a batch.
#[derive(Debug)]
pub struct Exchanged<N> {
    /// The remote's states of these or other keys.
    pub known: Batch<N>,
    /// Keys of the batch that the remote has not received: they wait for the next call.
    pub failed: Vec<Box<[u8]>>,
}

/// A remote that shares the state: a second instance, a store. Called on the control thread.
///
/// Updates are states, not differences: receiving one twice changes nothing, so that a failed batch
/// can be sent again.
pub trait Remote<V> {
    type News;

    /// The state of a value that is sent to the remote.
    fn news(&self, value: &V) -> Self::News;

    /// Sends a batch. After an error all its keys wait for the next call.
    fn exchange(
        &self,
        batch: Batch<Self::News>,
    ) -> impl Future<Output = std::io::Result<Exchanged<Self::News>>>;

    /// Merges what the other side knows into a value.
    fn merge(&self, value: &V, news: Self::News);
}

impl<V> Keyed<V> {
    pub fn new(limits: KeyedLimits, metrics: KeyedMetrics) -> Keyed<V> {
        let entries = limits.entries.max(1);
        let count = (entries / SHARD_ENTRIES_MIN).clamp(1, SHARDS_MAX);
        // Rounded down to a power of two, so that a mask picks the shard.
        let count = 1usize << count.ilog2();
        let shard = || Shard {
            index: HashTable::new(),
            slots: Vec::new(),
            limit: entries.div_ceil(count),
            hand: 0,
        };
        Keyed {
            shards: (0..count).map(|_| Padded(RwLock::new(shard()))).collect(),
            hasher: RandomState::default(),
            changes: (limits.changes > 0).then(|| ArrayQueue::new(limits.changes)),
            metrics,
            unheard: AtomicU64::new(0),
        }
    }

    /// Uses the value of a key, making it first if there is none.
    pub fn with<R>(&self, key: &[u8], make: impl FnOnce() -> V, using: impl FnOnce(&V) -> R) -> R {
        self.use_slot(key, make, |slot| using(&slot.value))
    }

    /// As [`Keyed::with`], noting that the remote side should hear of the value.
    pub fn update<R>(
        &self,
        key: &[u8],
        make: impl FnOnce() -> V,
        using: impl FnOnce(&V) -> R,
    ) -> R {
        self.use_slot(key, make, |slot| {
            let result = using(&slot.value);
            if let Some(queue) = &self.changes {
                self.note_change(queue, slot);
            }
            result
        })
    }

    /// Adds a key that is unknown or whose value has expired. Unlike [`Keyed::with`] it evicts only
    /// expired values: a full table rejects values that must not be evicted early.
    pub fn claim(&self, key: &[u8], value: V, is_over: impl Fn(&V) -> bool) -> Claim {
        let hash = self.hasher.hash_one(key);
        let mut shard = self.write(hash);
        if let Some(at) = shard.place(hash, key) {
            let slot = &mut shard.slots[at];
            if !is_over(&slot.value) {
                return Claim::Known;
            }
            slot.value = value;
            return Claim::Added;
        }
        if shard.slots.len() < shard.limit {
            self.metrics.entries.inc();
        } else if !shard.evict_over(is_over) {
            return Claim::Full;
        }
        shard.insert(hash, key, value);
        Claim::Added
    }

    /// Uses the value of a key if there is one.
    pub fn peek<R>(&self, key: &[u8], using: impl FnOnce(&V) -> R) -> Option<R> {
        let hash = self.hasher.hash_one(key);
        self.read(hash).find(hash, key).map(|slot| using(&slot.value))
    }

    /// Forgets a key; whether it was known.
    pub fn remove(&self, key: &[u8]) -> bool {
        let hash = self.hasher.hash_one(key);
        let mut shard = self.write(hash);
        match shard.place(hash, key) {
            Some(at) => {
                shard.remove(at);
                self.metrics.entries.dec();
                true
            }
            None => false,
        }
    }

    /// Entries there are now.
    pub fn len(&self) -> usize {
        let length =
            |shard: &Padded<V>| shard.0.read().unwrap_or_else(PoisonError::into_inner).slots.len();
        self.shards.iter().map(length).sum()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Changes that were not queued for the remote because the queue was full. Each is sent after
    /// the next change of its key.
    pub fn unheard(&self) -> u64 {
        self.unheard.load(Ordering::Relaxed)
    }

    /// Tells the remote side what changed and takes over what it knows; the number of keys told.
    /// For the control thread, at whatever pace suits the other side. After an error the same keys
    /// wait for the next call.
    pub async fn synchronise<R: Remote<V>>(
        &self,
        remote: &R,
        make: impl Fn() -> V,
    ) -> std::io::Result<usize> {
        let batch = self.take_changes(remote);
        let told: Vec<Box<[u8]>> = batch.iter().map(|(key, _)| key.clone()).collect();
        match remote.exchange(batch).await {
            Ok(Exchanged { known, failed }) => {
                for (key, news) in known {
                    self.with(&key, &make, |value| remote.merge(value, news));
                }
                failed.iter().for_each(|key| self.note_again(key));
                Ok(told.len() - failed.len())
            }
            Err(error) => {
                told.iter().for_each(|key| self.note_again(key));
                Err(error)
            }
        }
    }

    fn note_again(&self, key: &[u8]) {
        let hash = self.hasher.hash_one(key);
        if let (Some(queue), Some(slot)) = (&self.changes, self.read(hash).find(hash, key)) {
            self.note_change(queue, slot);
        }
    }

    fn take_changes<R: Remote<V>>(&self, remote: &R) -> Batch<R::News> {
        let mut batch = Vec::new();
        while batch.len() < NEWS_BATCH {
            let Some(key) = self.changes.as_ref().and_then(ArrayQueue::pop) else { break };
            let hash = self.hasher.hash_one(&key[..]);
            let news = self.read(hash).find(hash, &key).map(|slot| {
                // Before the value is read: a change from now on queues the key again.
                slot.changed.store(false, Ordering::SeqCst);
                remote.news(&slot.value)
            });
            if let Some(news) = news {
                batch.push((key, news));
            }
        }
        batch
    }

    fn note_change(&self, queue: &ArrayQueue<Box<[u8]>>, slot: &KeySlot<V>) {
        if slot.changed.swap(true, Ordering::SeqCst) {
            return;
        }
        if queue.push(slot.key.clone()).is_err() {
            slot.changed.store(false, Ordering::SeqCst);
            self.unheard.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn use_slot<R>(
        &self,
        key: &[u8],
        make: impl FnOnce() -> V,
        using: impl FnOnce(&KeySlot<V>) -> R,
    ) -> R {
        let hash = self.hasher.hash_one(key);
        {
            let shard = self.read(hash);
            if let Some(slot) = shard.find(hash, key) {
                // Read before it is written: a hot entry's line stays shared between the cores.
                if !slot.used.load(Ordering::Relaxed) {
                    slot.used.store(true, Ordering::Relaxed);
                }
                return using(slot);
            }
        }
        let mut shard = self.write(hash);
        // Another worker may have made it between the two locks.
        let at = match shard.place(hash, key) {
            Some(at) => at,
            None => {
                if shard.slots.len() >= shard.limit {
                    shard.evict();
                    self.metrics.evictions.inc();
                } else {
                    self.metrics.entries.inc();
                }
                shard.insert(hash, key, make())
            }
        };
        using(&shard.slots[at])
    }

    fn shard(&self, hash: u64) -> &RwLock<Shard<V>> {
        // The table inside uses the lowest and the highest bits; take some from between.
        &self.shards[(hash >> 32) as usize & (self.shards.len() - 1)].0
    }

    fn read(&self, hash: u64) -> RwLockReadGuard<'_, Shard<V>> {
        self.shard(hash).read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self, hash: u64) -> RwLockWriteGuard<'_, Shard<V>> {
        self.shard(hash).write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<V> Drop for Keyed<V> {
    fn drop(&mut self) {
        // Others may count under the same name.
        self.metrics.entries.add(-i64::try_from(self.len()).unwrap_or(0));
    }
}

impl<V> Shard<V> {
    fn place(&self, hash: u64, key: &[u8]) -> Option<usize> {
        let same = |at: &u32| {
            let slot = &self.slots[*at as usize];
            slot.hash == hash && *slot.key == *key
        };
        self.index.find(hash, same).map(|at| *at as usize)
    }

    fn find(&self, hash: u64, key: &[u8]) -> Option<&KeySlot<V>> {
        self.place(hash, key).map(|at| &self.slots[at])
    }

    fn insert(&mut self, hash: u64, key: &[u8], value: V) -> usize {
        let at = self.slots.len();
        self.slots.push(KeySlot {
            hash,
            key: key.into(),
            value,
            used: AtomicBool::new(false),
            changed: AtomicBool::new(false),
        });
        let slots = &self.slots;
        self.index.insert_unique(hash, at as u32, |at| slots[*at as usize].hash);
        at
    }

    /// Takes the slot out; the last one takes its place.
    fn remove(&mut self, at: usize) {
        let last = self.slots.len() - 1;
        let hash = self.slots[at].hash;
        if let Ok(entry) = self.index.find_entry(hash, |place| *place as usize == at) {
            entry.remove();
        }
        if at != last {
            let hash = self.slots[last].hash;
            if let Some(place) = self.index.find_mut(hash, |place| *place as usize == last) {
                *place = at as u32;
            }
        }
        self.slots.swap_remove(at);
    }

    /// Evicts a value that is over, if there is one among the next.
    fn evict_over(&mut self, is_over: impl Fn(&V) -> bool) -> bool {
        for _ in 0..EVICTION_STEPS {
            self.hand = (self.hand + 1) % self.slots.len();
            if is_over(&self.slots[self.hand].value) {
                self.remove(self.hand);
                return true;
            }
        }
        false
    }

    fn evict(&mut self) {
        for _ in 0..EVICTION_STEPS {
            self.hand = (self.hand + 1) % self.slots.len();
            let used = self.slots[self.hand].used.get_mut();
            if !std::mem::take(used) {
                break;
            }
        }
        self.remove(self.hand);
    }
}

#[cfg(test)]
mod tests;
