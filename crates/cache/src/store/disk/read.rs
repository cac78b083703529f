//! Reading of one record.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use net::FileRange;
use telemetry::log::Level;

use super::index::{KeyHashes, RecordLocation};
use super::record::{self, HEADER_BYTES, RecordHeader};
use super::{DiskShared, segment};
use crate::limits::{DISK_READ_BYTES, MEMORY_FILE_BYTES_MIN};
use crate::{Content, Key, Object};

/// A record to be read, by a thread that may block.
pub(crate) struct StoredRecord {
    shared: Arc<DiskShared>,
    file: Arc<File>,
    hashes: KeyHashes,
    location: RecordLocation,
}

/// The result of reading a record.
enum RecordRead {
    Object(Box<Object>),
    /// Another object, or one that was purged.
    Other,
    Damaged,
}

impl StoredRecord {
    pub(super) fn find(shared: &Arc<DiskShared>, key: &Key) -> Option<StoredRecord> {
        let hashes = KeyHashes::of(key);
        let location = shared.index().find_to_read(hashes)?;
        let file = shared.file(location.segment)?;
        Some(StoredRecord { shared: shared.clone(), file, hashes, location })
    }

    /// The memory that reading it needs.
    pub(crate) fn memory_bytes(&self) -> u64 {
        u64::from(self.location.length).min(2 * MEMORY_FILE_BYTES_MIN)
    }

    /// Reads the object if it has this key, is complete and was not purged; stale if it was purged
    /// softly. Blocks.
    pub(crate) fn read(self, key: &Key) -> Option<Object> {
        let shared = &self.shared;
        let counts = &shared.counts;
        let (count, why) = match self.found(key) {
            Ok(RecordRead::Object(object)) => {
                counts.found.fetch_add(1, Ordering::Relaxed);
                return Some(*object);
            }
            Ok(RecordRead::Other) => {
                shared.index_mut().remove_at(self.hashes, self.location);
                return None;
            }
            Ok(RecordRead::Damaged) => (&counts.damaged, "wrong checksum".to_owned()),
            Err(error) => (&counts.failed, error.to_string()),
        };
        count.fetch_add(1, Ordering::Relaxed);
        shared.index_mut().remove_at(self.hashes, self.location);
        let path = segment::path(&shared.directory, self.location.segment);
        telemetry::event_limited!(
            10,
            Level::Warn,
            "unreadable object in the disk cache, fetching it again",
            cache = shared.name,
            file = path.display(),
            why = why
        );
        None
    }

    /// Reads the content in pieces: as a whole it would need memory twice, or memory that it does
    /// not need afterwards. Long content is only compared with its checksum.
    fn found(&self, key: &Key) -> io::Result<RecordRead> {
        let (start, length) = (u64::from(self.location.offset), self.location.length as usize);
        let mut first = vec![0; length.min(DISK_READ_BYTES)];
        self.file.read_exact_at(&mut first, start)?;
        let Some(header) = first.first_chunk().and_then(RecordHeader::parse) else {
            return Ok(RecordRead::Damaged);
        };
        let content_at = header.content_at();
        if header.record_len() != length as u64 {
            return Ok(RecordRead::Damaged);
        }
        if content_at > first.len() {
            let had = first.len();
            first.resize(content_at, 0);
            self.file.read_exact_at(&mut first[had..], start + had as u64)?;
        }
        let (begun, head) =
            (&first[content_at..], &first[HEADER_BYTES..][..header.head_len as usize]);
        if !header.fits(head) {
            return Ok(RecordRead::Damaged);
        }
        if record::key(head).as_ref() != Some(key) {
            return Ok(RecordRead::Other);
        }
        let is_long = header.content_len >= MEMORY_FILE_BYTES_MIN;
        let mut short = Vec::with_capacity(if is_long { 0 } else { length - content_at });
        let mut crc = crc32fast::Hasher::new();
        let mut take = |piece: &[u8]| {
            crc.update(piece);
            if !is_long {
                short.extend_from_slice(piece);
            }
        };
        take(begun);
        let mut at = first.len();
        let mut piece = vec![0; (length - at).min(DISK_READ_BYTES)];
        while at < length {
            let piece = &mut piece[..(length - at).min(DISK_READ_BYTES)];
            self.file.read_exact_at(piece, start + at as u64)?;
            take(piece);
            at += piece.len();
        }
        if crc.finalize() != header.content_crc {
            return Ok(RecordRead::Damaged);
        }
        let content = match is_long {
            true => Content::File(FileRange {
                file: self.file.clone(),
                offset: start + content_at as u64,
                length: header.content_len,
            }),
            false => Content::Memory(short.into()),
        };
        let Some(object) = record::decode(header.form, head, content) else {
            return Ok(RecordRead::Damaged);
        };
        let tags = object.response().map_or(&[][..], |response| &response.tags);
        let purged = &self.shared.purged;
        if purged.is_gone(key.url(), tags, header.time) {
            return Ok(RecordRead::Other);
        }
        // Markers describe requests, not responses.
        if object.response().is_some() && purged.is_stale(key.url(), tags, header.time) {
            object.state.make_stale();
        }
        Ok(RecordRead::Object(Box::new(object)))
    }
}
