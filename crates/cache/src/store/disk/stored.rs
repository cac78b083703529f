//! Reading one object.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use telemetry::log::Level;

use super::index::{Hashes, Place};
use super::record::{self, HEADER_BYTES, Header};
use super::{Shared, segment};
use crate::held::hold_bytes;
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

    fn found(&self, key: &Key) -> io::Result<Found> {
        let mut bytes = vec![0; self.place.length as usize];
        self.file.read_exact_at(&mut bytes, u64::from(self.place.offset))?;
        let bytes = Bytes::from(bytes);
        let Some((header, head, content)) = parts(&bytes) else { return Ok(Found::Damaged) };
        if record::key(head).as_ref() != Some(key) {
            return Ok(Found::Other);
        }
        // Memory of its own: the whole record would stay with it.
        let content = hold_bytes(Bytes::copy_from_slice(content));
        if record::checksum(&content)? != header.content_crc {
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

/// A whole record: its header, its description, and its content, which is not checked.
fn parts(bytes: &[u8]) -> Option<(Header, &[u8], &[u8])> {
    let (first, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let header = Header::parse(first)?;
    let (head, content) = rest.split_at_checked(header.head_len as usize)?;
    let whole = header.fits(head) && content.len() as u64 == header.content_len;
    whole.then_some((header, head, content))
}
