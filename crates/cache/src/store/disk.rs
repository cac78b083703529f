//! The tier on disk: what memory has no room for, and what a restart shall find again.
//!
//! Owns a directory of segments and an index of them in memory. One thread writes, behind a queue
//! that is bounded in bytes: what does not fit is not written. Promises that a record is only
//! handed out whole and right (checksums of both its parts), that what was purged stays away over a
//! restart, that a process that is killed at any moment loses at most what it had not written yet,
//! that the directory keeps to its size, and that a disk which is full or fails takes nothing else
//! down: the cache goes on in memory, and says so. Never waited for but by who asks for what memory
//! has not.

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

use crate::limits::{DISK_QUEUE_BYTES_MAX, DISK_QUEUE_BYTES_MIN, DISK_QUEUE_PART};
use crate::store::{Purge, PurgeEpoch, PurgeEpochs};
use crate::{Content, Key, Object};

mod index;
mod purge_log;
mod read;
mod record;
mod segment;
mod writer;

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

/// What the thread that writes, those who read and those who purge have in common.
struct DiskShared {
    /// Of the cache, for people.
    name: Box<str>,
    directory: PathBuf,
    index: RwLock<Index>,
    files: RwLock<HashMap<u32, Arc<File>>>,
    purged: PurgeLog,
    purge_epochs: Arc<PurgeEpochs>,
    state: AtomicU8,
    stopping: AtomicBool,
    /// What the directory may take.
    size: AtomicU64,
    /// What the segments take.
    used: AtomicU64,
    /// What waits to be written, and what that may come to.
    queued: AtomicU64,
    queue_max: AtomicU64,
    counts: DiskCounts,
    /// Why it fails, while it does.
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

/// What the thread is to do.
enum WriterJob {
    /// And whether there was something under its key.
    Write(Arc<Object>, PurgeEpoch, bool),
    /// The description of a purge, and when it was.
    Purge(Vec<u8>, u64),
    /// Everything was purged.
    Clear(u64),
    /// The size has changed.
    Fit,
    Stop,
}

/// How the tier is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DiskState {
    /// What it has is being read: not all of it is found yet.
    #[default]
    Loading,
    Working,
    /// It cannot be written, or not be opened.
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

/// What can be said of a tier at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskStats {
    pub state: DiskState,
    /// Records that can be found.
    pub objects: u64,
    /// What the segments take.
    pub bytes: u64,
    /// What they may come to.
    pub size_bytes: u64,
    /// What the index takes in memory.
    pub index_bytes: u64,
    pub written: u64,
    /// Not written because too much waited, or because the disk failed.
    pub dropped: u64,
    pub found: u64,
    /// Records whose checksum was wrong.
    pub damaged: u64,
    /// Calls to the disk that failed.
    pub errors: u64,
    /// Why it is not used at the moment.
    pub failed: Option<String>,
}

impl DiskTier {
    /// Opens a directory, or makes it, without waiting for what is in it.
    pub(crate) fn open(
        name: &str,
        directory: &Path,
        (size, memory_bytes): (u64, u64),
        purge_epochs: Arc<PurgeEpochs>,
    ) -> io::Result<DiskTier> {
        let shared = Arc::new(DiskShared {
            name: name.into(),
            directory: directory.to_owned(),
            index: RwLock::default(),
            files: RwLock::default(),
            purged: PurgeLog::new(),
            purge_epochs,
            state: AtomicU8::new(DiskState::Loading as u8),
            stopping: AtomicBool::new(false),
            size: AtomicU64::new(size),
            used: AtomicU64::new(0),
            queued: AtomicU64::new(0),
            queue_max: AtomicU64::new(queue_max(memory_bytes)),
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
        // The thread ends only with us.
        let _ = self.jobs.send(job);
    }

    /// Writes an object, some time later. Until then, and if there is no room for it in the queue,
    /// nothing is found under its key: what is there is older.
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

    /// Forgets what is stored under a key.
    pub(crate) fn remove(&self, key: &Key) {
        if self.shared.index_mut().remove(KeyHashes::of(key)) {
            self.send(WriterJob::Purge(purge_log::encode_key(key), 0));
        }
    }

    /// Forgets what is meant; `time` is the purge's.
    pub(crate) fn purge(&self, purge: &Purge<'_>, time: u64) {
        let shared = &self.shared;
        shared.purged.note(purge, time);
        match purge {
            Purge::Url(url) => shared.index_mut().remove_url(url),
            Purge::All => {
                shared.index_mut().clear();
                return self.send(WriterJob::Clear(time));
            }
            Purge::Tags(_) | Purge::Prefix(_) => {}
        }
        self.send(WriterJob::Purge(purge_log::encode(purge), time));
    }

    /// Where an object is to be read from, if it is there.
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
            size_bytes: of(&shared.size),
            index_bytes: index.bytes() as u64,
            written: of(&counts.written),
            dropped: of(&counts.dropped),
            found: of(&counts.found),
            damaged: of(&counts.damaged),
            errors: of(&counts.failed),
            failed: shared.why().clone(),
        }
    }
}

impl Drop for DiskTier {
    /// What waits is written first.
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        self.send(WriterJob::Stop);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
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
        self.files.read().unwrap_or_else(PoisonError::into_inner).get(&segment).cloned()
    }

    fn files_mut(&self) -> RwLockWriteGuard<'_, HashMap<u32, Arc<File>>> {
        self.files.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn state(&self) -> DiskState {
        match self.state.load(Ordering::Relaxed) {
            0 => DiskState::Loading,
            1 => DiskState::Working,
            _ => DiskState::Failing,
        }
    }

    fn set_state(&self, state: DiskState, why: Option<String>) {
        *self.why() = why;
        self.state.store(state as u8, Ordering::Relaxed);
    }

    fn why(&self) -> MutexGuard<'_, Option<String>> {
        self.why.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For the fuzz target: a description that can be read, written again.
#[doc(hidden)]
pub fn reencoded(form: u8, description: &[u8]) -> Option<Vec<u8>> {
    record::reencoded(form, description)
}

/// What may wait to be written, of a cache of so much memory.
fn queue_max(memory_bytes: u64) -> u64 {
    (memory_bytes / DISK_QUEUE_PART).clamp(DISK_QUEUE_BYTES_MIN, DISK_QUEUE_BYTES_MAX)
}

/// What an object counts while it waits.
fn weight(object: &Object) -> u64 {
    let content = object.response().map_or(0, |response| response.content.len());
    content + object.key.text().len() as u64 + 1024
}

/// Read at once of a content that is a file.
const PIECE_BYTES: u64 = 256 * 1024;

/// Gives a content piece by piece.
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
