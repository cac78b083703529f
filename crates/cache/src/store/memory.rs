//! Objects in memory.
//!
//! Owns the shards, what they weigh together and what had to leave. Promises that a lookup takes
//! one read lock and allocates nothing, that no lock is held while anything is dropped, that no
//! more than one is held at a time, and that the weight, tables included, stays within the limit
//! but for what the threads that insert are just about to make room for. Knows nothing of what was
//! purged but the epoch: see `purge`.

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
pub(super) use weight::weigh;

/// Why an object left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalReason {
    /// Memory was short.
    Size,
    /// A newer one took its place.
    Replaced,
    Purged,
    /// It was of no use any more.
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

    /// Its name in metrics.
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

/// What has left and is to be dropped without a lock.
#[derive(Default)]
pub(super) struct RemovedObjects(Vec<(Arc<Object>, RemovalReason)>);

impl RemovedObjects {
    fn push(&mut self, object: Arc<Object>, reason: RemovalReason) {
        object.state.set_removed();
        self.0.push((object, reason));
    }
}

/// How often everything was purged: objects carry the number that was current when they came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClearEpochs(u64);

impl ClearEpochs {
    /// What came before this is removed.
    pub(super) fn hard(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// What came before this is stale.
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
    /// What all shards weigh.
    used: AtomicU64,
    limit: AtomicU64,
    /// Objects that can be found.
    objects: AtomicU64,
    /// Where the next eviction looks.
    hand: AtomicUsize,
    left: [AtomicU64; RemovalReason::ALL.len()],
}

/// A shard on cache lines of its own: its lock word is written by every hit.
#[repr(align(128))]
struct PaddedShard {
    shard: RwLock<Shard>,
    /// The objects in it, to compare shards without their locks.
    live: AtomicU32,
}

impl Memory {
    /// `beside` is what the store takes besides this.
    pub(super) fn new(limit: u64, beside: u64) -> Memory {
        let count = (limit / SHARD_MEMORY_MIN).clamp(1, SHARDS_MAX as u64);
        // Rounded down to a power of two, so that a mask picks the shard.
        let count = 1usize << count.ilog2();
        let place = || PaddedShard { shard: RwLock::new(Shard::new()), live: AtomicU32::new(0) };
        let shards: Box<[PaddedShard]> = (0..count).map(|_| place()).collect();
        Memory {
            used: AtomicU64::new(size_of_val(&*shards) as u64 + beside),
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

    pub(super) fn left(&self, reason: RemovalReason) -> u64 {
        self.left[reason as usize].load(Ordering::Relaxed)
    }

    pub(super) fn epochs(&self) -> ClearEpochs {
        ClearEpochs(self.epochs.load(Ordering::Acquire))
    }

    /// What was purged of everything so far, as one number.
    pub(super) fn clear_epoch(&self) -> u64 {
        self.epochs().0
    }

    /// Lets go of everything, or makes everything stale, at once; how many responses that were.
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

    /// Changes a shard under its lock; what has left is dropped afterwards.
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
            // Modulo 2^64: a difference may be below zero, the sum never is.
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

    /// Whether something of this weight may be stored at all.
    pub(super) fn may_hold(&self, weight: u64) -> bool {
        weight <= self.limit() / OBJECT_PART
    }

    /// Lets objects go until `weight` more are within the limit, or nothing is left.
    pub(super) fn make_room(&self, weight: u64, near: usize) {
        while self.used() + weight > self.limit() {
            let turn = self.hand.fetch_add(1, Ordering::Relaxed) & (self.shards.len() - 1);
            let live = |shard: usize| self.shards[shard].live.load(Ordering::Relaxed);
            // The fuller of two: shards stay alike, and no large object empties its own.
            let fuller = if live(turn) > live(near) { turn } else { near };
            let some = (0..self.shards.len()).map(|step| (fuller + step) & (self.shards.len() - 1));
            let Some(shard) = some.into_iter().find(|shard| live(*shard) > 0) else { return };
            self.change(shard, |shard, now, removed| shard.evict(now, removed));
        }
    }
}

/// Makes room for one more, an eighth at a time: doubling would leave half of a large table unused.
pub(super) fn reserve_some<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() {
        list.reserve_exact((list.len() / 8).max(16));
    }
}
