//! The disk tier: objects that do not fit in memory, and that outlive a restart.
//!
//! It consists of a directory of segments and an index of them in memory. One thread writes, behind
//! a queue that is bounded in bytes: objects that do not fit in the queue are not written. Promises
//! that a record is read back complete and unchanged (both its parts have checksums), that purged
//! objects stay away over a restart, that a process killed at any moment loses at most what was not
//! written yet, that the directory keeps to its size, and that a full or failing disk affects
//! nothing else: the cache serves from memory, and reports it. Only lookups that memory cannot
//! answer wait for the disk. Long content stays on disk: the object in memory says where, and it is
//! sent from the kernel's page cache. No object in memory refers to a deleted segment.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, mpsc,
};
use std::thread::JoinHandle;

use crate::limits::{
    DISK_QUEUE_BYTES_MAX, DISK_QUEUE_BYTES_MIN, DISK_QUEUE_PART, PURGE_POSITION_BYTES_MAX,
};
use crate::store::memory::Memory;
use crate::store::{Purge, PurgeEpoch, PurgeEpochs};
use crate::{Content, Key, Object};

mod deleted;
mod index;
mod position;
mod purge_log;
mod read;
mod record;
mod segment;
mod writer;

use deleted::DeletedFiles;
use index::{Index, KeyHashes};
use purge_log::PurgeLog;
pub(crate) use read::StoredRecord;
use writer::DiskWriter;

/// A tier on disk.
pub(crate) struct DiskTier {
    shared: Arc<DiskShared>,
    jobs: mpsc::Sender<WriterJob>,
    thread: Option<JoinHandle<()>>,
}

/// The state that the writer thread, readers and purges share.
struct DiskShared {
    /// Name of the cache, for the log.
    name: Box<str>,
    directory: PathBuf,
    index: RwLock<Index>,
    files: RwLock<HashMap<u32, Arc<File>>>,
    deleted: Mutex<DeletedFiles>,
    /// The objects in memory, some of which have their content in `files`.
    memory: Arc<Memory>,
    purged: PurgeLog,
    purge_epochs: Arc<PurgeEpochs>,
    state: AtomicU8,
    stopping: AtomicBool,
    /// The size limit of the directory.
    size: AtomicU64,
    /// The size of all segments.
    used: AtomicU64,
    /// Bytes waiting to be written, and their limit.
    queued: AtomicU64,
    queue_max: AtomicU64,
    counts: DiskCounts,
    /// The error, while the tier is failing.
    why: Mutex<Option<String>>,
}

#[derive(Default)]
struct DiskCounts {
    written: AtomicU64,
    dropped: AtomicU64,
    found: AtomicU64,
    damaged: AtomicU64,
    failed: AtomicU64,
}

/// A job of the writer thread.
enum WriterJob {
    /// The object, the epoch of its fetch, and whether there was something under its key.
    Write(Arc<Object>, PurgeEpoch, bool),
    /// The description of a purge, and its epoch.
    Purge(Vec<u8>, u64),
    /// Everything was purged.
    Clear(u64),
    /// The position in the log of purges after the purges so far.
    Position(String),
    /// The size limit has changed.
    Fit,
    Stop,
}

/// The state of a tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskState {
    /// The segments are being read: not all records are found yet.
    #[default]
    Loading,
    Working,
    /// The directory cannot be opened or written.
    Failing,
}

impl DiskState {
    pub const fn slug(self) -> &'static str {
        match self {
            DiskState::Loading => "loading",
            DiskState::Working => "working",
            DiskState::Failing => "failing",
        }
    }
}

/// Figures of a tier at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskStats {
    pub state: DiskState,
    /// Records that can be found.
    pub objects: u64,
    /// The size of all segments.
    pub bytes: u64,
    /// The size of deleted segments that responses are still sent from.
    pub deleted_bytes: u64,
    /// The limit of that size.
    pub size_bytes: u64,
    /// Memory of the index.
    pub index_bytes: u64,
    pub written: u64,
    /// Not written because the queue was full or the disk failed.
    pub dropped: u64,
    pub found: u64,
    /// Records with a wrong checksum.
    pub damaged: u64,
    /// System calls that failed.
    pub errors: u64,
    /// Why it is not used at the moment.
    pub failed: Option<String>,
}

impl DiskTier {
    /// Opens or creates a directory, without waiting for the segments to be read.
    pub(crate) fn open(
        name: &str,
        directory: &Path,
        size: u64,
        (memory, purge_epochs): (Arc<Memory>, Arc<PurgeEpochs>),
    ) -> io::Result<DiskTier> {
        let shared = Arc::new(DiskShared {
            name: name.into(),
            directory: directory.to_owned(),
            index: RwLock::default(),
            files: RwLock::default(),
            deleted: Mutex::default(),
            purged: PurgeLog::new(),
            purge_epochs,
            state: AtomicU8::new(DiskState::Loading as u8),
            stopping: AtomicBool::new(false),
            size: AtomicU64::new(size),
            used: AtomicU64::new(0),
            queued: AtomicU64::new(0),
            queue_max: AtomicU64::new(queue_max(memory.limit())),
            memory,
            counts: DiskCounts::default(),
            why: Mutex::default(),
        });
        let (jobs, taken) = mpsc::channel();
        let writer = DiskWriter::new(shared.clone(), taken);
        let thread = std::thread::Builder::new().name(format!("cache {name}"));
        let thread = Some(thread.spawn(move || writer.run())?);
        Ok(DiskTier { shared, jobs, thread })
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.shared.directory
    }

    pub(crate) fn set_size(&self, size: u64, memory_bytes: u64) {
        self.shared.queue_max.store(queue_max(memory_bytes), Ordering::Relaxed);
        self.shared.size.store(size, Ordering::Relaxed);
        self.send(WriterJob::Fit);
    }

    fn send(&self, job: WriterJob) {
        // The thread ends only with this value.
        let _ = self.jobs.send(job);
    }

    /// Queues an object for writing. Until it is written, or if the queue is full, nothing is found
    /// under its key: the record on disk is older.
    pub(crate) fn write(&self, object: &Arc<Object>, begun: PurgeEpoch) {
        let (weight, shared) = (weight(object), &self.shared);
        let waiting = shared.queued.fetch_add(weight, Ordering::Relaxed);
        if waiting + weight > shared.queue_max.load(Ordering::Relaxed) {
            shared.queued.fetch_sub(weight, Ordering::Relaxed);
            shared.counts.dropped.fetch_add(1, Ordering::Relaxed);
            return self.remove(&object.key);
        }
        let replaces = shared.index_mut().remove(KeyHashes::of(&object.key));
        self.send(WriterJob::Write(object.clone(), begun, replaces));
    }

    /// Removes the record of a key.
    pub(crate) fn remove(&self, key: &Key) {
        if self.shared.index_mut().remove(KeyHashes::of(key)) {
            self.send(WriterJob::Purge(purge_log::encode_key(key), 0));
        }
    }

    /// Removes what a purge covers, or makes it stale if `soft`; `time` is the epoch of the purge.
    pub(crate) fn purge(&self, purge: &Purge<'_>, soft: bool, time: u64) {
        let shared = &self.shared;
        shared.purged.note(purge, soft, time);
        match purge {
            _ if soft => {}
            Purge::Url(url) => shared.index_mut().remove_url(url),
            Purge::All => {
                shared.index_mut().clear();
                return self.send(WriterJob::Clear(time));
            }
            Purge::Tags(_) | Purge::Prefix(_) => {}
        }
        self.send(WriterJob::Purge(purge_log::encode(purge, soft), time));
    }

    /// Reads what [`DiskTier::write_position`] has written. The text of a damaged file is not a
    /// position.
    pub(crate) fn read_position(&self) -> Option<Vec<u8>> {
        let mut text = vec![0; PURGE_POSITION_BYTES_MAX];
        let file = File::open(position::path(self.directory())).ok()?;
        let length = file.read_at(&mut text, 0).ok()?;
        text.truncate(length);
        Some(text)
    }

    /// Queues the position in the log of purges for writing.
    pub(crate) fn write_position(&self, text: &str) {
        self.send(WriterJob::Position(text.to_owned()));
    }

    /// True if the file is a segment that is not deleted.
    pub(crate) fn has_file(&self, file: &Arc<File>) -> bool {
        self.shared.files().values().any(|known| Arc::ptr_eq(known, file))
    }

    /// The location of an object, if it is on disk.
    pub(crate) fn find(&self, key: &Key) -> Option<StoredRecord> {
        StoredRecord::find(&self.shared, key)
    }

    pub(crate) fn stats(&self) -> DiskStats {
        let shared = &self.shared;
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let counts = &shared.counts;
        let index = shared.index();
        DiskStats {
            state: shared.state(),
            objects: index.len() as u64,
            bytes: of(&shared.used),
            deleted_bytes: shared.deleted().bytes(),
            size_bytes: of(&shared.size),
            index_bytes: index.bytes() as u64,
            written: of(&counts.written),
            dropped: of(&counts.dropped),
            found: of(&counts.found),
            damaged: of(&counts.damaged),
            errors: of(&counts.failed),
            failed: shared.reason().clone(),
        }
    }
}

impl Drop for DiskTier {
    /// Writes the queue before the thread ends.
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.send(WriterJob::Stop);
        if let Some(thread) = self.thread.take() {
            // A panic was logged when it happened.
            let _ = thread.join();
        }
        let files = std::mem::take(&mut *self.shared.files_mut());
        self.shared.memory.remove_files(|file| files.values().any(|one| Arc::ptr_eq(one, file)));
    }
}

impl DiskShared {
    fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn index_mut(&self) -> RwLockWriteGuard<'_, Index> {
        self.index.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self, segment: u32) -> Option<Arc<File>> {
        self.files().get(&segment).cloned()
    }

    fn files(&self) -> RwLockReadGuard<'_, HashMap<u32, Arc<File>>> {
        self.files.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn files_mut(&self) -> RwLockWriteGuard<'_, HashMap<u32, Arc<File>>> {
        self.files.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if a record of this length does not exceed the size limit.
    fn has_room(&self, length: u64) -> bool {
        let used = self.used.load(Ordering::Relaxed) + self.deleted().kept_bytes();
        used + length <= self.size.load(Ordering::Relaxed)
    }

    fn deleted(&self) -> MutexGuard<'_, DeletedFiles> {
        self.deleted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> DiskState {
        match self.state.load(Ordering::Relaxed) {
            0 => DiskState::Loading,
            1 => DiskState::Working,
            _ => DiskState::Failing,
        }
    }

    fn set_state(&self, state: DiskState, why: Option<String>) {
        *self.reason() = why;
        self.state.store(state as u8, Ordering::Relaxed);
    }

    fn reason(&self) -> MutexGuard<'_, Option<String>> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For the fuzz target: decodes and encodes a description.
#[doc(hidden)]
pub fn reencoded(form: u8, description: &[u8]) -> Option<Vec<u8>> {
    record::reencoded(form, description)
}

/// The limit of the queue, for a cache of that much memory.
fn queue_max(memory_bytes: u64) -> u64 {
    (memory_bytes / DISK_QUEUE_PART).clamp(DISK_QUEUE_BYTES_MIN, DISK_QUEUE_BYTES_MAX)
}

/// The weight of an object in the queue.
fn weight(object: &Object) -> u64 {
    let content = object.response().map_or(0, |response| response.content.len());
    content + object.key.text().len() as u64 + 1024
}

/// Bytes that are read at once from content in a file.
const PIECE_BYTES: u64 = 256 * 1024;

/// Calls `take` with each piece of the content.
fn pieces(content: &Content, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let range = match content {
        Content::Memory(bytes) => return take(bytes),
        Content::File(range) | Content::MemoryFile(range) => range,
    };
    let mut piece = vec![0; range.length.min(PIECE_BYTES) as usize];
    let mut at = 0;
    while at < range.length {
        let length = (range.length - at).min(PIECE_BYTES) as usize;
        range.file.read_exact_at(&mut piece[..length], range.offset + at)?;
        take(&piece[..length])?;
        at += length as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
