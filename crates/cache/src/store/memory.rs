//! Objects in memory.
//!
//! Owns the shards, their weight and the counts of removals. Promises that a lookup takes one read
//! lock and allocates nothing, that nothing is dropped under a lock, that no thread holds two
//! locks, and that the weight, including tables, stays within the limit except for insertions in
//! progress. Of purges it knows only those of everything: see `purge`.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use crate::Object;
use crate::key::URL_SHIFT;
use crate::limits::{OBJECT_PART, SHARD_MEMORY_MIN, SHARDS_MAX};

mod shard;
mod tags;
mod weight;

use shard::StoreTime;
pub(super) use shard::{Shard, canonical};
pub(crate) use weight::weigh;

/// Why an object was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalReason {
    /// Memory was short, or the part of the disk that had its content was needed for newer ones.
    Size,
    /// A newer one replaced it.
    Replaced,
    Purged,
    /// It was neither usable nor worth revalidating.
    Expired,
    /// Its URL had too many variants.
    Variants,
    /// Its content did not decode.
    Damaged,
}

impl RemovalReason {
    pub const ALL: [RemovalReason; 6] = [
        RemovalReason::Size,
        RemovalReason::Replaced,
        RemovalReason::Purged,
        RemovalReason::Expired,
        RemovalReason::Variants,
        RemovalReason::Damaged,
    ];

    /// The name in metrics.
    pub const fn slug(self) -> &'static str {
        match self {
            RemovalReason::Size => "size",
            RemovalReason::Replaced => "replaced",
            RemovalReason::Purged => "purged",
            RemovalReason::Expired => "expired",
            RemovalReason::Variants => "variants",
            RemovalReason::Damaged => "damaged",
        }
    }
}

/// Removed objects, to be dropped without a lock.
#[derive(Default)]
pub(super) struct RemovedObjects(Vec<(Arc<Object>, RemovalReason)>);

impl RemovedObjects {
    fn push(&mut self, object: Arc<Object>, reason: RemovalReason) {
        object.state.set_removed();
        self.0.push((object, reason));
    }
}

/// The number of hard and soft purges of everything; objects carry the number at their insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClearEpochs(u64);

impl ClearEpochs {
    /// Objects inserted before this are removed.
    pub(super) fn hard(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Objects inserted before this are stale.
    pub(super) fn soft(self) -> u32 {
        self.0 as u32
    }

    pub(super) fn current(self) -> u32 {
        self.hard().max(self.soft())
    }

    fn next(self, soft: bool) -> ClearEpochs {
        let next = u64::from(self.current()) + 1;
        if soft {
            ClearEpochs(self.0 & !u64::from(u32::MAX) | next)
        } else {
            ClearEpochs(next << 32 | u64::from(self.soft()))
        }
    }
}

/// The shards.
pub(super) struct Memory {
    shards: Box<[PaddedShard]>,
    epochs: AtomicU64,
    /// The weight of all shards.
    used: AtomicU64,
    limit: AtomicU64,
    /// Objects that can be found.
    objects: AtomicU64,
    /// The shard of the next eviction.
    hand: AtomicUsize,
    left: [AtomicU64; RemovalReason::ALL.len()],
}

/// A shard on cache lines of its own: every hit writes its lock word.
#[repr(align(128))]
struct PaddedShard {
    shard: RwLock<Shard>,
    /// The number of its objects, read without the lock.
    live: AtomicU32,
}

impl Memory {
    /// Makes the shards; `others` is the other memory of the store.
    pub(super) fn new(limit: u64, others: u64) -> Memory {
        let count = (limit / SHARD_MEMORY_MIN).clamp(1, SHARDS_MAX as u64);
        // Rounded down to a power of two, so that a mask selects the shard.
        let count = 1usize << count.ilog2();
        let place = || PaddedShard { shard: RwLock::new(Shard::new()), live: AtomicU32::new(0) };
        let shards: Box<[PaddedShard]> = (0..count).map(|_| place()).collect();
        Memory {
            used: AtomicU64::new(size_of_val(&*shards) as u64 + others),
            shards,
            epochs: AtomicU64::new(0),
            limit: AtomicU64::new(limit),
            objects: AtomicU64::new(0),
            hand: AtomicUsize::new(0),
            left: Default::default(),
        }
    }

    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Relaxed)
    }

    pub(super) fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Objects that can be found.
    pub(super) fn objects(&self) -> u64 {
        self.objects.load(Ordering::Relaxed)
    }

    pub(super) fn removed_count(&self, reason: RemovalReason) -> u64 {
        self.left[reason as usize].load(Ordering::Relaxed)
    }

    pub(super) fn epochs(&self) -> ClearEpochs {
        ClearEpochs(self.epochs.load(Ordering::Acquire))
    }

    /// The purges of everything so far, as one number.
    pub(super) fn clear_epoch(&self) -> u64 {
        self.epochs().0
    }

    /// Removes everything, or makes everything stale, at once; returns the number of responses.
    pub(super) fn end_epoch(&self, soft: bool) -> u64 {
        let next = |epochs| Some(ClearEpochs(epochs).next(soft).0);
        let _before = self.epochs.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        let count = |shard: &mut Shard| match soft {
            true => shard.count().responses,
            false => shard.take_renewed(),
        };
        (0..self.shards()).map(|shard| self.change(shard, |shard, _, _| count(shard))).sum()
    }

    pub(super) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The shard of a key or URL, by its hash.
    pub(super) fn shard_of(&self, hash: u64) -> usize {
        (hash >> URL_SHIFT) as usize & (self.shards.len() - 1)
    }

    pub(super) fn read(&self, shard: usize) -> RwLockReadGuard<'_, Shard> {
        self.shards[shard].shard.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes a shard under its lock, and drops removed objects afterwards.
    pub(super) fn change<R>(
        &self,
        shard: usize,
        work: impl FnOnce(&mut Shard, StoreTime, &mut RemovedObjects) -> R,
    ) -> R {
        let mut removed = RemovedObjects::default();
        let place = &self.shards[shard];
        let result = {
            let mut shard = place.shard.write().unwrap_or_else(PoisonError::into_inner);
            let before = (shard.bytes(), shard.count().objects);
            let now = StoreTime { secs: net::clock::wall_secs(), epochs: self.epochs() };
            shard.renew(now.epochs);
            let result = work(&mut shard, now, &mut removed);
            let after = (shard.bytes(), shard.count().objects);
            // Modulo 2^64: a difference may be negative, the sum never is.
            self.used.fetch_add(after.0.wrapping_sub(before.0), Ordering::Relaxed);
            self.objects.fetch_add(after.1.wrapping_sub(before.1), Ordering::Relaxed);
            place.live.store(shard.live(), Ordering::Relaxed);
            result
        };
        for (_, reason) in &removed.0 {
            self.left[*reason as usize].fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    /// True if an object of this weight may be stored.
    pub(super) fn may_hold(&self, weight: u64) -> bool {
        weight <= self.limit() / OBJECT_PART
    }

    /// Evicts objects until there is room for `weight`, or nothing is stored.
    pub(super) fn make_room(&self, weight: u64, near: usize) {
        while self.used() + weight > self.limit() {
            let turn = self.hand.fetch_add(1, Ordering::Relaxed) & (self.shards.len() - 1);
            let live = |shard: usize| self.shards[shard].live.load(Ordering::Relaxed);
            // The fuller of two: shards stay balanced, and a large object does not empty its own.
            let fuller = if live(turn) > live(near) { turn } else { near };
            let some = (0..self.shards.len()).map(|step| (fuller + step) & (self.shards.len() - 1));
            let Some(shard) = some.into_iter().find(|shard| live(*shard) > 0) else { return };
            self.change(shard, |shard, now, removed| shard.evict(now, removed));
        }
    }
}

/// Grows a list by an eighth: doubling would leave half of a large table unused.
pub(super) fn reserve_some<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() {
        list.reserve_exact((list.len() / 8).max(16));
    }
}
