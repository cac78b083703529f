//! Counting, eviction, and files that are shared, resized and damaged.

use std::sync::atomic::Ordering;

use net::FileWords;

use super::{BUCKET, Fingerprint, MAGIC, QuotaCount, QuotaTable, TableMetrics, words_of};
use crate::quota::period::Span;

/// A day that begins at minute 14400.
const DAY: Span = Span { start: 14_400, first: 14_400, minutes: 1440 };
const NEXT_DAY: Span = Span { start: 15_840, first: 15_840, minutes: 1440 };

fn open(path: &std::path::Path, entries: u32) -> QuotaTable {
    QuotaTable::open(path, entries, TableMetrics::default()).unwrap()
}

/// A table in a new file, and its directory.
fn new_table(entries: u32) -> (tempfile::TempDir, QuotaTable) {
    let directory = tempfile::tempdir().unwrap();
    let table = open(&directory.path().join("a.quota"), entries);
    (directory, table)
}

fn key(number: usize) -> Fingerprint {
    Fingerprint::of(&number.to_be_bytes())
}

#[test]
fn a_key_has_its_limit_in_each_period() {
    let (_directory, table) = new_table(100);
    let count = |used, is_allowed| QuotaCount { is_allowed, used, end_s: DAY.end_s(DAY.start) };
    assert_eq!(table.take(key(1), DAY, 5, 3), count(3, true));
    assert_eq!(table.take(key(1), DAY, 5, 3), count(3, false), "takes nothing");
    assert_eq!(table.take(key(1), DAY, 5, 2), count(5, true));
    assert_eq!(table.take(key(1), DAY, 5, 0), count(5, true));
    assert_eq!(table.take(key(2), DAY, 0, 1), count(0, false));
    // A lower limit rejects, a higher one keeps the count.
    assert!(!table.take(key(1), DAY, 4, 1).is_allowed);
    assert_eq!(table.take(key(1), DAY, 6, 1), count(6, true));
    assert_eq!(table.used(key(1), DAY), (6, 15_840 * 60));
    assert_eq!(table.take(key(1), NEXT_DAY, 5, 1).used, 1);
    table.reset(key(1));
    table.reset(key(3));
    assert_eq!(table.used(key(1), NEXT_DAY).0, 0);
}

#[test]
fn a_rolling_period_begins_with_the_first_request_of_a_key() {
    let (_directory, table) = new_table(100);
    let hour = |now: u64| Span { start: now, first: now + 1 - 60, minutes: 60 };
    assert_eq!(table.take(key(1), hour(10_000), 2, 1).end_s, 10_060 * 60);
    assert!(table.take(key(1), hour(10_059), 2, 1).is_allowed);
    let full = table.take(key(1), hour(10_059), 2, 1);
    assert_eq!((full.is_allowed, full.end_s), (false, 10_060 * 60));
    // A worker whose clock is still in the minute before sees the same count.
    assert!(table.take(key(2), hour(10_000), 1, 1).is_allowed);
    assert!(!table.take(key(2), hour(9_999), 1, 1).is_allowed);
    assert_eq!(table.take(key(1), hour(10_060), 2, 1).used, 1);
}

#[test]
fn a_month_takes_over_the_count_of_its_day() {
    let (_directory, table) = new_table(100);
    let month = Span { start: 10_000, first: 10_000, minutes: 44_640 };
    assert_eq!(table.take(key(1), DAY, 9, 4).used, 4);
    let count = table.take(key(1), month, 9, 1);
    assert_eq!((count.used, count.end_s), (5, 54_640 * 60));
}

#[test]
fn threads_and_processes_count_together() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("deep/a.quota");
    let tables = [open(&path, 1000), open(&path, 1000)];
    let allowed: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|at: usize| {
                let table = &tables[at % 2];
                scope.spawn(move || {
                    (0..2000).filter(|_| table.take(key(7), DAY, 5000, 1).is_allowed).count()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(allowed, 5000);
    // Nothing is written when a table is closed: a killed process leaves the same file.
    std::mem::forget(tables);
    assert_eq!(open(&path, 1000).used(key(7), DAY).0, 5000);
}

#[test]
fn a_file_that_another_process_has_just_created_is_shared() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.quota");
    let created = FileWords::open(&path, words_of(100)).unwrap();
    let table = open(&path, 100);
    assert_eq!(created.words()[0].load(Ordering::Relaxed), MAGIC);
    assert!(!path.with_extension("unreadable").exists());
    assert_eq!(table.take(key(1), DAY, 5, 1).used, 1);
}

#[test]
fn processes_that_start_together_share_a_new_file_and_one_of_another_size() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.quota");
    for round in 0..20 {
        let entries = [100, 20_000][round % 2];
        let tables: Vec<QuotaTable> = std::thread::scope(|scope| {
            let starting = [(); 4].map(|()| scope.spawn(|| open(&path, entries)));
            starting.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for table in &tables {
            table.take(key(round), DAY, 100, 1);
        }
        assert_eq!(tables[0].used(key(round), DAY).0, 4, "round {round}");
        assert_eq!(tables[0].used(key(0), DAY).0, 4, "the counts are kept");
    }
}

#[test]
fn a_full_table_evicts_what_has_ended_and_then_what_was_used_least() {
    let (_directory, table) = new_table(1);
    for number in 0..BUCKET {
        table.take(key(number), DAY, 1000, 10 + number as u32);
    }
    assert_eq!(table.metrics.evictions.get(), 0);
    table.take(key(100), DAY, 1000, 1000);
    assert_eq!((table.used(key(0), DAY).0, table.used(key(1), DAY).0), (0, 11));
    assert_eq!((table.metrics.evictions.get(), table.metrics.entries.get()), (1, BUCKET as i64));
    for number in 200..200 + BUCKET {
        table.take(key(number), NEXT_DAY, 1000, 1);
    }
    assert_eq!(table.used(key(200), NEXT_DAY).0, 1, "the day before went first");
}

#[test]
fn another_number_of_entries_keeps_the_counts() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.quota");
    let small = open(&path, 100);
    (0..100).for_each(|number| assert!(small.take(key(number), DAY, 1000, 5).is_allowed));
    for entries in [5000, 300] {
        let table = open(&path, entries);
        assert!((0..100).all(|number| table.used(key(number), DAY).0 == 5), "{entries}");
        assert_eq!(table.metrics.entries.get(), 100);
    }
}

#[test]
fn damaged_entries_are_dropped_and_others_kept() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.quota");
    let table = open(&path, 100);
    (0..100).for_each(|number| assert!(table.take(key(number), DAY, 1000, 5).is_allowed));
    let (slot, word) = table.find(key(3)).unwrap();
    slot.store(word ^ 1 << 20, Ordering::Relaxed);
    drop(table);
    let table = open(&path, 100);
    assert_eq!((table.used(key(3), DAY).0, table.metrics.entries.get()), (0, 99));
    assert_eq!((0..100).filter(|number| table.used(key(*number), DAY).0 == 5).count(), 99);
    // While it is open, a damaged entry begins at zero.
    let (slot, word) = table.find(key(4)).unwrap();
    slot.store(word ^ 1 << 20, Ordering::Relaxed);
    assert_eq!(table.take(key(4), DAY, 1000, 1).used, 1);
}

#[test]
fn a_file_that_cannot_be_read_is_renamed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.quota");
    for length in [words_of(100) * 8, 5] {
        std::fs::write(&path, vec![b'x'; length]).unwrap();
        let table = open(&path, 100);
        assert_eq!(table.take(key(1), DAY, 5, 1).used, 1);
        assert_eq!(table.words.words()[0].load(Ordering::Relaxed), MAGIC);
        let aside = std::fs::read(path.with_extension("unreadable")).unwrap();
        assert_eq!(aside.len(), length);
        drop(table);
        assert_eq!(open(&path, 100).used(key(1), DAY).0, 1);
        std::fs::remove_file(&path).unwrap();
    }
}
