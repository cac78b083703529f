//! A worker's own table of stored objects.
//!
//! It has two slots per hash: a lookup takes no lock and writes nothing that another worker reads.
//! With one, a response and its coding that shared it would have taken turns in it for as long as
//! the process lived.
//! Promises that no object is found that was removed from the store or has another key, and that it
//! keeps at most a given number of bytes alive.

use std::sync::Arc;

use crate::Object;

/// An entry: the object, and what was prepared from it.
pub trait TableEntry {
    /// The object, which must still be stored for the entry to be valid.
    fn object(&self) -> &Arc<Object>;

    /// Memory that is kept alive, including the object's content.
    fn bytes(&self) -> usize;
}

impl TableEntry for Arc<Object> {
    fn object(&self) -> &Arc<Object> {
        self
    }

    fn bytes(&self) -> usize {
        match &self.kind {
            crate::ObjectKind::Response(response) => response.content.len() as usize + 1024,
            _ => 1024,
        }
    }
}

/// The table of one worker, for one store.
pub struct WorkerTable<T> {
    /// Their number is a power of two.
    slots: Box<[Option<TableSlot<T>>]>,
    /// The store's clear epoch that all entries belong to.
    epoch: u64,
    bytes: usize,
    bytes_max: usize,
    /// Insertions since removed objects were last dropped.
    puts: usize,
}

/// After so many insertions, removed objects are dropped: the store does not count their memory.
const TIDY_AFTER: usize = 64;

struct TableSlot<T> {
    hash: u64,
    bytes: usize,
    kept: T,
}

impl<T: TableEntry> WorkerTable<T> {
    /// Makes a table of at least `slots` slots, for at most `bytes_max` bytes.
    pub fn new(slots: usize, bytes_max: usize) -> WorkerTable<T> {
        let slots = (0..slots.next_power_of_two()).map(|_| None).collect();
        WorkerTable { slots, epoch: 0, bytes: 0, bytes_max, puts: 0 }
    }

    /// Returns the entry of a key. `epoch` is the store's now.
    pub fn get(&mut self, hash: u64, key: &[u8], epoch: u64) -> Option<&T> {
        self.renew(epoch);
        let at = self.find(hash)?;
        let object = self.slots[at].as_ref()?.kept.object();
        if object.state.is_removed() {
            self.clear(at);
            return None;
        }
        if object.key.text() != key {
            return None;
        }
        self.slots[at].as_ref().map(|slot| &slot.kept)
    }

    /// Adds an entry, unless it is too large. The one in its slot moves to the neighbour, in place
    /// of what is there. `epoch` is the store's from before the object was looked up.
    pub fn put(&mut self, hash: u64, kept: T, epoch: u64) {
        self.renew(epoch);
        if let Some(former) = self.find(hash) {
            self.clear(former);
        }
        let at = self.at(hash);
        if self.slots[at].is_some() {
            let neighbour = self.neighbour(at);
            self.clear(neighbour);
            self.slots.swap(at, neighbour);
        }
        self.puts += 1;
        if self.puts == TIDY_AFTER {
            self.puts = 0;
            self.drop_removed();
        }
        let bytes = kept.bytes();
        if bytes > self.bytes_max {
            return;
        }
        // The following slots make room.
        let mut next = at;
        while self.bytes + bytes > self.bytes_max {
            next = (next + 1) & (self.slots.len() - 1);
            self.clear(next);
        }
        self.bytes += bytes;
        self.slots[at] = Some(TableSlot { hash, bytes, kept });
    }

    /// Drops entries whose object was removed from the store.
    fn drop_removed(&mut self) {
        for at in 0..self.slots.len() {
            let slot = self.slots[at].as_ref();
            if slot.is_some_and(|slot| slot.kept.object().state.is_removed()) {
                self.clear(at);
            }
        }
    }

    /// Bytes that are kept alive.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn renew(&mut self, epoch: u64) {
        if self.epoch != epoch {
            self.epoch = epoch;
            for at in 0..self.slots.len() {
                self.clear(at);
            }
        }
    }

    fn clear(&mut self, at: usize) {
        if let Some(slot) = self.slots[at].take() {
            self.bytes -= slot.bytes;
        }
    }

    /// Where the entry with a hash is.
    #[inline]
    fn find(&self, hash: u64) -> Option<usize> {
        let at = self.at(hash);
        let has = |at: &usize| self.slots[*at].as_ref().is_some_and(|slot| slot.hash == hash);
        [at, self.neighbour(at)].into_iter().find(has)
    }

    fn at(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    /// The other slot of the same two; of a single slot, itself.
    fn neighbour(&self, at: usize) -> usize {
        (at ^ 1) & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests;
