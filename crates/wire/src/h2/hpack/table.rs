//! The dynamic table of the decoder (RFC 7541 2.3.2, 4).
//!
//! The text of all entries is one buffer, in which evicted entries remain until they are half of
//! it: an entry costs a copy of its text and no allocation.

use std::collections::VecDeque;

use super::{Class, ENTRY_OVERHEAD};

#[derive(Debug)]
struct Entry {
    /// The place of the name in the text, counted from the first byte ever stored.
    at: u64,
    name_len: u32,
    value_len: u32,
    class: Class,
}

impl Entry {
    fn len(&self) -> usize {
        self.name_len as usize + self.value_len as usize
    }
}

#[derive(Debug)]
pub(super) struct Table {
    /// The newest entry first.
    entries: VecDeque<Entry>,
    text: Vec<u8>,
    /// What was removed from the beginning of the text.
    removed: u64,
    size: usize,
    max: usize,
}

impl Table {
    pub(super) fn new(max: usize) -> Table {
        Table { entries: VecDeque::new(), text: Vec::new(), removed: 0, size: 0, max }
    }

    /// The entry with this index, 0 for the newest: class, name and value.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<(Class, &[u8], &[u8])> {
        let entry = self.entries.get(index)?;
        let at = (entry.at - self.removed) as usize;
        let text = self.text.get(at..at + entry.len())?;
        let (name, value) = text.split_at_checked(entry.name_len as usize)?;
        Some((entry.class, name, value))
    }

    /// Adds an entry; one that is larger than the table empties it (RFC 7541 4.4).
    pub(super) fn insert(&mut self, class: Class, name: &[u8], value: &[u8]) {
        let size = name.len() + value.len() + ENTRY_OVERHEAD;
        self.evict_to(self.max.saturating_sub(size));
        if size > self.max {
            return;
        }
        let at = self.removed + self.text.len() as u64;
        self.text.extend_from_slice(name);
        self.text.extend_from_slice(value);
        let (name_len, value_len) = (name.len() as u32, value.len() as u32);
        self.entries.push_front(Entry { at, name_len, value_len, class });
        self.size += size;
    }

    /// Changes the size of the table, as the peer announces it.
    pub(super) fn set_max(&mut self, max: usize) {
        self.max = max;
        self.evict_to(max);
    }

    fn evict_to(&mut self, size: usize) {
        while self.size > size
            && let Some(entry) = self.entries.pop_back()
        {
            self.size -= entry.len() + ENTRY_OVERHEAD;
        }
        let end = self.removed + self.text.len() as u64;
        let evicted = (self.entries.back().map_or(end, |oldest| oldest.at) - self.removed) as usize;
        if evicted * 2 >= self.text.len() {
            self.text.drain(..evicted);
            self.removed += evicted as u64;
        }
    }

    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.size
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }
}
