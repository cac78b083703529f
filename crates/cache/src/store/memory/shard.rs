//! One part of the store: all objects of some URLs.
//!
//! Owns the objects, the tables by key, URL and tag, and the eviction queues. Promises that removed
//! objects are returned, to be dropped without the lock, and that an object keeps its number while
//! it is stored (except in `compact`). The caller holds the lock.

use std::sync::Arc;

use hashbrown::HashTable;

use super::tags::Tags;
use super::weight::weigh;
use super::{ClearEpochs, RemovalReason, RemovedObjects};
use crate::limits::{SWEEP_INSERT, URL_RESPONSES_MAX, VALIDATOR_KEEP_S};
use crate::rules::Flags;
use crate::store::s3fifo::{NONE, S3Fifo};
use crate::{Key, Object, ObjectKind, StoredResponse};

mod compact;

pub(in crate::store) struct Shard {
    slots: Vec<ShardSlot>,
    /// The first empty slot; empty slots are chained by `tags`.
    free: u32,
    live: u32,
    /// The last purge of everything that this shard has seen, and the objects inserted since.
    hard: u32,
    visible: ShardCount,
    /// Responses removed by purges of everything since the last call of `take_renewed`.
    renewed: u64,
    keys: HashTable<u32>,
    urls: HashTable<u32>,
    tags: Tags,
    queues: S3Fifo,
    /// Where the next insertion looks for expired objects.
    hand: u32,
    moves: u64,
}

struct ShardSlot {
    object: Option<Arc<Object>>,
    hash: u64,
    url_hash: u64,
    /// The clear epoch of its insertion.
    epoch: u32,
    /// When it is neither usable nor worth revalidating, in seconds since 1970.
    over_secs: u32,
    tags: u32,
}

const BLANK: ShardSlot =
    ShardSlot { object: None, hash: 0, url_hash: 0, epoch: 0, over_secs: 0, tags: NONE };

/// Numbers of visible objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::store) struct ShardCount {
    pub(in crate::store) objects: u64,
    /// Of these, the canonical responses.
    pub(in crate::store) responses: u64,
}

/// The time and the clear epochs of an operation.
#[derive(Clone, Copy)]
pub(in crate::store) struct StoreTime {
    pub(in crate::store) secs: u64,
    pub(in crate::store) epochs: ClearEpochs,
}

impl ShardCount {
    fn add(&mut self, object: &Object) {
        self.objects += 1;
        self.responses += u64::from(canonical(object).is_some());
    }

    fn subtract(&mut self, object: &Object) {
        self.objects -= 1;
        self.responses -= u64::from(canonical(object).is_some());
    }
}

/// The number of some responses, and the least used of them.
#[derive(Default)]
struct LeastUsed {
    count: usize,
    /// Its uses and when it was received, and its slot.
    least: Option<((u8, u64), u32)>,
}

impl LeastUsed {
    fn add(&mut self, rank: (u8, u64), at: u32) {
        self.count += 1;
        if self.least.is_none_or(|(lowest, _)| rank < lowest) {
            self.least = Some((rank, at));
        }
    }

    /// The slot of the least used one, if there are `most`.
    fn of(&self, most: usize) -> Option<u32> {
        self.least.filter(|_| self.count >= most).map(|(_, at)| at)
    }
}

impl ShardSlot {
    /// Why it should be removed now, if it should.
    fn ended(&self, now: StoreTime) -> Option<RemovalReason> {
        if self.epoch < now.epochs.hard() {
            return Some(RemovalReason::Purged);
        }
        (u64::from(self.over_secs) <= now.secs).then_some(RemovalReason::Expired)
    }
}

impl Shard {
    pub(in crate::store) fn new() -> Shard {
        Shard {
            slots: Vec::new(),
            free: NONE,
            live: 0,
            hard: 0,
            visible: ShardCount::default(),
            renewed: 0,
            keys: HashTable::new(),
            urls: HashTable::new(),
            tags: Tags::new(),
            queues: S3Fifo::new(),
            hand: 0,
            moves: 0,
        }
    }

    /// Memory of objects and tables.
    pub(in crate::store) fn bytes(&self) -> u64 {
        let tables = self.slots.capacity() * size_of::<ShardSlot>()
            + self.keys.allocation_size()
            + self.urls.allocation_size()
            + self.tags.bytes()
            + self.queues.bytes();
        self.queues.weight() + tables as u64
    }

    pub(in crate::store) fn live(&self) -> u32 {
        self.live
    }

    pub(in crate::store) fn count(&self) -> ShardCount {
        self.visible
    }

    /// Applies purges of everything; to be called first under each write lock.
    pub(in crate::store) fn renew(&mut self, epochs: ClearEpochs) {
        if self.hard != epochs.hard() {
            self.hard = epochs.hard();
            self.renewed += std::mem::take(&mut self.visible).responses;
        }
    }

    /// Returns the number of responses that purges of everything have removed since the last call.
    pub(in crate::store) fn take_renewed(&mut self) -> u64 {
        std::mem::take(&mut self.renewed)
    }

    /// The number of slots, empty ones included.
    pub(in crate::store) fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Finds the object of a key, unless everything was purged since its insertion.
    pub(in crate::store) fn get(
        &self,
        hash: u64,
        key: &[u8],
        epochs: ClearEpochs,
    ) -> Option<&Arc<Object>> {
        let at = self.find_slot(hash, key)?;
        self.visible(at, epochs)
    }

    /// The object in a slot, unless everything was purged since its insertion.
    pub(in crate::store) fn visible(&self, at: u32, epochs: ClearEpochs) -> Option<&Arc<Object>> {
        let slot = self.slots.get(at as usize)?;
        let object = slot.object.as_ref().filter(|_| slot.epoch >= epochs.hard())?;
        if slot.epoch < epochs.soft() && !object.state.is_stale() {
            object.state.make_stale();
        }
        Some(object)
    }

    /// The weight of the object in a slot.
    pub(in crate::store) fn weight_of(&self, at: u32) -> u64 {
        self.queues.weight_of(at)
    }

    /// The slots of a URL.
    pub(in crate::store) fn of_url(&self, url_hash: u64, url: &[u8]) -> impl Iterator<Item = u32> {
        self.urls.iter_hash(url_hash).copied().filter(move |at| {
            let slot = &self.slots[*at as usize];
            slot.url_hash == url_hash && slot.object.as_ref().is_some_and(|o| o.key.url() == url)
        })
    }

    /// The slots of a tag.
    pub(in crate::store) fn of_tag(&self, tag: u64) -> impl Iterator<Item = u32> {
        self.tags.of(tag)
    }

    /// Stores an object in place of the one of the same key.
    pub(in crate::store) fn insert(
        &mut self,
        object: Arc<Object>,
        (hash, url_hash): (u64, u64),
        now: StoreTime,
        removed: &mut RemovedObjects,
    ) {
        self.hand = self.sweep(self.hand, SWEEP_INSERT as u32, now, removed);
        let weight = weigh(&object);
        if let Some(at) = self.find_slot(hash, object.key.text()) {
            self.replace(at, object, weight, now, removed);
            return;
        }
        let at = self.slot();
        let tags = self.tags.add(at, tags_of(&object));
        let over_secs = over_secs(&object);
        let epoch = now.epochs.current();
        self.visible.add(&object);
        self.slots[at as usize] =
            ShardSlot { object: Some(object), hash, url_hash, epoch, over_secs, tags };
        self.live += 1;
        let slots = &self.slots;
        self.keys.insert_unique(hash, at, |at| slots[*at as usize].hash);
        self.urls.insert_unique(url_hash, at, |at| slots[*at as usize].url_hash);
        self.queues.insert(at, hash, weight, self.live);
    }

    fn replace(
        &mut self,
        at: u32,
        object: Arc<Object>,
        weight: u64,
        now: StoreTime,
        removed: &mut RemovedObjects,
    ) {
        let slot = &mut self.slots[at as usize];
        let Some(old) = slot.object.replace(object.clone()) else { return };
        let reason = if slot.epoch < self.hard {
            RemovalReason::Purged
        } else {
            self.visible.subtract(&old);
            RemovalReason::Replaced
        };
        self.visible.add(&object);
        slot.epoch = now.epochs.current();
        slot.over_secs = over_secs(&object);
        let url_hash = slot.url_hash;
        let tags = std::mem::replace(&mut slot.tags, NONE);
        self.tags.remove(tags, tags_of(&old));
        self.slots[at as usize].tags = self.tags.add(at, tags_of(&object));
        self.queues.reweigh(at, weight);
        object.state.set_uses(old.state.uses());
        object.add_hits(old.hits());
        let version = |object: &Object| canonical(object).map(|response| response.version);
        if let Some(before) = version(&old)
            && version(&object) != Some(before)
        {
            self.remove_derived(url_hash, before, RemovalReason::Replaced, removed);
        }
        removed.push(old, reason);
    }

    /// Removes and returns an object; removes what was transcoded from it.
    pub(in crate::store) fn remove(
        &mut self,
        at: u32,
        reason: RemovalReason,
        removed: &mut RemovedObjects,
    ) -> Option<Arc<Object>> {
        let object = self.slots.get_mut(at as usize)?.object.take()?;
        let ShardSlot { hash, url_hash, tags, epoch, .. } = self.slots[at as usize];
        for (table, hash) in [(&mut self.keys, hash), (&mut self.urls, url_hash)] {
            if let Ok(entry) = table.find_entry(hash, |place| *place == at) {
                entry.remove();
            }
        }
        self.tags.remove(tags, tags_of(&object));
        self.queues.remove(at);
        self.slots[at as usize].tags = std::mem::replace(&mut self.free, at);
        self.live -= 1;
        if epoch >= self.hard {
            self.visible.subtract(&object);
        }
        if let Some(response) = canonical(&object) {
            self.remove_derived(url_hash, response.version, reason, removed);
        }
        removed.push(object.clone(), reason);
        Some(object)
    }

    /// Removes the codings transcoded from a version.
    fn remove_derived(
        &mut self,
        url_hash: u64,
        version: u64,
        reason: RemovalReason,
        removed: &mut RemovedObjects,
    ) {
        loop {
            let mut same_url = self.urls.iter_hash(url_hash).copied();
            let derived = same_url.find(|at| {
                let object = self.slots[*at as usize].object.as_deref();
                matches!(object, Some(Object { kind: ObjectKind::Response(response), .. })
                    if response.derived && response.version == version)
            });
            let Some(at) = derived else { return };
            self.remove(at, reason, removed);
        }
    }

    /// True if the canonical response of this version is stored.
    pub(in crate::store) fn has_canonical(
        &self,
        url_hash: u64,
        version: u64,
        epochs: ClearEpochs,
    ) -> bool {
        self.urls.iter_hash(url_hash).any(|at| {
            let object = self.visible(*at, epochs);
            object.and_then(|o| canonical(o)).is_some_and(|r| r.version == version)
        })
    }

    /// Makes room for one more variant of a primary key that has `most` under other keys, and for
    /// one more response of its URL: removes the least used, of these the oldest.
    pub(in crate::store) fn limit_variants(
        &mut self,
        (hash, url_hash): (u64, u64),
        key: &Key,
        most: usize,
        removed: &mut RemovedObjects,
    ) {
        let primary = key.primary();
        loop {
            let (mut variants, mut all) = (LeastUsed::default(), LeastUsed::default());
            for at in self.of_url(url_hash, key.url()) {
                let slot = &self.slots[at as usize];
                let Some(object) =
                    slot.object.as_deref().filter(|_| slot.hash != hash && slot.epoch >= self.hard)
                else {
                    continue;
                };
                if let Some(response) = canonical(object) {
                    let rank = (object.state.uses(), response.meta.received_secs);
                    all.add(rank, at);
                    if object.key.is_variant_of(primary) {
                        variants.add(rank, at);
                    }
                }
            }
            let too_many = variants.of(most.max(1)).or_else(|| all.of(URL_RESPONSES_MAX));
            let Some(at) = too_many else { return };
            self.remove(at, RemovalReason::Variants, removed);
        }
    }

    /// Evicts one object; false if there is none.
    pub(in crate::store) fn evict(&mut self, now: StoreTime, removed: &mut RemovedObjects) -> bool {
        let slots = &self.slots;
        let victim = self.queues.victim(|at| {
            let slot = &slots[at as usize];
            slot.object.as_ref().filter(|_| slot.ended(now).is_none()).map(|object| &object.state)
        });
        let Some(victim) = victim else { return false };
        let slot = &self.slots[victim.at as usize];
        if victim.unproven {
            let (hash, weight) = (slot.hash, self.queues.weight_of(victim.at));
            self.queues.remember(hash, weight);
        }
        let reason = self.slots[victim.at as usize].ended(now).unwrap_or(RemovalReason::Size);
        self.remove(victim.at, reason, removed);
        self.compact();
        true
    }

    /// Visits `count` slots from `from` on and removes expired objects; returns where to continue,
    /// 0 at the end.
    pub(in crate::store) fn sweep(
        &mut self,
        from: u32,
        count: u32,
        now: StoreTime,
        removed: &mut RemovedObjects,
    ) -> u32 {
        let to = from.saturating_add(count).min(self.slots());
        for at in from..to {
            let slot = &self.slots[at as usize];
            if let Some(reason) = slot.object.as_ref().and_then(|_| slot.ended(now)) {
                self.remove(at, reason, removed);
            }
        }
        if to < self.slots() {
            return to;
        }
        self.compact();
        0
    }

    pub(in crate::store) fn find_slot(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let same = |at: &u32| {
            let slot = &self.slots[*at as usize];
            slot.hash == hash && slot.object.as_ref().is_some_and(|o| o.key.text() == key)
        };
        self.keys.find(hash, same).copied()
    }

    fn slot(&mut self) -> u32 {
        if self.free != NONE {
            let at = self.free;
            self.free = self.slots[at as usize].tags;
            return at;
        }
        super::reserve_some(&mut self.slots);
        let blank =
            ShardSlot { object: None, hash: 0, url_hash: 0, epoch: 0, over_secs: 0, tags: NONE };
        self.slots.push(blank);
        self.slots() - 1
    }
}

fn tags_of(object: &Object) -> &[u64] {
    object.response().map_or(&[], |response| &response.tags)
}

/// The canonical response of an object.
pub(in crate::store) fn canonical(object: &Object) -> Option<&StoredResponse> {
    object.response().filter(|response| !response.derived)
}

/// When an object expires: it is neither fresh, nor usable stale, nor worth revalidating.
fn over_secs(object: &Object) -> u32 {
    let secs = match (&object.kind, object.response()) {
        (_, Some(response)) => {
            let meta = &response.meta;
            let keep_s = match meta.flags.has(Flags::VALIDATOR) {
                true => VALIDATOR_KEEP_S,
                false => 0,
            };
            let stale_s = meta.while_revalidate_s.max(meta.if_error_s).max(keep_s);
            let left_s = meta.lifetime_s.saturating_sub(meta.initial_age_s);
            meta.received_secs + u64::from(left_s) + u64::from(stale_s)
        }
        (ObjectKind::Uncacheable { until_secs, .. }, None) => *until_secs,
        _ => u64::MAX,
    };
    u32::try_from(secs).unwrap_or(u32::MAX)
}
