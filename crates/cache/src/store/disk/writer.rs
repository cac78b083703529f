//! The writer thread: loads the segments once, then writes, purges and deletes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use telemetry::log::Level;

use super::index::{KeyHashes, RecordLocation};
use super::purge_log::StatusHeaders;
use super::record::{self, RecordHeader, RecordKind};
use super::{DiskShared, DiskState, WriterJob, position, purge_log, segment, weight};
use crate::key::url_hash;
use crate::limits::{
    DISK_HEAD_BYTES_MAX, DISK_PURGES_WAITING_MAX, DISK_REST_S, DISK_REWRITTEN_BYTES_MAX,
    DISK_SEGMENT_BYTES_MAX, DISK_SEGMENT_BYTES_MIN, DISK_SEGMENTS,
};
use crate::store::{Purge, PurgeEpoch};
use crate::{Content, Key, Object};

/// Locked as long as the directory is used, so that no other process uses it.
const LOCK_FILE: &str = "lock";
/// Content up to this length is written in one call with its description.
const TOGETHER_BYTES: u64 = 1024 * 1024;

pub(super) struct DiskWriter {
    shared: Arc<DiskShared>,
    jobs: Receiver<WriterJob>,
    lock: Option<File>,
    /// Lengths of the segments, by number; only the last one may be appended to.
    lengths: BTreeMap<u32, u64>,
    /// Whether this process created the last segment: others are never appended to.
    is_open: bool,
    /// After an error, the disk is not used until then.
    rest_until: Option<Instant>,
    /// Purges from before the directory could be opened.
    purges: Vec<(Vec<u8>, u64)>,
    /// The oldest segment that may not have reached the disk.
    unsynced: u32,
}

impl DiskWriter {
    pub(super) fn new(shared: Arc<DiskShared>, jobs: Receiver<WriterJob>) -> DiskWriter {
        DiskWriter {
            shared,
            jobs,
            lock: None,
            lengths: BTreeMap::new(),
            is_open: false,
            rest_until: None,
            purges: Vec::new(),
            unsynced: 0,
        }
    }

    pub(super) fn run(mut self) {
        loop {
            if self.lock.is_none() && !self.is_backing_off() {
                match self.load() {
                    Ok(()) => self.set_working(),
                    Err(error) => self.failed("cannot be opened", &error),
                }
            }
            let job = match self.lock {
                Some(_) => self.jobs.recv().map_err(|_| RecvTimeoutError::Disconnected),
                None => self.jobs.recv_timeout(Duration::from_secs(DISK_REST_S)),
            };
            match job {
                Ok(WriterJob::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(job) => self.take(job),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn take(&mut self, job: WriterJob) {
        let done = match job {
            WriterJob::Write(object, begun, replaces) => {
                let done = self.write(&object, begun, replaces);
                self.shared.queued.fetch_sub(weight(&object), Ordering::Relaxed);
                done
            }
            WriterJob::Purge(head, time) => self.purge(head, time),
            WriterJob::Clear(time) => self.clear(time),
            WriterJob::Position(text) => self.write_position(&text),
            WriterJob::Fit => self.make_room(0),
            WriterJob::Stop => Ok(()),
        };
        if let Err(error) = done {
            self.failed("cannot be written", &error);
        }
    }

    fn is_backing_off(&self) -> bool {
        self.rest_until.is_some_and(|until| Instant::now() < until)
    }

    fn failed(&mut self, what: &str, error: &io::Error) {
        self.rest_until = Some(Instant::now() + Duration::from_secs(DISK_REST_S));
        let shared = &self.shared;
        shared.counts.failed.fetch_add(1, Ordering::Relaxed);
        if shared.state() != DiskState::Failing {
            telemetry::event!(
                Level::Error,
                "disk cache disabled, serving from memory",
                cache = shared.name,
                path = shared.directory.display(),
                why = what,
                error = error
            );
        }
        shared.set_state(DiskState::Failing, Some(format!("{what}: {error}")));
    }

    fn set_working(&mut self) {
        self.rest_until = None;
        if self.shared.state() == DiskState::Failing {
            let shared = &self.shared;
            telemetry::event!(
                Level::Info,
                "disk cache enabled again",
                cache = shared.name,
                path = shared.directory.display()
            );
        }
        if self.shared.state() != DiskState::Working {
            self.shared.set_state(DiskState::Working, None);
        }
    }

    /// Locks the directory and loads its segments, the oldest first.
    fn load(&mut self) -> io::Result<()> {
        fs::create_dir_all(&self.shared.directory)?;
        let lock = File::create(self.shared.directory.join(LOCK_FILE))?;
        lock.try_lock().map_err(|error| match error {
            fs::TryLockError::Error(error) => error,
            fs::TryLockError::WouldBlock => io::Error::other("another process uses the directory"),
        })?;
        for number in segment::list(&self.shared.directory)? {
            if self.shared.stopping.load(Ordering::Relaxed) {
                break;
            }
            self.load_segment(number)?;
        }
        self.shared.purged.loaded();
        self.lock = Some(lock);
        let purges = std::mem::take(&mut self.purges);
        if purges.len() > DISK_PURGES_WAITING_MAX {
            self.delete_all()?;
        } else {
            purges.into_iter().try_for_each(|(head, time)| self.purge(head, time))?;
        }
        self.make_room(0)
    }

    fn load_segment(&mut self, number: u32) -> io::Result<()> {
        let shared = &self.shared;
        let file = match shared.file(number) {
            // From an attempt that failed later: objects in memory may refer to it.
            Some(file) => file,
            None => Arc::new(segment::open(&shared.directory, number)?),
        };
        shared.files_mut().insert(number, file.clone());
        let end = segment::walk(&file, |offset, header, head| {
            if header.form == RecordKind::Purge {
                purge_log::decode(head, |recorded| repeat(shared, recorded, header.time));
            } else if let (Some(key), Ok(length)) =
                (record::key(head), u32::try_from(header.record_len()))
            {
                let mut index = shared.index_mut();
                // Under the lock: a purge is noted before it takes the lock.
                if !shared.purged.url_is_gone(key.url()) {
                    let location = RecordLocation { segment: number, offset, length };
                    index.insert(KeyHashes::of(&key), location);
                }
            }
            !shared.stopping.load(Ordering::Relaxed)
        })?;
        // An incomplete record at the end is removed: nothing is ever written behind it.
        let length = file.metadata()?.len();
        if end < length && !shared.stopping.load(Ordering::Relaxed) {
            file.set_len(end)?;
        }
        if let Some(before) = self.lengths.insert(number, end) {
            shared.used.fetch_sub(before, Ordering::Relaxed);
        }
        shared.used.fetch_add(end, Ordering::Relaxed);
        Ok(())
    }

    fn segment_bytes(&self) -> u64 {
        let size = self.shared.size.load(Ordering::Relaxed);
        (size / DISK_SEGMENTS).clamp(DISK_SEGMENT_BYTES_MIN, DISK_SEGMENT_BYTES_MAX)
    }

    fn write(&mut self, object: &Object, begun: PurgeEpoch, replaces: bool) -> io::Result<()> {
        if self.lock.is_none() || self.is_backing_off() {
            self.shared.counts.dropped.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        }
        // A restart must find neither the previous object of the key nor one that was purged while
        // it was written.
        match self.write_if_current(object, begun)? {
            Some(true) => Ok(()),
            // An earlier job may have written the key since.
            None if !self.shared.index_mut().remove(KeyHashes::of(&object.key)) && !replaces => {
                Ok(())
            }
            _ => self.purge(purge_log::encode_key(&object.key), 0),
        }
    }

    /// Writes an object. `None` if nothing was written, else whether it may be found: it may have
    /// been purged.
    fn write_if_current(&mut self, object: &Object, begun: PurgeEpoch) -> io::Result<Option<bool>> {
        let shared = self.shared.clone();
        let is_current = || shared.purge_epochs.admit(object, url_hash(object.key.url()), begun);
        let dropped = || {
            shared.counts.dropped.fetch_add(1, Ordering::Relaxed);
            Ok(None)
        };
        let Some((form, head)) = record::encode(object).filter(|_| is_current()) else {
            return Ok(None);
        };
        let content = object.response().map(|response| response.content.clone());
        let content = content.unwrap_or(Content::Memory(Bytes::new()));
        let crc = record::checksum(&content)?;
        let header = RecordHeader::new(form, begun.bits(), &head, (content.len(), crc));
        if header.record_len_max() > self.segment_bytes() {
            return dropped();
        }
        let Some(location) = self.append(&header, &head, &content)? else { return dropped() };
        let mut index = shared.index_mut();
        // Under the lock: a purge is noted before it takes the lock.
        let written = is_current();
        if written {
            index.insert(KeyHashes::of(&object.key), location);
            shared.counts.written.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Some(written))
    }

    /// Appends a record; `None` if the size limit leaves no room for it.
    fn append(
        &mut self,
        header: &RecordHeader,
        head: &[u8],
        content: &Content,
    ) -> io::Result<Option<RecordLocation>> {
        let most = header.record_len_max();
        self.make_room(most)?;
        if !self.shared.has_room(most) {
            return Ok(None);
        }
        let (number, offset) = self.end(most)?;
        let header = header.placed(offset, head);
        let length = header.record_len();
        let Some(file) = self.shared.file(number) else { return Ok(None) };
        let (Ok(at), Ok(len)) = (u32::try_from(offset), u32::try_from(length)) else {
            return Ok(None);
        };
        if let Err(error) = write_at(&file, offset, &header, head, content) {
            // An incomplete record is removed; if that fails too, nothing is written after it.
            if file.set_len(offset).is_err() {
                self.is_open = false;
            }
            return Err(error);
        }
        self.lengths.insert(number, offset + length);
        self.shared.used.fetch_add(length, Ordering::Relaxed);
        self.set_working();
        Ok(Some(RecordLocation { segment: number, offset: at, length: len }))
    }

    /// Where the next record of that length is written.
    fn end(&mut self, length: u64) -> io::Result<(u32, u64)> {
        if self.is_open
            && let Some((number, end)) = self.lengths.last_key_value()
            && (*end == 0 || end + length <= self.segment_bytes())
        {
            return Ok((*number, *end));
        }
        let number = self.lengths.last_key_value().map_or(0, |(last, _)| last.wrapping_add(1));
        let file = segment::create(&self.shared.directory, number)?;
        self.shared.files_mut().insert(number, Arc::new(file));
        self.lengths.insert(number, 0);
        self.is_open = true;
        Ok((number, 0))
    }

    /// Deletes the oldest segments until there is room for `length`.
    fn make_room(&mut self, length: u64) -> io::Result<()> {
        while !self.shared.has_room(length)
            && let Some((&oldest, _)) = self.lengths.first_key_value()
        {
            let begun = self.shared.purge_epochs.purge_epoch();
            let wanted = self.read_records(oldest)?;
            self.delete(&[oldest])?;
            self.rewrite(wanted, begun)?;
        }
        Ok(())
    }

    /// Returns records of a segment that were read since they were written, up to a limit.
    fn read_records(&self, number: u32) -> io::Result<Vec<(RecordHeader, Vec<u8>, Content)>> {
        let shared = &self.shared;
        let most = DISK_REWRITTEN_BYTES_MAX.min(self.segment_bytes() / 4);
        let Some(file) = shared.file(number) else { return Ok(Vec::new()) };
        let mut wanted = Vec::new();
        let mut bytes = 0;
        segment::walk(&file, |offset, header, head| {
            let length = u32::try_from(header.record_len()).unwrap_or(u32::MAX);
            let location = RecordLocation { segment: number, offset, length };
            let fits = header.form != RecordKind::Purge && bytes + header.record_len() <= most;
            let is_wanted = |key: Key| shared.index().is_wanted(KeyHashes::of(&key), location);
            if fits && record::key(head).is_some_and(is_wanted) {
                bytes += header.record_len();
                let at = u64::from(offset) + header.content_at() as u64;
                wanted.push((*header, head.to_vec(), at));
            }
            true
        })?;
        let read = |(header, head, at): (RecordHeader, Vec<u8>, u64)| {
            let mut content = vec![0; usize::try_from(header.content_len).unwrap_or_default()];
            file.read_exact_at(&mut content, at)?;
            Ok((header, head, Content::Memory(content.into())))
        };
        wanted.into_iter().map(read).collect()
    }

    /// Deletes segments. Returns the first error, after all of them.
    fn delete(&mut self, numbers: &[u32]) -> io::Result<()> {
        let shared = &self.shared;
        let (mut files, mut outcome) = (Vec::new(), Ok(()));
        for number in numbers {
            shared.index_mut().remove_segment(*number);
            let length = self.lengths.remove(number).unwrap_or(0);
            shared.used.fetch_sub(length, Ordering::Relaxed);
            if let Some(file) = shared.files_mut().remove(number) {
                shared.deleted().push(&file, length);
                files.push(file);
            }
            match fs::remove_file(segment::path(&shared.directory, *number)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    outcome = outcome.and(Err(error));
                }
                _ => {}
            }
        }
        if self.lengths.is_empty() {
            self.is_open = false;
        }
        // After they cannot be found any more: an object that is stored later sees that.
        shared.memory.remove_files(|file| files.iter().any(|deleted| Arc::ptr_eq(deleted, file)));
        outcome
    }

    /// Writes records of a deleted segment again, if there is room and no newer ones.
    fn rewrite(
        &mut self,
        records: Vec<(RecordHeader, Vec<u8>, Content)>,
        begun: PurgeEpoch,
    ) -> io::Result<()> {
        let shared = self.shared.clone();
        for (header, head, content) in records {
            if !shared.has_room(header.record_len_max()) {
                return Ok(());
            }
            let Some(object) = record::decode(header.form, &head, content.clone()) else {
                continue;
            };
            let tags = object.response().map_or(&[][..], |response| &response.tags);
            let (hashes, url) = (KeyHashes::of(&object.key), object.key.url());
            // Between deletion and rewriting, a purge did not find it in the index. What was purged
            // softly goes too: the record of that purge may be deleted before a new record.
            let is_gone = || {
                shared.purged.is_gone(url, tags, header.time)
                    || shared.purged.is_stale(url, tags, header.time)
                    || !shared.purge_epochs.admit(&object, url_hash(url), begun)
            };
            if is_gone() {
                continue;
            }
            let Some(location) = self.append(&header, &head, &content)? else { return Ok(()) };
            let mut index = shared.index_mut();
            if !is_gone() {
                if index.find(hashes).is_none() {
                    index.insert(hashes, location);
                }
                continue;
            }
            drop(index);
            self.purge(purge_log::encode_key(&object.key), 0)?;
        }
        Ok(())
    }

    /// Writes a purge for the next start.
    fn purge(&mut self, head: Vec<u8>, time: u64) -> io::Result<()> {
        if self.lock.is_none() {
            if self.purges.len() <= DISK_PURGES_WAITING_MAX {
                self.purges.push((head, time));
            }
            return Ok(());
        }
        let header = RecordHeader::new(RecordKind::Purge, time, &head, (0, 0));
        let fits = head.len() <= DISK_HEAD_BYTES_MAX;
        let noted = match fits {
            true => self.append(&header, &head, &Content::Memory(Bytes::new())),
            false => Ok(None),
        };
        if !matches!(noted, Ok(Some(_))) {
            // A purge that cannot be written would be forgotten: everything is deleted instead.
            self.delete_all()?;
        }
        noted.map(|_| ())
    }

    /// Writes the position in the log of purges, when the purges before it are on disk. If they may
    /// not be, the earlier position stays: then they are repeated.
    fn write_position(&mut self, text: &str) -> io::Result<()> {
        if self.lock.is_none() || self.is_backing_off() {
            return Ok(());
        }
        let mut last = self.unsynced;
        for (number, _) in self.lengths.range(self.unsynced..) {
            if let Some(file) = self.shared.file(*number) {
                file.sync_data()?;
            }
            last = *number;
        }
        position::write(&self.shared.directory, text)?;
        // More is appended to the last one.
        self.unsynced = last;
        Ok(())
    }

    /// Writes the purge of everything before deleting, in case the process is killed in between.
    fn clear(&mut self, time: u64) -> io::Result<()> {
        let before: Vec<u32> = self.lengths.keys().copied().collect();
        self.is_open = false;
        self.purge(purge_log::encode(&Purge::All, false), time)?;
        self.delete(&before)
    }

    fn delete_all(&mut self) -> io::Result<()> {
        let all: Vec<u32> = self.lengths.keys().copied().collect();
        self.delete(&all)
    }
}

/// Repeats a purge found while loading: what it covers is older and was loaded before.
fn repeat(shared: &DiskShared, recorded: &StatusHeaders<'_>, time: u64) {
    match recorded {
        StatusHeaders::Key(text, url_len) => {
            shared.index_mut().remove(KeyHashes::of(&Key::new(*text, *url_len)));
        }
        StatusHeaders::Purge(Purge::Url(url)) => shared.index_mut().remove_url(url),
        StatusHeaders::Purge(Purge::All) => {
            shared.purged.note(&Purge::All, false, time);
            shared.index_mut().clear();
        }
        StatusHeaders::Purge(purge) => shared.purged.note(purge, false, time),
        StatusHeaders::SoftPurge(purge) => shared.purged.note(purge, true, time),
    }
}

fn write_at(
    file: &File,
    offset: u64,
    header: &RecordHeader,
    head: &[u8],
    content: &Content,
) -> io::Result<()> {
    let mut first = Vec::with_capacity(header.content_at());
    first.extend_from_slice(&header.bytes());
    first.extend_from_slice(head);
    first.resize(header.content_at(), 0);
    if content.len() <= TOGETHER_BYTES {
        super::pieces(content, |piece| {
            first.extend_from_slice(piece);
            Ok(())
        })?;
        return file.write_all_at(&first, offset);
    }
    let mut at = offset + first.len() as u64;
    file.write_all_at(&first, offset)?;
    super::pieces(content, |piece| {
        file.write_all_at(piece, at)?;
        at += piece.len() as u64;
        Ok(())
    })
}
