//! What is stored, by key, within a bound of memory.
//!
//! Owns one cache of the configuration: all workers share it, and it outlives Plans. Promises that
//! a lookup takes a shard's read lock, allocates nothing and writes nothing but two bits of use;
//! that all memory of an object counts; that what was purged is not found, nor stored by whoever
//! fetched it before; that nothing is dropped under a lock. Never judges whether an object may be
//! used (that is `rules`), never waits.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::limits::{LIST_MAX, LIST_SLICES_MAX, OBJECT_PART, SLICE_OBJECTS};
use crate::{Key, Object};

mod disk;
mod front;
mod memory;
mod purge;
mod s3fifo;

use disk::Disk;
pub(crate) use disk::Stored;
pub use disk::{DiskStats, State as DiskState, rewritten};
pub use front::{Front, Kept};
pub use memory::Reason;
pub use purge::{Purge, Token};

use crate::key::url_hash;
use memory::{Memory, weigh};
use purge::Fences;

/// A store.
pub struct Store {
    memory: Memory,
    fences: Arc<Fences>,
    /// Taken for reading when memory has not what is asked for, and for each change.
    disk: RwLock<Option<Disk>>,
    versions: AtomicU64,
    /// The shard that is swept, and the place in it.
    sweeping: AtomicU64,
    inserted: AtomicU64,
    refused: [AtomicU64; Refused::ALL.len()],
}

/// Why something was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It weighs more than one object may.
    TooLarge,
    /// It was purged while it was fetched.
    Purged,
    /// What it was derived from is not there any more.
    Orphan,
}

impl Refused {
    pub const ALL: [Refused; 3] = [Refused::TooLarge, Refused::Purged, Refused::Orphan];

    /// Its name in metrics and in Cache-Status.
    pub const fn slug(self) -> &'static str {
        match self {
            Refused::TooLarge => "too-large",
            Refused::Purged => "purged",
            Refused::Orphan => "orphan",
        }
    }
}

/// What can be said of a store at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Objects of every kind.
    pub objects: u64,
    /// Their memory, tables included.
    pub bytes: u64,
    /// What it may come to.
    pub memory_bytes: u64,
    pub inserted: u64,
    /// In the order of [`Refused::ALL`].
    pub refused: [u64; Refused::ALL.len()],
    /// In the order of [`Reason::ALL`].
    pub left: [u64; Reason::ALL.len()],
}

/// A part of the list of objects.
pub struct Page {
    pub objects: Vec<Arc<Object>>,
    /// Where the list goes on; `None` at its end.
    pub next: Option<u64>,
}

impl Store {
    /// An empty store that may come to `memory_bytes`.
    pub fn new(memory_bytes: u64) -> Store {
        // Neither versions nor numbers of purges are used again after a restart, where something
        // was kept.
        let start = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_micros());
        let start = start as u64;
        let fences = Arc::new(Fences::new(start));
        Store {
            memory: Memory::new(memory_bytes, fences.bytes() as u64),
            fences,
            disk: RwLock::default(),
            versions: AtomicU64::new(start),
            sweeping: AtomicU64::new(0),
            inserted: AtomicU64::new(0),
            refused: Default::default(),
        }
    }

    /// To be taken when a fetch begins: what comes of it may be stored if it was not purged since.
    pub fn token(&self) -> Token {
        self.fences.token()
    }

    /// Whether what has been fetched from a URL since then, with these tags, was not purged.
    pub fn is_current(&self, url: &[u8], tags: &[u64], token: Token) -> bool {
        self.fences.is_current(url, url_hash(url), tags, token)
    }

    /// What all objects may weigh.
    pub fn memory_bytes(&self) -> u64 {
        self.memory.limit()
    }

    /// What one object may weigh.
    pub fn object_bytes_max(&self) -> u64 {
        self.memory.limit() / OBJECT_PART
    }

    /// A version that no response has had.
    pub fn next_version(&self) -> u64 {
        self.versions.fetch_add(1, Ordering::Relaxed)
    }

    /// What is stored under a key, counting the use. `hash` is its [`Key::hash`](crate::Key::hash).
    pub fn get(&self, hash: u64, key: &[u8]) -> Option<Arc<Object>> {
        let object = self.peek(hash, key)?;
        object.life.used();
        Some(object)
    }

    /// What is stored under a key, for those who only look.
    pub fn peek(&self, hash: u64, key: &[u8]) -> Option<Arc<Object>> {
        let epochs = self.memory.epochs();
        self.memory.read(self.memory.shard_of(hash)).get(hash, key, epochs).cloned()
    }

    /// Whether something is stored under a key, in memory.
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.peek(key.hash(), key.text()).is_some()
    }

    /// Stores an object, in place of the one of the same key; with it go the codings derived from
    /// what was there. Of a URL, at most `variants_max` responses are kept. Bytes that it refers to
    /// must be its own and of the right size from the start: a slice keeps alive, uncounted, what
    /// it is a slice of, and a buffer that has grown stays in its larger block when it is cut.
    pub fn insert(
        &self,
        object: Object,
        token: Token,
        variants_max: usize,
    ) -> Result<Arc<Object>, Refused> {
        let object = self.put_back(object, token, variants_max)?;
        if let Some(disk) = &*self.disk() {
            disk.write(&object, token);
        }
        Ok(object)
    }

    /// The same for what comes from the disk.
    fn put_back(
        &self,
        object: Object,
        token: Token,
        variants_max: usize,
    ) -> Result<Arc<Object>, Refused> {
        self.put(object, |store, object, url_hash| {
            store.fences.admit(object, url_hash, token).then_some(variants_max)
        })
    }

    /// Stores a coding derived from a response that is stored.
    pub fn insert_derived(&self, object: Object) -> Result<Arc<Object>, Refused> {
        self.put(object, |_, _, _| Some(usize::MAX))
    }

    /// `admit` says under the lock whether it may come in, and beside how many variants.
    fn put(
        &self,
        object: Object,
        admit: impl FnOnce(&Store, &Object, u64) -> Option<usize>,
    ) -> Result<Arc<Object>, Refused> {
        let hashes = (object.key.hash(), url_hash(object.key.url()));
        let weight = weigh(&object);
        if !self.memory.may_hold(weight) {
            return Err(self.refuse(Refused::TooLarge));
        }
        let near = self.memory.shard_of(hashes.0);
        self.memory.make_room(weight, near);
        let object = Arc::new(object);
        let stored = self.memory.change(near, |shard, now, gone| {
            let most = admit(self, &object, hashes.1).ok_or(Refused::Purged)?;
            if let Some(response) = object.response() {
                if response.derived && !shard.has_canonical(hashes.1, response.version, now.epochs)
                {
                    return Err(Refused::Orphan);
                }
                if !response.derived {
                    shard.limit_variants(hashes, object.key.url(), most, gone);
                }
            }
            shard.insert(object.clone(), hashes, now, gone);
            Ok(())
        });
        match stored {
            Ok(()) => {
                self.inserted.fetch_add(1, Ordering::Relaxed);
                // The tables may have grown.
                self.memory.make_room(0, near);
                Ok(object)
            }
            Err(refused) => Err(self.refuse(refused)),
        }
    }

    fn refuse(&self, refused: Refused) -> Refused {
        self.refused[refused as usize].fetch_add(1, Ordering::Relaxed);
        refused
    }

    /// Takes out what is stored under a key, and what was derived from it.
    pub fn remove(&self, hash: u64, key: &[u8]) -> Option<Arc<Object>> {
        self.remove_because(hash, key, Reason::Purged)
    }

    pub(crate) fn remove_because(
        &self,
        hash: u64,
        key: &[u8],
        reason: Reason,
    ) -> Option<Arc<Object>> {
        let removed = self.memory.change(self.memory.shard_of(hash), |shard, now, gone| {
            shard.get(hash, key, now.epochs)?;
            let at = shard.place(hash, key)?;
            shard.remove(at, reason, gone)
        });
        if let (Some(disk), Some(object)) = (&*self.disk(), &removed) {
            disk.remove(&object.key);
        }
        removed
    }

    /// All that is stored under a URL, of every route, in every variant and coding.
    pub fn of_url(&self, url: &[u8]) -> Vec<Arc<Object>> {
        let hash = url_hash(url);
        let shard = self.memory.read(self.memory.shard_of(hash));
        let epochs = self.memory.epochs();
        shard.of_url(hash, url).filter_map(|at| shard.visible(at, epochs).cloned()).collect()
    }

    /// At most `most` of the objects that `wanted` takes, from where an earlier page ended. An
    /// object that is there all the while is listed once, unless the store has become much emptier
    /// meanwhile. A page may be shorter, even empty.
    pub fn list(&self, from: Option<u64>, most: usize, wanted: impl Fn(&Object) -> bool) -> Page {
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
        Page { objects, next }
    }

    /// Changes when everything was purged, hard or soft: what a worker keeps beside the store is
    /// good only for one value of it (and until its object has left).
    pub fn epoch(&self) -> u64 {
        self.memory.epoch()
    }

    fn disk(&self) -> RwLockReadGuard<'_, Option<Disk>> {
        self.disk.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Uses this folder, up to that size, as a second tier; or none. `name` is the cache's, for
    /// people. What is in the folder is read behind the caller's back.
    pub fn set_disk(&self, name: &str, tier: Option<(&Path, u64)>) -> io::Result<()> {
        let mut disk = self.disk.write().unwrap_or_else(PoisonError::into_inner);
        match (&*disk, tier) {
            (Some(known), Some((folder, size))) if known.folder() == folder => {
                known.set_size(size, self.memory.limit());
            }
            (_, tier) => {
                // What waits there is still written, behind the caller's back.
                let old = disk.take();
                std::thread::spawn(move || drop(old));
                let open = |(folder, size)| {
                    Disk::open(name, folder, (size, self.memory.limit()), self.fences.clone())
                };
                *disk = tier.map(open).transpose()?;
            }
        }
        Ok(())
    }

    /// Where an object lies on disk that memory has not, if it does.
    pub(crate) fn on_disk(&self, key: &Key) -> Option<(Stored, Token)> {
        let token = self.token();
        let stored = self.disk().as_ref()?.find(key)?;
        Some((stored, token))
    }

    /// Takes an object into memory that was read from where [`Store::on_disk`] said.
    pub(crate) fn bring(&self, object: Object, token: Token) -> Result<Arc<Object>, Refused> {
        self.put_back(object, token, usize::MAX)
    }

    pub fn disk_stats(&self) -> Option<DiskStats> {
        self.disk().as_ref().map(Disk::stats)
    }

    /// Sets what the store may come to; what is too much leaves at once.
    pub fn set_memory(&self, memory_bytes: u64) {
        self.memory.set_limit(memory_bytes);
        self.memory.make_room(0, 0);
    }

    /// Takes out what was purged with everything and what is of no use any more, looking at some
    /// slices, each under a lock of its own. To be called from time to time, never by a request;
    /// whether it has come round since it last said so.
    pub fn sweep(&self) -> bool {
        let shards = self.memory.shards();
        for _ in 0..shards {
            let at = self.sweeping.load(Ordering::Relaxed);
            let (turn, from) = ((at >> 32) as usize, at as u32);
            let next = self.memory.change(turn, |shard, now, gone| {
                shard.sweep(from, SLICE_OBJECTS as u32, now, gone)
            });
            let turn = if next == 0 { (turn + 1) % shards } else { turn };
            self.sweeping.store((turn as u64) << 32 | u64::from(next), Ordering::Relaxed);
            if (turn, next) == (0, 0) {
                return true;
            }
        }
        false
    }

    pub fn stats(&self) -> Stats {
        Stats {
            objects: self.memory.objects(),
            bytes: self.memory.used(),
            memory_bytes: self.memory.limit(),
            inserted: self.inserted.load(Ordering::Relaxed),
            refused: Refused::ALL
                .map(|reason| self.refused[reason as usize].load(Ordering::Relaxed)),
            left: Reason::ALL.map(|reason| self.memory.left(reason)),
        }
    }
}

#[cfg(test)]
mod tests;
