//! The index of records: a table in memory, a few bytes for each.
//!
//! Hashes only locate a record: its key is compared when it is read. All records of a URL are found
//! together, so that a purge does not scan the table.

use std::sync::atomic::{AtomicU8, Ordering};

use hashbrown::HashTable;

use crate::Key;

/// The location of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordLocation {
    pub(super) segment: u32,
    pub(super) offset: u32,
    /// Length of the whole record.
    pub(super) length: u32,
}

/// The hashes of a key that the index stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyHashes {
    url: u32,
    key: u32,
}

impl KeyHashes {
    pub(super) fn of(key: &Key) -> KeyHashes {
        KeyHashes { url: KeyHashes::of_url(key.url()), key: key.hash() as u32 }
    }

    fn of_url(url: &[u8]) -> u32 {
        crate::key::url_hash(url) as u32
    }

    /// Tables use the lowest bits and the highest seven.
    fn spread(url: u32) -> u64 {
        u64::from(url) | u64::from(url) << 32
    }
}

struct IndexEntry {
    hashes: KeyHashes,
    location: RecordLocation,
    /// Whether it was read since it was written: then it is written again when its segment is
    /// deleted.
    read: AtomicU8,
}

/// The index.
#[derive(Default)]
pub(super) struct Index {
    table: HashTable<IndexEntry>,
}

impl Index {
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Memory of the table.
    pub(super) fn bytes(&self) -> usize {
        self.table.allocation_size()
    }

    pub(super) fn find(&self, hashes: KeyHashes) -> Option<RecordLocation> {
        self.entry(hashes).map(|entry| entry.location)
    }

    /// Finds a record and notes that it is read.
    pub(super) fn find_to_read(&self, hashes: KeyHashes) -> Option<RecordLocation> {
        let entry = self.entry(hashes)?;
        entry.read.store(1, Ordering::Relaxed);
        Some(entry.location)
    }

    /// True if the record at that location is current and has been read.
    pub(super) fn is_wanted(&self, hashes: KeyHashes, location: RecordLocation) -> bool {
        let entry = self.entry(hashes).filter(|entry| entry.location == location);
        entry.is_some_and(|entry| entry.read.load(Ordering::Relaxed) > 0)
    }

    fn entry(&self, hashes: KeyHashes) -> Option<&IndexEntry> {
        self.table.find(KeyHashes::spread(hashes.url), |entry| entry.hashes == hashes)
    }

    /// Sets the location of a key's current record.
    pub(super) fn insert(&mut self, hashes: KeyHashes, location: RecordLocation) {
        self.remove(hashes);
        let entry = IndexEntry { hashes, location, read: AtomicU8::new(0) };
        let hasher = |entry: &IndexEntry| KeyHashes::spread(entry.hashes.url);
        self.table.insert_unique(KeyHashes::spread(hashes.url), entry, hasher);
    }

    /// Removes a key; true if it was known.
    pub(super) fn remove(&mut self, hashes: KeyHashes) -> bool {
        self.remove_if(hashes, |_| true)
    }

    /// Removes a record, unless there is a newer one.
    pub(super) fn remove_at(&mut self, hashes: KeyHashes, location: RecordLocation) -> bool {
        self.remove_if(hashes, |entry| entry.location == location)
    }

    fn remove_if(&mut self, hashes: KeyHashes, meant: impl Fn(&IndexEntry) -> bool) -> bool {
        let is = |entry: &IndexEntry| entry.hashes == hashes && meant(entry);
        match self.table.find_entry(KeyHashes::spread(hashes.url), is) {
            Ok(entry) => {
                entry.remove();
                true
            }
            Err(_) => false,
        }
    }

    /// Removes all records of a URL.
    pub(super) fn remove_url(&mut self, url: &[u8]) {
        let url = KeyHashes::of_url(url);
        while let Ok(entry) =
            self.table.find_entry(KeyHashes::spread(url), |entry| entry.hashes.url == url)
        {
            entry.remove();
        }
    }

    /// Removes all records of a segment.
    pub(super) fn remove_segment(&mut self, segment: u32) {
        self.table.retain(|entry| entry.location.segment != segment);
    }

    pub(super) fn clear(&mut self) {
        self.table = HashTable::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(text: &str, url_len: usize) -> KeyHashes {
        KeyHashes::of(&Key::new(text.as_bytes(), url_len))
    }

    fn location(segment: u32, offset: u32) -> RecordLocation {
        RecordLocation { segment, offset, length: 1 }
    }

    #[test]
    fn the_newest_record_of_a_key_counts() {
        let mut index = Index::default();
        let a = hashes("http://a/\0r", 9);
        index.insert(a, location(1, 0));
        index.insert(a, location(1, 100));
        assert_eq!((index.len(), index.find(a)), (1, Some(location(1, 100))));
        assert!(!index.remove_at(a, location(1, 0)) && index.remove_at(a, location(1, 100)));
        assert_eq!(index.find(a), None);
    }

    #[test]
    fn a_url_goes_with_all_its_variants() {
        let mut index = Index::default();
        let of = ["http://a/\0r", "http://a/\0r\0v:de", "http://a/\0other"];
        for (at, text) in of.into_iter().enumerate() {
            index.insert(hashes(text, 9), location(1, at as u32));
        }
        index.insert(hashes("http://b/\0r", 9), location(1, 9));
        index.remove_url(b"http://a/");
        assert_eq!(index.len(), 1);
        index.remove_segment(1);
        assert_eq!(index.len(), 0);
    }

    #[test]
    fn what_was_read_is_wanted_until_it_is_replaced() {
        let mut index = Index::default();
        let a = hashes("http://a/\0r", 9);
        index.insert(a, location(1, 0));
        assert!(!index.is_wanted(a, location(1, 0)));
        assert_eq!(index.find_to_read(a), Some(location(1, 0)));
        assert!(index.is_wanted(a, location(1, 0)) && !index.is_wanted(a, location(2, 0)));
    }
}
