//! The table under every promise of its contract.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::{Batch, Claim, Exchanged, Keyed, KeyedLimits, KeyedMetrics, NEWS_BATCH, Remote};
use crate::Shared;

fn table(entries: usize, changes: usize) -> Keyed<AtomicU64> {
    Keyed::new(KeyedLimits { entries, changes }, KeyedMetrics::default())
}

fn zero() -> AtomicU64 {
    AtomicU64::new(0)
}

fn bump(table: &Keyed<AtomicU64>, key: &[u8]) -> u64 {
    table.update(key, zero, |count| count.fetch_add(1, Ordering::Relaxed) + 1)
}

#[test]
fn a_key_is_made_once_and_found_again() {
    let table = table(100, 0);
    assert_eq!((bump(&table, b"a"), bump(&table, b"b"), bump(&table, b"a")), (1, 1, 2));
    assert_eq!(table.peek(b"a", |count| count.load(Ordering::Relaxed)), Some(2));
    assert_eq!(table.peek(b"c", |_| ()), None);
    assert!(table.remove(b"a") && !table.remove(b"a"));
    assert_eq!((table.len(), bump(&table, b"a")), (1, 1));
}

#[test]
fn a_full_table_forgets_unused_keys() {
    let table = table(64, 0);
    for _ in 0..2 {
        assert!(bump(&table, b"regular") >= 1);
    }
    for stranger in 0..10_000u32 {
        bump(&table, &stranger.to_be_bytes());
        bump(&table, b"regular");
    }
    assert_eq!(table.len(), 64);
    assert_eq!(table.metrics.evictions.get(), 10_000 + 1 - 64);
    assert_eq!(bump(&table, b"regular"), 10_003, "a key that comes back is kept");
}

#[test]
fn what_comes_and_goes_is_counted_also_under_a_shared_name() {
    let metrics = KeyedMetrics::default();
    let limits = KeyedLimits { entries: 64, changes: 0 };
    let (first, second) = (Keyed::new(limits, metrics.clone()), table(64, 0));
    let third = Keyed::new(limits, metrics.clone());
    for key in 0..100u32 {
        bump(&first, &key.to_be_bytes());
        bump(&second, &key.to_be_bytes());
    }
    bump(&third, b"one");
    assert_eq!((metrics.entries.get(), metrics.evictions.get()), (65, 36));
    assert!(third.remove(b"one") && first.remove(&99u32.to_be_bytes()));
    assert_eq!(metrics.entries.get(), 63);
    drop(first);
    assert_eq!((metrics.entries.get(), metrics.evictions.get()), (0, 36));
}

#[test]
fn a_table_of_busy_keys_stays_bounded_too() {
    let table = table(1000, 0);
    for round in 0..3 {
        for key in 0..5000u32 {
            bump(&table, &key.to_be_bytes());
            bump(&table, &key.to_be_bytes());
        }
        assert!(table.len() <= 1008, "round {round}: {}", table.len());
    }
}

#[test]
fn removing_keeps_the_others_findable() {
    let table = table(1000, 0);
    for key in 0..500u32 {
        for _ in 0..=key % 3 {
            bump(&table, &key.to_be_bytes());
        }
    }
    for key in (0..500u32).step_by(2) {
        assert!(table.remove(&key.to_be_bytes()));
    }
    for key in (1..500u32).step_by(2) {
        let found = table.peek(&key.to_be_bytes(), |count| count.load(Ordering::Relaxed));
        assert_eq!(found, Some(u64::from(key % 3 + 1)));
    }
    assert_eq!(table.len(), 250);
}

#[test]
fn readers_do_not_exclude_each_other() {
    let table = table(10, 0);
    bump(&table, b"a");
    // A second reader inside the first, on another thread: an exclusive lock would never let it in.
    table.with(b"a", zero, |_| {
        std::thread::scope(|scope| {
            let inner = scope.spawn(|| bump(&table, b"a"));
            assert_eq!(inner.join().unwrap(), 2);
        });
    });
}

#[test]
fn no_count_is_lost_between_threads() {
    let table = table(10_000, 0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for key in 0..2000u32 {
                    bump(&table, &(key % 500).to_be_bytes());
                }
            });
        }
    });
    let count = |key: u32| table.peek(&key.to_be_bytes(), |count| count.load(Ordering::Relaxed));
    assert!((0..500).all(|key| count(key) == Some(16)));
}

#[test]
fn a_table_outlives_the_plan_that_requested_it() {
    let shared = Shared::default();
    let first = shared.get("limit", || table(10, 0));
    bump(&first, b"a");
    let second = shared.get("limit", || table(10, 0));
    drop(first);
    assert_eq!(bump(&second, b"a"), 2);
}

/// The remote of the tests: stores the largest count it received for each key.
#[derive(Default)]
struct Neighbour {
    known: Mutex<HashMap<Box<[u8]>, u64>>,
    broken: std::sync::atomic::AtomicBool,
    largest_batch: AtomicU64,
}

impl Remote<AtomicU64> for Neighbour {
    type News = u64;

    fn news(&self, value: &AtomicU64) -> u64 {
        value.load(Ordering::SeqCst)
    }

    async fn exchange(&self, batch: Batch<u64>) -> io::Result<Exchanged<u64>> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        self.largest_batch.fetch_max(batch.len() as u64, Ordering::Relaxed);
        let mut known = self.known.lock().unwrap();
        let mut tell = |(key, news): (Box<[u8]>, u64)| {
            let count = known.entry(key.clone()).or_default();
            *count = news.max(*count);
            (key, *count)
        };
        let (failed, received): (Batch<u64>, Batch<u64>) =
            batch.into_iter().partition(|(key, _)| key.starts_with(b"lost"));
        let failed = failed.into_iter().map(|(key, _)| key).collect();
        Ok(Exchanged { known: received.into_iter().map(&mut tell).collect(), failed })
    }

    fn merge(&self, value: &AtomicU64, news: u64) {
        value.fetch_max(news, Ordering::SeqCst);
    }
}

#[test]
fn two_tables_hear_of_each_other_through_a_remote() {
    let (here, there) = (table(100, 16), table(100, 16));
    let neighbour = Arc::new(Neighbour::default());
    net::worker::block_on_local(async {
        for _ in 0..5 {
            bump(&here, b"a");
        }
        bump(&there, b"a");
        assert_eq!(here.synchronise(&*neighbour, zero).await.unwrap(), 1);
        assert_eq!(here.synchronise(&*neighbour, zero).await.unwrap(), 0, "told once");
        assert_eq!(there.synchronise(&*neighbour, zero).await.unwrap(), 1);
        assert_eq!(bump(&there, b"a"), 6);
    });
}

#[test]
fn what_could_not_be_sent_waits() {
    let table = table(100, 16);
    let neighbour = Neighbour::default();
    net::worker::block_on_local(async {
        bump(&table, b"a");
        neighbour.broken.store(true, Ordering::Relaxed);
        assert!(table.synchronise(&neighbour, zero).await.is_err());
        neighbour.broken.store(false, Ordering::Relaxed);
        assert_eq!(table.synchronise(&neighbour, zero).await.unwrap(), 1);
    });
}

#[test]
fn a_part_of_a_batch_that_failed_waits() {
    let table = table(100, 16);
    let neighbour = Neighbour::default();
    net::worker::block_on_local(async {
        bump(&table, b"a");
        bump(&table, b"lost");
        for told in [1, 0] {
            assert_eq!(table.synchronise(&neighbour, zero).await.unwrap(), told);
        }
    });
}

#[test]
fn the_queue_and_the_batches_are_bounded() {
    let table = table(10_000, 3000);
    for key in 0..4000u32 {
        bump(&table, &key.to_be_bytes());
    }
    assert_eq!(table.unheard(), 1000);
    let neighbour = Neighbour::default();
    net::worker::block_on_local(async {
        while table.synchronise(&neighbour, zero).await.unwrap() > 0 {}
    });
    assert_eq!(neighbour.known.lock().unwrap().len(), 3000);
    assert_eq!(neighbour.largest_batch.load(Ordering::Relaxed), NEWS_BATCH as u64);
}

#[test]
fn a_claim_is_kept_until_it_is_over() {
    let table: Keyed<u64> =
        Keyed::new(KeyedLimits { entries: 4, changes: 0 }, KeyedMetrics::default());
    let claim = |key: u8, until: u64, now: u64| table.claim(&[key], until, |until| *until <= now);
    for key in 0..4 {
        assert_eq!(claim(key, 10 + u64::from(key), 0), Claim::Added);
    }
    assert_eq!(claim(0, 99, 9), Claim::Known);
    assert_eq!(claim(4, 99, 9), Claim::Full);
    assert_eq!(claim(0, 20, 10), Claim::Added);
    assert_eq!(claim(4, 99, 10), Claim::Full);
    assert_eq!(claim(4, 99, 11), Claim::Added);
    assert_eq!((claim(1, 99, 11), claim(4, 99, 11)), (Claim::Full, Claim::Known));
    assert_eq!(table.len(), 4);
}
