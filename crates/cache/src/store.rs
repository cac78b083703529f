//! Stored objects by key, within a bound of memory.
//!
//! The store of one cache of the configuration: all workers share it, and it outlives plans.
//! Promises that a lookup takes a shard's read lock, allocates nothing and writes nothing but two
//! bits of use; that all memory of an object counts; that a purged object is neither found nor
//! stored again by a fetch that began before; that nothing is dropped under a lock. Whether an
//! object may be used is decided in `rules`. Never waits for the origin or the disk.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use net::FileRange;

use crate::limits::{LIST_MAX, LIST_SLICES_MAX, OBJECT_PART, SLICE_OBJECTS};
use crate::{Key, Object};

mod disk;
mod memory;
mod preview;
mod purge;
mod purge_gate;
mod s3fifo;
mod top;
mod worker_table;

use disk::DiskTier;
pub(crate) use disk::StoredRecord;
pub use disk::{DiskState, DiskStats, reencoded};
pub use memory::RemovalReason;
pub use preview::PurgePreview;
pub use purge::{Purge, PurgeEpoch};
pub use purge_gate::PurgeGate;
pub use top::TopObjects;
pub use worker_table::{TableEntry, WorkerTable};

use crate::key::url_hash;
use memory::Memory;
pub(crate) use memory::weigh;
use purge::PurgeEpochs;

/// The store of one cache.
pub struct Store {
    memory: Arc<Memory>,
    purge_epochs: Arc<PurgeEpochs>,
    /// The epoch before any purge.
    began: PurgeEpoch,
    /// When purges were made that other servers do not know of, in milliseconds, if that matters.
    local_purges: OnceLock<PurgeEpochs>,
    gate: PurgeGate,
    /// Read-locked when memory does not have the object, and for each change.
    disk: RwLock<Option<DiskTier>>,
    versions: AtomicU64,
    /// The shard that is swept, and the position in it.
    sweeping: AtomicU64,
    inserted: AtomicU64,
    refused: [AtomicU64; InsertError::ALL.len()],
}

/// Why an object was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertError {
    /// It exceeds the weight of one object.
    TooLarge,
    /// It was purged during its fetch.
    Purged,
    /// The response that it was transcoded from is gone.
    Orphan,
}

impl InsertError {
    pub const ALL: [InsertError; 3] =
        [InsertError::TooLarge, InsertError::Purged, InsertError::Orphan];

    /// The name in metrics and in Cache-Status.
    pub const fn slug(self) -> &'static str {
        match self {
            InsertError::TooLarge => "too-large",
            InsertError::Purged => "purged",
            InsertError::Orphan => "orphan",
        }
    }
}

/// Figures of a store at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Objects of every kind.
    pub objects: u64,
    /// Their memory, including tables.
    pub bytes: u64,
    /// The limit of that memory.
    pub memory_bytes: u64,
    pub inserted: u64,
    /// In the order of [`InsertError::ALL`].
    pub refused: [u64; InsertError::ALL.len()],
    /// In the order of [`RemovalReason::ALL`].
    pub left: [u64; RemovalReason::ALL.len()],
}

/// One page of the list of objects.
pub struct ObjectPage {
    pub objects: Vec<Arc<Object>>,
    /// Where the next page begins; `None` at the end.
    pub next: Option<u64>,
}

impl Store {
    /// Makes an empty store of at most `memory_bytes`.
    pub fn new(memory_bytes: u64) -> Store {
        // Neither versions nor purge epochs are used again after a restart, where objects are on
        // disk.
        let start = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros());
        let start = start as u64;
        let purge_epochs = Arc::new(PurgeEpochs::new(start));
        Store {
            memory: Arc::new(Memory::new(memory_bytes, purge_epochs.bytes() as u64)),
            began: purge_epochs.purge_epoch(),
            purge_epochs,
            local_purges: OnceLock::new(),
            gate: PurgeGate::default(),
            disk: RwLock::default(),
            versions: AtomicU64::new(start),
            sweeping: AtomicU64::new(0),
            inserted: AtomicU64::new(0),
            refused: Default::default(),
        }
    }

    /// The epoch at the beginning of a fetch: its response may be stored if it was not purged
    /// since.
    pub fn purge_epoch(&self) -> PurgeEpoch {
        self.purge_epochs.purge_epoch()
    }

    /// True if a response of this URL and these tags was not purged since its fetch began.
    pub fn is_current(&self, url: &[u8], tags: &[u64], begun: PurgeEpoch) -> bool {
        self.purge_epochs.is_current(url, url_hash(url), tags, begun)
    }

    /// The limit of the weight of all objects.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.limit()
    }

    /// The limit of the weight of one object.
    pub fn object_bytes_max(&self) -> u64 {
        self.memory.limit() / OBJECT_PART
    }

    /// A version that no response has had.
    pub fn next_version(&self) -> u64 {
        self.versions.fetch_add(1, Ordering::Relaxed)
    }

    /// Finds the object of a key, and counts the use. `hash` is [`Key::hash`](crate::Key::hash).
    pub fn get(&self, hash: u64, key: &[u8]) -> Option<Arc<Object>> {
        let object = self.peek(hash, key)?;
        object.state.count_use();
        object.add_hits(1);
        Some(object)
    }

    /// Finds the object of a key without counting a use.
    pub fn peek(&self, hash: u64, key: &[u8]) -> Option<Arc<Object>> {
        if self.is_closed() {
            return None;
        }
        let epochs = self.memory.epochs();
        self.memory.read(self.memory.shard_of(hash)).get(hash, key, epochs).cloned()
    }

    /// Whether the store may be read while this server shares purges with others.
    pub fn purges(&self) -> &PurgeGate {
        &self.gate
    }

    /// True if nothing may be found, because purges of other servers may have been missed.
    pub(crate) fn is_closed(&self) -> bool {
        self.gate.is_closed()
    }

    /// The text that [`Store::write_position`] has written next to what is on disk, also an earlier
    /// process. Blocks.
    pub fn read_position(&self) -> Option<Vec<u8>> {
        self.disk().as_ref()?.read_position()
    }

    /// Writes a text next to what is on disk, after the purges so far, in the background.
    pub fn write_position(&self, text: &str) {
        if let Some(disk) = &*self.disk() {
            disk.write_position(text);
        }
    }

    /// True if memory has an object of this key.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.peek(key.hash(), key.text()).is_some()
    }

    /// Counts insertions: while the number stays the same, a repeated lookup finds nothing new.
    pub(crate) fn insertions(&self) -> u64 {
        self.inserted.load(Ordering::Acquire)
    }

    /// Stores an object in place of the one of the same key, whose transcoded codings are removed.
    /// Of a primary key, at most `variants_max` responses are stored. The bytes of the object must
    /// be its own and of exact capacity: a slice keeps its whole block alive, and a shortened
    /// buffer stays in the larger block, both uncounted.
    pub fn insert(
        &self,
        object: Object,
        begun: PurgeEpoch,
        variants_max: usize,
    ) -> Result<Arc<Object>, InsertError> {
        let object = self.insert_in_memory(object, begun, variants_max)?;
        if let Some(disk) = &*self.disk() {
            disk.write(&object, begun);
        }
        Ok(object)
    }

    /// Stores an object in memory only.
    fn insert_in_memory(
        &self,
        object: Object,
        begun: PurgeEpoch,
        variants_max: usize,
    ) -> Result<Arc<Object>, InsertError> {
        let object = self.insert_with(object, |store, object, url_hash| {
            store.purge_epochs.admit(object, url_hash, begun).then_some(variants_max)
        })?;
        // A file that was deleted before the object could be found would stay open for it.
        let is_deleted = |range: &FileRange| {
            !self.disk().as_ref().is_some_and(|disk| disk.has_file(&range.file))
        };
        if object.file().is_some_and(is_deleted) {
            self.evict(&object);
        }
        Ok(object)
    }

    /// Stores a coding that was transcoded from a stored response.
    pub fn insert_derived(&self, object: Object) -> Result<Arc<Object>, InsertError> {
        self.insert_with(object, |_, _, _| Some(usize::MAX))
    }

    /// Inserts an object; `admit` returns under the lock how many variants its URL may have, or
    /// `None` to reject it.
    fn insert_with(
        &self,
        object: Object,
        admit: impl FnOnce(&Store, &Object, u64) -> Option<usize>,
    ) -> Result<Arc<Object>, InsertError> {
        let hashes = (object.key.hash(), url_hash(object.key.url()));
        let weight = weigh(&object);
        if !self.memory.may_hold(weight) {
            return Err(self.refuse(InsertError::TooLarge));
        }
        let near = self.memory.shard_of(hashes.0);
        self.memory.make_room(weight, near);
        let object = Arc::new(object);
        let stored = self.memory.change(near, |shard, now, removed| {
            let most = admit(self, &object, hashes.1).ok_or(InsertError::Purged)?;
            if let Some(response) = object.response() {
                if response.derived && !shard.has_canonical(hashes.1, response.version, now.epochs)
                {
                    return Err(InsertError::Orphan);
                }
                if !response.derived {
                    shard.limit_variants(hashes, &object.key, most, removed);
                }
            }
            shard.insert(object.clone(), hashes, now, removed);
            Ok(())
        });
        match stored {
            Ok(()) => {
                self.inserted.fetch_add(1, Ordering::Release);
                // The tables may have grown.
                self.memory.make_room(0, near);
                Ok(object)
            }
            Err(refused) => Err(self.refuse(refused)),
        }
    }

    fn refuse(&self, refused: InsertError) -> InsertError {
        self.refused[refused as usize].fetch_add(1, Ordering::Relaxed);
        refused
    }

    /// Removes the object of a key, and what was transcoded from it.
    pub fn remove(&self, hash: u64, key: &[u8]) -> Option<Arc<Object>> {
        self.remove_because(hash, key, RemovalReason::Purged)
    }

    pub(crate) fn remove_because(
        &self,
        hash: u64,
        key: &[u8],
        reason: RemovalReason,
    ) -> Option<Arc<Object>> {
        let removed = self.memory.change(self.memory.shard_of(hash), |shard, now, removed| {
            shard.get(hash, key, now.epochs)?;
            let at = shard.find_slot(hash, key)?;
            shard.remove(at, reason, removed)
        });
        if let (Some(disk), Some(object)) = (&*self.disk(), &removed) {
            disk.remove(&object.key);
        }
        removed
    }

    /// Removes an object from memory and not from disk, unless another has replaced it.
    pub(crate) fn evict(&self, object: &Arc<Object>) {
        let (hash, key) = (object.key.hash(), object.key.text());
        self.memory.change(self.memory.shard_of(hash), |shard, now, removed| {
            let is_stored =
                shard.get(hash, key, now.epochs).is_some_and(|stored| Arc::ptr_eq(stored, object));
            if let Some(at) = shard.find_slot(hash, key).filter(|_| is_stored) {
                drop(shard.remove(at, RemovalReason::Size, removed));
            }
        });
    }

    /// All objects of a URL, of every route, in every variant and coding.
    pub fn of_url(&self, url: &[u8]) -> Vec<Arc<Object>> {
        let hash = url_hash(url);
        let shard = self.memory.read(self.memory.shard_of(hash));
        let epochs = self.memory.epochs();
        shard.of_url(hash, url).filter_map(|at| shard.visible(at, epochs).cloned()).collect()
    }

    /// Returns at most `most` of the objects that `wanted` accepts, from where an earlier page
    /// ended. An object that stays stored is listed once, unless the store has been compacted in
    /// between. A page may be shorter, even empty.
    pub fn list(
        &self,
        from: Option<u64>,
        most: usize,
        wanted: impl Fn(&Object) -> bool,
    ) -> ObjectPage {
        let most = most.clamp(1, LIST_MAX);
        let from = from.unwrap_or(0);
        let (mut shard, mut at) = ((from >> 32) as usize, from as u32);
        let mut objects = Vec::new();
        let epochs = self.memory.epochs();
        for _ in 0..LIST_SLICES_MAX {
            if shard >= self.memory.shards() || objects.len() >= most {
                break;
            }
            let locked = self.memory.read(shard);
            let end = locked.slots().min(at.saturating_add(SLICE_OBJECTS as u32));
            while at < end && objects.len() < most {
                objects.extend(locked.visible(at, epochs).filter(|o| wanted(o)).cloned());
                at += 1;
            }
            if at >= locked.slots() {
                (shard, at) = (shard + 1, 0);
            }
        }
        let next = (shard < self.memory.shards()).then(|| (shard as u64) << 32 | u64::from(at));
        ObjectPage { objects, next }
    }

    /// Changes when everything is purged, hard or soft: an entry of a worker's table is valid only
    /// for one value of it.
    pub fn clear_epoch(&self) -> u64 {
        self.memory.clear_epoch()
    }

    fn disk(&self) -> RwLockReadGuard<'_, Option<DiskTier>> {
        self.disk.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the second tier in a directory, changes its size, or closes it. `name` is that of the
    /// cache, for the log. The directory is read in the background.
    pub fn set_disk(&self, name: &str, tier: Option<(&Path, u64)>) -> io::Result<()> {
        let mut disk = self.disk.write().unwrap_or_else(PoisonError::into_inner);
        match (&*disk, tier) {
            (Some(known), Some((directory, size))) if known.directory() == directory => {
                known.set_size(size, self.memory.limit());
            }
            (_, tier) => {
                // The background thread still writes the queue of the old one.
                let old = disk.take();
                std::thread::spawn(move || drop(old));
                let open = |(directory, size)| {
                    DiskTier::open(
                        name,
                        directory,
                        size,
                        (self.memory.clone(), self.purge_epochs.clone()),
                    )
                };
                *disk = tier.map(open).transpose()?;
                if disk.is_some() {
                    self.gate.disk_opened();
                }
            }
        }
        Ok(())
    }

    /// The location of an object that is on disk and not in memory.
    pub(crate) fn find_on_disk(&self, key: &Key) -> Option<(StoredRecord, PurgeEpoch)> {
        if self.is_closed() {
            return None;
        }
        let begun = self.purge_epoch();
        let stored = self.disk().as_ref()?.find(key)?;
        Some((stored, begun))
    }

    /// Stores an object in memory that was read from where [`Store::find_on_disk`] said.
    pub(crate) fn insert_from_disk(
        &self,
        object: Object,
        begun: PurgeEpoch,
    ) -> Result<Arc<Object>, InsertError> {
        self.insert_in_memory(object, begun, usize::MAX)
    }

    pub fn disk_stats(&self) -> Option<DiskStats> {
        self.disk().as_ref().map(DiskTier::stats)
    }

    /// Sets the limit of memory; evicts what exceeds it.
    pub fn set_memory(&self, memory_bytes: u64) {
        self.memory.set_limit(memory_bytes);
        self.memory.make_room(0, 0);
    }

    /// Removes expired objects and those purged with everything, some slices at a time, each under
    /// a lock of its own. To be called periodically, never by a request; true when all shards have
    /// been swept.
    pub fn sweep(&self) -> bool {
        let shards = self.memory.shards();
        for _ in 0..shards {
            let at = self.sweeping.load(Ordering::Relaxed);
            let (turn, from) = ((at >> 32) as usize, at as u32);
            let next = self.memory.change(turn, |shard, now, removed| {
                shard.sweep(from, SLICE_OBJECTS as u32, now, removed)
            });
            let turn = if next == 0 { (turn + 1) % shards } else { turn };
            self.sweeping.store((turn as u64) << 32 | u64::from(next), Ordering::Relaxed);
            if (turn, next) == (0, 0) {
                return true;
            }
        }
        false
    }

    pub fn stats(&self) -> StoreStats {
        StoreStats {
            objects: self.memory.objects(),
            bytes: self.memory.used(),
            memory_bytes: self.memory.limit(),
            inserted: self.inserted.load(Ordering::Relaxed),
            refused: InsertError::ALL
                .map(|reason| self.refused[reason as usize].load(Ordering::Relaxed)),
            left: RemovalReason::ALL.map(|reason| self.memory.removed_count(reason)),
        }
    }
}

#[cfg(test)]
mod tests;
