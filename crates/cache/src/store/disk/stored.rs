//! Reading one object.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use telemetry::log::Level;

use super::index::{Hashes, Place};
use super::record::{self, HEADER_BYTES, Header};
use super::{Shared, segment};
use crate::held::hold;
use crate::limits::DISK_READ_BYTES;
use crate::{Key, Object};

/// A record that is to be read, by a thread that may wait for a disk.
pub(crate) struct Stored {
    shared: Arc<Shared>,
    file: Arc<File>,
    hashes: Hashes,
    place: Place,
}

/// What stands where the index says.
enum Found {
    Object(Box<Object>),
    /// Something else, or something that was purged.
    Other,
    Damaged,
}

impl Stored {
    pub(super) fn find(shared: &Arc<Shared>, key: &Key) -> Option<Stored> {
        let hashes = Hashes::of(key);
        let place = shared.index().find_to_read(hashes)?;
        let file = shared.file(place.segment)?;
        Some(Stored { shared: shared.clone(), file, hashes, place })
    }

    /// Bytes that reading it takes.
    pub(crate) fn length(&self) -> u64 {
        u64::from(self.place.length)
    }

    /// The object, if it is that of the key, whole, and not purged since. Waits for the disk.
    pub(crate) fn read(self, key: &Key) -> Option<Object> {
        let shared = &self.shared;
        let counts = &shared.counts;
        let (count, why) = match self.found(key) {
            Ok(Found::Object(object)) => {
                counts.found.fetch_add(1, Ordering::Relaxed);
                return Some(*object);
            }
            Ok(Found::Other) => {
                shared.index_mut().remove_at(self.hashes, self.place);
                return None;
            }
            Ok(Found::Damaged) => (&counts.damaged, "a checksum is wrong".to_owned()),
            Err(error) => (&counts.failed, error.to_string()),
        };
        count.fetch_add(1, Ordering::Relaxed);
        shared.index_mut().remove_at(self.hashes, self.place);
        let path = segment::path(&shared.folder, self.place.segment);
        telemetry::event_limited!(
            10,
            Level::Warn,
            "an object on disk cannot be used",
            cache = shared.name,
            file = path.display(),
            why = why
        );
        None
    }

    /// Reads the content in pieces to where it is to stay: a record that was read as a whole would
    /// take its length twice.
    fn found(&self, key: &Key) -> io::Result<Found> {
        let (start, length) = (u64::from(self.place.offset), self.place.length as usize);
        let mut first = vec![0; length.min(DISK_READ_BYTES)];
        self.file.read_exact_at(&mut first, start)?;
        let Some(header) = first.first_chunk().and_then(Header::parse) else {
            return Ok(Found::Damaged);
        };
        let described = HEADER_BYTES + header.head_len as usize;
        if header.record_len() != length as u64 || described > length {
            return Ok(Found::Damaged);
        }
        if described > first.len() {
            let had = first.len();
            first.resize(described, 0);
            self.file.read_exact_at(&mut first[had..], start + had as u64)?;
        }
        let (head, begun) = first[HEADER_BYTES..].split_at(header.head_len as usize);
        if !header.fits(head) {
            return Ok(Found::Damaged);
        }
        if record::key(head).as_ref() != Some(key) {
            return Ok(Found::Other);
        }
        let mut crc = crc32fast::Hasher::new();
        let content = hold(header.content_len, |out| {
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
            return Ok(Found::Damaged);
        }
        let Some(object) = record::decode(header.form, head, content) else {
            return Ok(Found::Damaged);
        };
        let tags = object.response().map_or(&[][..], |response| &response.tags);
        match self.shared.purged.is_gone(key.url(), tags, header.time) {
            true => Ok(Found::Other),
            false => Ok(Found::Object(Box::new(object))),
        }
    }
}
