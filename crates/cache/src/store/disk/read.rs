//! Reading of one record.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use telemetry::log::Level;

use super::index::{KeyHashes, RecordLocation};
use super::record::{self, HEADER_BYTES, RecordHeader};
use super::{DiskShared, segment};
use crate::content_memory::store_content;
use crate::limits::DISK_READ_BYTES;
use crate::{Key, Object};

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

    /// The bytes to read.
    pub(crate) fn length(&self) -> u64 {
        u64::from(self.location.length)
    }

    /// Reads the object if it has this key, is complete and was not purged. Blocks.
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

    /// Reads the content in pieces into its final memory: read as a whole, it would need memory
    /// twice.
    fn found(&self, key: &Key) -> io::Result<RecordRead> {
        let (start, length) = (u64::from(self.location.offset), self.location.length as usize);
        let mut first = vec![0; length.min(DISK_READ_BYTES)];
        self.file.read_exact_at(&mut first, start)?;
        let Some(header) = first.first_chunk().and_then(RecordHeader::parse) else {
            return Ok(RecordRead::Damaged);
        };
        let described = HEADER_BYTES + header.head_len as usize;
        if header.record_len() != length as u64 || described > length {
            return Ok(RecordRead::Damaged);
        }
        if described > first.len() {
            let had = first.len();
            first.resize(described, 0);
            self.file.read_exact_at(&mut first[had..], start + had as u64)?;
        }
        let (head, begun) = first[HEADER_BYTES..].split_at(header.head_len as usize);
        if !header.fits(head) {
            return Ok(RecordRead::Damaged);
        }
        if record::key(head).as_ref() != Some(key) {
            return Ok(RecordRead::Other);
        }
        let mut crc = crc32fast::Hasher::new();
        let content = store_content(header.content_len, |out| {
            crc = crc32fast::Hasher::new();
            crc.update(begun);
            out.write_all(begun)?;
            let mut at = first.len();
            let mut piece = vec![0; (length - at).min(DISK_READ_BYTES)];
            while at < length {
                let piece = &mut piece[..(length - at).min(DISK_READ_BYTES)];
                self.file.read_exact_at(piece, start + at as u64)?;
                crc.update(piece);
                out.write_all(piece)?;
                at += piece.len();
            }
            Ok(())
        })?;
        if crc.finalize() != header.content_crc {
            return Ok(RecordRead::Damaged);
        }
        let Some(object) = record::decode(header.form, head, content) else {
            return Ok(RecordRead::Damaged);
        };
        let tags = object.response().map_or(&[][..], |response| &response.tags);
        match self.shared.purged.is_gone(key.url(), tags, header.time) {
            true => Ok(RecordRead::Other),
            false => Ok(RecordRead::Object(Box::new(object))),
        }
    }
}
