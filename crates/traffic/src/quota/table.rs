//! The counts of a quota, in a file that is shared as memory.
//!
//! A count is one word, with the minute at which its period began and check bits, so that it is
//! always whole: a process that is killed loses no request, and several processes count together.
//! Promises that the table never grows, that a request which would exceed the limit takes nothing,
//! and that damaged entries are found and dropped when the file is opened.

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use net::FileWords;
use sha2::{Digest as _, Sha256};
use telemetry::log::Level;
use telemetry::{SharedCounter, SharedGauge, event};

use super::period::Span;

/// The first word of a file: its format and version.
const MAGIC: u64 = u64::from_be_bytes(*b"tgquota1");
/// Words before the first slot; all but the first two are zero.
const HEADER_WORDS: usize = 8;
/// The header's word for the identity of the file.
const IDENTITY: usize = 1;
/// Slots of which a key may use one.
const BUCKET: usize = 16;

const CHECK_BITS: u32 = 10;
const COUNT_BITS: u32 = 32;
const STAMP_BITS: u32 = 22;
/// Minutes are stored modulo 2^22, eight years: more than seven times the longest period.
const STAMP_MASK: u64 = (1 << STAMP_BITS) - 1;

/// The stored form of a key: 64 bits of its SHA-256, never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fingerprint(u64);

impl Fingerprint {
    pub(super) fn of(key: &[u8]) -> Fingerprint {
        let digest = Sha256::digest(key);
        let mut first = [0; 8];
        first.copy_from_slice(&digest[..8]);
        Fingerprint(u64::from_le_bytes(first).max(1))
    }

    pub(super) fn bytes(self) -> [u8; 8] {
        self.0.to_be_bytes()
    }
}

/// The count of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    /// The minute at which its period began, modulo 2^22.
    stamp: u64,
    count: u32,
}

impl Entry {
    fn pack(self, key: Fingerprint) -> u64 {
        let value = self.stamp << COUNT_BITS | u64::from(self.count);
        value << CHECK_BITS | check(key, value)
    }

    /// `None` if the word was not written for this key.
    fn unpack(word: u64, key: Fingerprint) -> Option<Entry> {
        let value = word >> CHECK_BITS;
        let is_whole = check(key, value) == word & ((1 << CHECK_BITS) - 1);
        is_whole.then_some(Entry { stamp: value >> COUNT_BITS, count: value as u32 })
    }

    /// The minute at which the count began, if it belongs to the period.
    fn start(self, span: Span) -> Option<u64> {
        let since = self.stamp.wrapping_sub(span.first) & STAMP_MASK;
        // A minute more: another worker's cached clock may already be in the next one.
        (since <= span.minutes).then_some(span.first + since)
    }
}

/// Bits that show whether a value and its key belong together.
fn check(key: Fingerprint, value: u64) -> u64 {
    let mixed = (key.0 ^ value.rotate_left(17)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> (64 - CHECK_BITS)
}

/// The result of counting a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QuotaCount {
    pub(super) is_allowed: bool,
    /// The count after the request, or without it if it is rejected.
    pub(super) used: u32,
    /// When the period of the key ends, in seconds since 1970.
    pub(super) end_s: u64,
}

/// The metrics of a table.
#[derive(Default)]
pub(super) struct TableMetrics {
    pub(super) entries: Arc<SharedGauge>,
    pub(super) evictions: Arc<SharedCounter>,
}

/// The table.
pub(super) struct QuotaTable {
    words: FileWords,
    /// The lock for inserting a key; counting takes no lock. Another process may insert at the same
    /// time, and then one of two counts of a new key is used.
    inserting: Mutex<()>,
    metrics: TableMetrics,
}

impl QuotaTable {
    /// Opens or creates the file at `path`. Damaged entries are dropped; the counts of a file of
    /// another size are taken over; a file in another format is renamed.
    pub(super) fn open(path: &Path, entries: u32, metrics: TableMetrics) -> io::Result<QuotaTable> {
        let words = words_of(entries);
        let directory = path.parent().unwrap_or(path);
        fs::create_dir_all(directory)?;
        // Processes that start together open the file one after the other. On a file system without
        // locks, two that change its size together may count apart.
        let _lock = lock(directory).ok();
        let bytes = match fs::metadata(path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
        if bytes != 0 && bytes != (words * size_of::<u64>()) as u64 {
            return QuotaTable::resized(path, words, metrics);
        }
        let mut file = FileWords::open(path, words)?;
        // A new file has zeros, also that of a process that was killed before it wrote the header.
        if !matches!(file.words()[0].load(Ordering::Relaxed), 0 | MAGIC) {
            move_away(path)?;
            file = FileWords::open(path, words)?;
        }
        file.words()[0].store(MAGIC, Ordering::Relaxed);
        let table = QuotaTable::of(file, metrics);
        table.verify(path);
        Ok(table)
    }

    fn of(words: FileWords, metrics: TableMetrics) -> QuotaTable {
        QuotaTable { words, inserting: Mutex::new(()), metrics }
    }

    /// Writes the entries of a file of another size to a new one, which replaces it as a whole.
    fn resized(path: &Path, words: usize, metrics: TableMetrics) -> io::Result<QuotaTable> {
        let old = fs::read(path)?;
        let mut old = old.chunks_exact(size_of::<u64>()).map(|chunk| {
            u64::from_ne_bytes([
                chunk[0], chunk[1], chunk[2], chunk[3], chunk[4], chunk[5], chunk[6], chunk[7],
            ])
        });
        if old.next() != Some(MAGIC) {
            move_away(path)?;
            return Ok(QuotaTable::of(create(path, words)?, metrics));
        }
        let new = path.with_extension("new");
        remove(&new)?;
        let table = QuotaTable::of(create(&new, words)?, metrics);
        let identity = old.next().unwrap_or(0);
        table.words.words()[IDENTITY].store(identity, Ordering::Relaxed);
        let mut slots = old.skip(HEADER_WORDS - 2);
        let mut damaged = 0;
        while let (Some(key), Some(word)) = (slots.next(), slots.next()) {
            if key == 0 {
                continue;
            }
            match Entry::unpack(word, Fingerprint(key)) {
                Some(entry) => table.insert(Fingerprint(key), entry, None),
                None => damaged += 1,
            }
        }
        fs::rename(&new, path)?;
        report_damage(path, damaged);
        Ok(table)
    }

    /// Drops damaged entries and counts the others.
    fn verify(&self, path: &Path) {
        let (mut entries, mut damaged) = (0, 0);
        for [key, word] in self.slots().as_chunks::<2>().0 {
            let fingerprint = Fingerprint(key.load(Ordering::Acquire));
            if fingerprint.0 == 0 {
                continue;
            }
            if Entry::unpack(word.load(Ordering::Relaxed), fingerprint).is_some() {
                entries += 1;
            } else {
                key.store(0, Ordering::Release);
                damaged += 1;
            }
        }
        self.metrics.entries.add(entries);
        report_damage(path, damaged);
    }

    /// Adds to the count of a key, which stops at the highest number.
    pub(super) fn add(&self, key: Fingerprint, span: Span, amount: u32) {
        self.change(key, span, |count| Some(count.saturating_add(amount)));
    }

    /// Takes the cost of a request from the quota of a key.
    pub(super) fn take(&self, key: Fingerprint, span: Span, limit: u32, cost: u32) -> QuotaCount {
        self.take_charged(key, span, limit, (cost, 1))
    }

    /// The same, and counts the cost so many times, up to the limit.
    pub(super) fn take_charged(
        &self,
        key: Fingerprint,
        span: Span,
        limit: u32,
        (cost, times): (u32, u32),
    ) -> QuotaCount {
        self.change(key, span, |count| {
            let used = count.checked_add(cost).filter(|used| *used <= limit);
            let more = cost.saturating_mul(times.saturating_sub(1));
            let used = used.map(|used| used.saturating_add(more).min(limit));
            used.or((cost == 0).then_some(count))
        })
    }

    /// Replaces the count of a key in a period.
    pub(super) fn set(&self, key: Fingerprint, span: Span, count: impl Fn() -> u32) {
        self.change(key, span, |_| Some(count()));
    }

    /// A number that the file has had since it was created.
    pub(super) fn identity(&self) -> u64 {
        let (word, new) = (&self.words.words()[IDENTITY], fastrand::u64(1..));
        match word.compare_exchange(0, new, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => new,
            Err(known) => known,
        }
    }

    /// The keys that have entries.
    pub(super) fn keys(&self) -> impl Iterator<Item = Fingerprint> {
        let slots = self.slots().as_chunks::<2>().0.iter();
        let keys = slots.map(|[key, _]| Fingerprint(key.load(Ordering::Relaxed)));
        keys.filter(|key| key.0 != 0)
    }

    /// Replaces the count of a key by what `next` returns, if it returns a count.
    fn change(
        &self,
        key: Fingerprint,
        span: Span,
        next: impl Fn(u32) -> Option<u32>,
    ) -> QuotaCount {
        loop {
            let Some((slot, mut word)) = self.find(key) else {
                let entry = Entry { stamp: span.start & STAMP_MASK, count: 0 };
                self.insert(key, entry, Some(span));
                continue;
            };
            // A word of another key: the entry was evicted in between.
            while let Some(entry) = Entry::unpack(word, key) {
                let (start, count) = match entry.start(span) {
                    Some(start) => (start, entry.count),
                    None => (span.start, 0),
                };
                let end_s = span.end_s(start);
                let Some(used) = next(count) else {
                    return QuotaCount { is_allowed: false, used: count, end_s };
                };
                let new = Entry { stamp: start & STAMP_MASK, count: used }.pack(key);
                let order = Ordering::Relaxed;
                match slot.compare_exchange_weak(word, new, order, order) {
                    Ok(_) => return QuotaCount { is_allowed: true, used, end_s },
                    Err(newer) => word = newer,
                }
            }
        }
    }

    /// The count of a key in a period, and when that ends.
    pub(super) fn used(&self, key: Fingerprint, span: Span) -> (u32, u64) {
        let entry = self.find(key).and_then(|(_, word)| Entry::unpack(word, key));
        match entry.and_then(|entry| Some((entry.count, entry.start(span)?))) {
            Some((count, start)) => (count, span.end_s(start)),
            None => (0, span.end_s(span.start)),
        }
    }

    /// Sets the count of a key to zero.
    pub(super) fn reset(&self, key: Fingerprint) {
        if let Some((slot, _)) = self.find(key) {
            let order = Ordering::Relaxed;
            let none = |word| Some(Entry { count: 0, ..Entry::unpack(word, key)? }.pack(key));
            // A word of another key was inserted in between: this one has no count any more.
            let _ = slot.fetch_update(order, order, none);
        }
    }

    fn slots(&self) -> &[AtomicU64] {
        &self.words.words()[HEADER_WORDS..]
    }

    fn bucket(&self, key: Fingerprint) -> &[[AtomicU64; 2]] {
        let slots = self.slots().as_chunks::<2>().0;
        let at = key.0 as usize % (slots.len() / BUCKET) * BUCKET;
        &slots[at..at + BUCKET]
    }

    /// The word of a key, if it is whole.
    fn find(&self, key: Fingerprint) -> Option<(&AtomicU64, u64)> {
        let [_, slot] =
            self.bucket(key).iter().find(|[known, _]| known.load(Ordering::Acquire) == key.0)?;
        let word = slot.load(Ordering::Relaxed);
        Entry::unpack(word, key).map(|_| (slot, word))
    }

    /// Inserts a key that has no whole entry. In a full bucket it replaces the one with the lowest
    /// count, first among those whose period has ended.
    fn insert(&self, key: Fingerprint, entry: Entry, span: Option<Span>) {
        let _inserting = self.inserting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.find(key).is_some() {
            return;
        }
        let worth = |[known, word]: &&[AtomicU64; 2]| {
            let known = Fingerprint(known.load(Ordering::Relaxed));
            if known == key || known.0 == 0 {
                return (u8::from(known != key), 0);
            }
            match Entry::unpack(word.load(Ordering::Relaxed), known) {
                None => (2, 0),
                Some(entry) => {
                    let has_ended = span.is_some_and(|span| entry.start(span).is_none());
                    (if has_ended { 3 } else { 4 }, entry.count)
                }
            }
        };
        let Some([known, slot]) = self.bucket(key).iter().min_by_key(worth) else { return };
        match known.load(Ordering::Relaxed) {
            0 => self.metrics.entries.inc(),
            before if before == key.0 => {}
            _ => self.metrics.evictions.inc(),
        }
        // First the word: a request that found the former key then no longer counts in it.
        slot.store(entry.pack(key), Ordering::Relaxed);
        known.store(key.0, Ordering::Release);
    }
}

impl Drop for QuotaTable {
    fn drop(&mut self) {
        let count = |[key, _]: &&[AtomicU64; 2]| key.load(Ordering::Relaxed) != 0;
        let entries = self.slots().as_chunks::<2>().0.iter().filter(count).count();
        self.metrics.entries.add(-(entries as i64));
    }
}

/// Twice as many slots as entries, so that few buckets are full before the table is.
fn words_of(entries: u32) -> usize {
    let slots = (entries as usize * 2).next_power_of_two().max(BUCKET);
    HEADER_WORDS + slots * 2
}

/// Takes the lock of a directory, which is held until the returned file is closed.
fn lock(directory: &Path) -> io::Result<File> {
    let directory = File::open(directory)?;
    directory.lock()?;
    Ok(directory)
}

fn create(path: &Path, words: usize) -> io::Result<FileWords> {
    let created = FileWords::open(path, words)?;
    created.words()[0].store(MAGIC, Ordering::Relaxed);
    Ok(created)
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Keeps a file that this release cannot read, under another name.
fn move_away(path: &Path) -> io::Result<()> {
    let aside = path.with_extension("unreadable");
    fs::rename(path, &aside)?;
    event!(
        Level::Error,
        "quota file is damaged or of another version: it is renamed and all counts begin at zero",
        file = path.display(),
        renamed = aside.display()
    );
    Ok(())
}

fn report_damage(path: &Path, damaged: u64) {
    if damaged > 0 {
        event!(
            Level::Error,
            "quota file has damaged entries: these keys begin at zero, all others are kept",
            file = path.display(),
            damaged = damaged
        );
    }
}

#[cfg(test)]
mod tests;
