//! A map of keys to values with expiry, in bounded memory.
//!
//! Promises that memory never exceeds the limit and that an expired entry is never returned.
//! Eviction is SIEVE (Zhang et al., NSDI 2024): a queue by age and a hand that passes over it,
//! clears the mark of used entries and removes unused ones. A hit sets the mark and moves nothing.
//! Deadlines are ordered, so finding expired entries needs no search. Has no clock: time is passed
//! in.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;
use slab::Slab;

use crate::value::Value;

/// The deadline of an entry without expiry.
pub const NEVER: u64 = u64::MAX;
/// Memory of an entry in addition to its key and value: the entry itself, its places in the table
/// and among the deadlines, and rounding by the allocator.
const ENTRY_BYTES: usize = 160;
/// The index of no entry.
const NONE: usize = usize::MAX;

#[derive(Debug)]
struct Entry {
    key: Box<[u8]>,
    value: Value,
    until_ms: u64,
    used: bool,
    /// The next newer entry.
    newer: usize,
    older: usize,
}

impl Entry {
    fn weight(&self) -> usize {
        weight(&self.key, &self.value)
    }
}

fn weight(key: &[u8], value: &Value) -> usize {
    ENTRY_BYTES + key.len() + value.weight()
}

/// Error: the value alone exceeds the memory limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

/// Counts of entries that were removed without a delete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removals {
    pub evicted: u64,
    pub expired: u64,
}

#[derive(Debug)]
pub struct ExpiringMap {
    hashes: RandomState,
    table: HashTable<usize>,
    entries: Slab<Entry>,
    /// Entries with an expiry, by deadline.
    deadlines: BTreeSet<(u64, usize)>,
    newest: usize,
    oldest: usize,
    hand: usize,
    bytes: usize,
    limit: usize,
    removals: Removals,
}

impl ExpiringMap {
    pub fn new(limit: usize) -> ExpiringMap {
        ExpiringMap {
            hashes: RandomState::new(),
            table: HashTable::new(),
            entries: Slab::new(),
            deadlines: BTreeSet::new(),
            newest: NONE,
            oldest: NONE,
            hand: NONE,
            bytes: 0,
            limit,
            removals: Removals::default(),
        }
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Memory of all entries.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Sets the limit and evicts what exceeds it.
    pub fn resize(&mut self, limit: usize, now_ms: u64) {
        self.limit = limit;
        self.make_room(0, NONE, now_ms);
    }

    /// Returns the counts since the last call.
    pub fn take_removals(&mut self) -> Removals {
        std::mem::take(&mut self.removals)
    }

    /// Returns the value of a key and its deadline, and marks the entry as used.
    pub fn get(&mut self, key: &[u8], now_ms: u64) -> Option<(&Value, u64)> {
        let at = self.find(key, now_ms)?;
        let entry = &mut self.entries[at];
        entry.used = true;
        Some((&entry.value, entry.until_ms))
    }

    /// Stores a value, replacing the previous one. Other entries are evicted when memory is short.
    pub fn set(
        &mut self,
        key: &[u8],
        value: Value,
        until_ms: u64,
        now_ms: u64,
    ) -> Result<(), TooLarge> {
        if weight(key, &value) > self.limit {
            return Err(TooLarge);
        }
        match self.find(key, now_ms) {
            Some(at) => self.replace(at, value, until_ms, now_ms),
            None => self.insert(key, value, until_ms, now_ms),
        }
        Ok(())
    }

    fn replace(&mut self, at: usize, value: Value, until_ms: u64, now_ms: u64) {
        self.move_deadline(at, until_ms);
        let entry = &mut self.entries[at];
        self.bytes = self.bytes - entry.value.weight() + value.weight();
        entry.value = value;
        entry.used = true;
        self.make_room(0, at, now_ms);
    }

    fn insert(&mut self, key: &[u8], value: Value, until_ms: u64, now_ms: u64) {
        let weight = weight(key, &value);
        self.make_room(weight, NONE, now_ms);
        let key = Box::from(key);
        let (newer, older) = (NONE, self.newest);
        let at = self.entries.insert(Entry { key, value, until_ms, used: false, newer, older });
        match older {
            NONE => self.oldest = at,
            older => self.entries[older].newer = at,
        }
        self.newest = at;
        self.bytes += weight;
        if until_ms != NEVER {
            self.deadlines.insert((until_ms, at));
        }
        let (entries, hashes) = (&self.entries, &self.hashes);
        let hash = |&at: &usize| hashes.hash_one(&*entries[at].key);
        self.table.insert_unique(hash(&at), at, hash);
    }

    /// Removes a key; returns true if it existed.
    pub fn remove(&mut self, key: &[u8], now_ms: u64) -> bool {
        let found = self.find(key, now_ms);
        found.inspect(|&at| self.remove_at(at)).is_some()
    }

    /// Sets the deadline of an entry and marks it as used; returns true if it exists.
    pub fn set_deadline(&mut self, key: &[u8], until_ms: u64, now_ms: u64) -> bool {
        let Some(at) = self.find(key, now_ms) else { return false };
        self.move_deadline(at, until_ms);
        self.entries[at].used = true;
        true
    }

    /// Removes at most `at_most` expired entries.
    pub fn expire(&mut self, at_most: usize, now_ms: u64) {
        for _ in 0..at_most {
            let Some(&(until_ms, at)) = self.deadlines.first() else { return };
            if until_ms > now_ms {
                return;
            }
            self.remove_at(at);
            self.removals.expired += 1;
        }
    }

    /// Passes the keys of the next `count` places from `cursor` to `show`; returns the next cursor,
    /// 0 at the end. A key that exists during the whole scan is shown once.
    pub fn scan(
        &self,
        cursor: usize,
        count: usize,
        now_ms: u64,
        mut show: impl FnMut(&[u8]),
    ) -> usize {
        let end = self.entries.capacity().min(cursor.saturating_add(count));
        for at in cursor..end {
            if let Some(entry) = self.entries.get(at).filter(|entry| entry.until_ms > now_ms) {
                show(&entry.key);
            }
        }
        if end >= self.entries.capacity() { 0 } else { end }
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        let removals = self.removals;
        *self = ExpiringMap::new(self.limit);
        self.removals = removals;
    }

    fn find(&mut self, key: &[u8], now_ms: u64) -> Option<usize> {
        let entries = &self.entries;
        let hash = self.hashes.hash_one(key);
        let at = *self.table.find(hash, |&at| *entries[at].key == *key)?;
        if self.entries[at].until_ms > now_ms {
            return Some(at);
        }
        self.remove_at(at);
        self.removals.expired += 1;
        None
    }

    fn move_deadline(&mut self, at: usize, until_ms: u64) {
        let before = std::mem::replace(&mut self.entries[at].until_ms, until_ms);
        if before != NEVER {
            self.deadlines.remove(&(before, at));
        }
        if until_ms != NEVER {
            self.deadlines.insert((until_ms, at));
        }
    }

    /// Makes room for `bytes` bytes without removing `keep`.
    fn make_room(&mut self, bytes: usize, keep: usize, now_ms: u64) {
        while self.bytes + bytes > self.limit {
            let expired = self.deadlines.first().filter(|&&(until_ms, _)| until_ms <= now_ms);
            if let Some(&(_, at)) = expired.filter(|&&(_, at)| at != keep) {
                self.remove_at(at);
                self.removals.expired += 1;
            } else if !self.evict(keep) {
                return;
            }
        }
    }

    /// Moves the hand to the next entry that was not used since its last pass, and removes it.
    fn evict(&mut self, keep: usize) -> bool {
        // Two rounds at most: the first clears the marks.
        for _ in 0..=2 * self.entries.len() {
            let at = if self.hand == NONE { self.oldest } else { self.hand };
            let Some(entry) = self.entries.get_mut(at) else { return false };
            self.hand = entry.newer;
            if at != keep && !std::mem::take(&mut entry.used) {
                self.remove_at(at);
                self.removals.evicted += 1;
                return true;
            }
        }
        false
    }

    fn remove_at(&mut self, at: usize) {
        let entry = self.entries.remove(at);
        let hash = self.hashes.hash_one(&*entry.key);
        if let Ok(found) = self.table.find_entry(hash, |&other| other == at) {
            found.remove();
        }
        if entry.until_ms != NEVER {
            self.deadlines.remove(&(entry.until_ms, at));
        }
        match entry.newer {
            NONE => self.newest = entry.older,
            newer => self.entries[newer].older = entry.older,
        }
        match entry.older {
            NONE => self.oldest = entry.newer,
            older => self.entries[older].newer = entry.newer,
        }
        if self.hand == at {
            self.hand = entry.newer;
        }
        self.bytes -= entry.weight();
    }
}

#[cfg(test)]
mod tests;
