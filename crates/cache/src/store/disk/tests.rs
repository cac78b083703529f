//! The disk tier as the store uses it.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{DiskState, DiskStats};
use crate::Key;
use crate::limits::DISK_SEGMENT_BYTES_MIN;
use crate::store::tests::{MIB, Sample, sample, varies};
use crate::store::{Purge, Store};

mod killed;
mod long;

/// A store that has loaded a directory.
pub(super) fn open(directory: &Path, size: u64) -> Store {
    let store = Store::new(8 * MIB);
    store.set_disk("test", Some((directory, size))).unwrap();
    wait_for(&store, |stats| stats.state != DiskState::Loading);
    store
}

/// Waits for the writer thread.
pub(super) fn wait_for(store: &Store, is: impl Fn(&DiskStats) -> bool) {
    let begun = Instant::now();
    while !is(&store.disk_stats().unwrap()) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", store.disk_stats());
        std::thread::yield_now();
    }
}

/// Loads an object from disk, as a request does that memory cannot answer.
pub(super) fn brought(store: &Store, key: &Key) -> bool {
    let Some((stored, begun)) = store.find_on_disk(key) else { return false };
    let Some(object) = stored.read(key) else { return false };
    store.insert_from_disk(object, begun).is_ok()
}

/// Removes it as eviction does, which the disk tier does not see.
fn forget(store: &Store, sample: &Sample<'_>) {
    store.evict(&sample.found(store).unwrap());
}

fn written(store: &Store, count: u64) {
    wait_for(store, |stats| stats.written == count);
}

#[test]
fn what_memory_has_no_room_for_comes_back_and_what_was_stored_survives() {
    let directory = tempfile::tempdir().unwrap();
    let size = 64 * MIB;
    let page = sample("http://a/").tagged(&[7]);
    {
        let store = open(directory.path(), size);
        page.put(&store).unwrap();
        written(&store, 1);
        forget(&store, &page);
        assert!(page.found(&store).is_none());
        assert!(brought(&store, &page.key()));
        assert!(page.found(&store).is_some());
        let marker = crate::store::tests::marker("http://v/", varies());
        store.insert(marker, store.purge_epoch(), 32).unwrap();
        written(&store, 2);
    }
    let store = open(directory.path(), size);
    assert_eq!(store.disk_stats().unwrap().objects, 2);
    assert!(page.found(&store).is_none() && brought(&store, &page.key()));
    let back = page.found(&store).unwrap();
    let back = back.response().unwrap();
    assert_eq!((back.content.len(), &*back.tags), (100, &[7][..]));
    assert!(!brought(&store, &sample("http://b/").key()));
}

/// What was read is written again when its segment is deleted, the record of its purge is not.
#[test]
fn what_was_purged_by_tag_is_not_written_again() {
    [false, true].into_iter().for_each(not_written_again);
}

fn not_written_again(soft: bool) {
    let directory = tempfile::tempdir().unwrap();
    let size = 4 * DISK_SEGMENT_BYTES_MIN;
    let page = sample("http://a/").tagged(&[7]);
    {
        let store = open(directory.path(), size);
        page.put(&store).unwrap();
        written(&store, 1);
        forget(&store, &page);
        assert!(brought(&store, &page.key()));
        store.purge(&Purge::Tags(&[7]), soft);
        let before = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
        let first = before.filter(|path| path.metadata().unwrap().len() > 0).min().unwrap();
        for at in 1.. {
            let url = format!("http://b/{at}");
            Sample { body: 100_000, ..sample(&url) }.put(&store).unwrap();
            written(&store, 1 + at);
            if !first.exists() {
                break;
            }
        }
    }
    let store = open(directory.path(), size);
    assert!(!brought(&store, &page.key()));
}

/// A key whose new object cannot be written is removed from disk.
#[test]
fn what_is_too_long_for_the_disk_leaves_nothing_older_there() {
    let directory = tempfile::tempdir().unwrap();
    let size = 4 * DISK_SEGMENT_BYTES_MIN;
    let (page, other) = (sample("http://a/"), sample("http://b/"));
    {
        let store = open(directory.path(), size);
        page.put(&store).unwrap();
        written(&store, 1);
        let long = Sample { body: DISK_SEGMENT_BYTES_MIN as usize, ..page.clone() };
        let long = Arc::new(long.object(&store));
        store.disk().as_ref().unwrap().write(&long, store.purge_epoch());
        other.put(&store).unwrap();
        written(&store, 2);
        assert!(!brought(&store, &page.key()));
    }
    let store = open(directory.path(), size);
    assert!(!brought(&store, &page.key()));
    assert!(brought(&store, &other.key()));
}

/// The object is purged between memory and disk.
#[test]
fn what_was_purged_before_it_was_written_stays_away_over_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let (page, other) = (sample("http://a/"), sample("http://b/"));
    {
        let store = open(directory.path(), 64 * MIB);
        let begun = store.purge_epoch();
        store.purge(&Purge::Url(b"http://a/"), false);
        store.disk().as_ref().unwrap().write(&Arc::new(page.object(&store)), begun);
        other.put(&store).unwrap();
        written(&store, 1);
        assert!(!brought(&store, &page.key()));
    }
    let store = open(directory.path(), 64 * MIB);
    assert!(!brought(&store, &page.key()));
    assert!(brought(&store, &other.key()));
}

#[test]
fn what_was_purged_stays_away_over_a_restart() {
    type PurgeLog<'a> = (Purge<'a>, [bool; 3]);
    let pages = ["http://a/x", "http://a/y", "http://b/"];
    let purges: [PurgeLog<'_>; 4] = [
        (Purge::Url(b"http://a/x"), [false, true, true]),
        (Purge::Prefix(b"http://a/"), [false, false, true]),
        (Purge::Tags(&[9]), [true, false, true]),
        (Purge::All, [false, false, false]),
    ];
    for (purge, stay) in purges {
        let directory = tempfile::tempdir().unwrap();
        let tagged = |url| sample(url).tagged(if url == "http://a/y" { &[9] } else { &[] });
        {
            let store = open(directory.path(), 64 * MIB);
            pages.iter().for_each(|url| drop(tagged(url).put(&store).unwrap()));
            written(&store, 3);
            store.purge(&purge, false);
            for (url, stays) in pages.iter().zip(stay) {
                let known =
                    tagged(url).found(&store).is_some() || brought(&store, &tagged(url).key());
                assert_eq!(known, stays, "{purge:?} {url}");
            }
            // Later objects are not covered.
            tagged("http://a/x?new").put(&store).unwrap();
            written(&store, 4);
        }
        let store = open(directory.path(), 64 * MIB);
        for (url, stays) in pages.iter().zip(stay) {
            assert_eq!(brought(&store, &tagged(url).key()), stays, "{purge:?} {url}");
        }
        assert!(brought(&store, &tagged("http://a/x?new").key()), "{purge:?}");
    }
}

#[test]
fn what_was_purged_softly_is_stale_also_after_a_restart() {
    let pages = ["http://a/x", "http://a/y", "http://b/"];
    let purges: [(Purge<'_>, [bool; 3]); 4] = [
        (Purge::Url(b"http://a/x"), [true, false, false]),
        (Purge::Prefix(b"http://a/"), [true, true, false]),
        (Purge::Tags(&[9]), [false, true, false]),
        (Purge::All, [true, true, true]),
    ];
    let tagged = |url| sample(url).tagged(if url == "http://a/y" { &[9] } else { &[] });
    for (purge, stale) in purges {
        let directory = tempfile::tempdir().unwrap();
        let loaded = |store: &Store| {
            for (url, is_stale) in pages.iter().zip(stale) {
                assert!(brought(store, &tagged(url).key()), "{purge:?} {url}");
                let object = tagged(url).found(store).unwrap();
                assert_eq!(object.state.is_stale(), is_stale, "{purge:?} {url}");
            }
        };
        let later = tagged("http://a/x?new");
        {
            let store = open(directory.path(), 64 * MIB);
            pages.iter().for_each(|url| drop(tagged(url).put(&store).unwrap()));
            written(&store, 3);
            pages.iter().for_each(|url| forget(&store, &tagged(url)));
            store.purge(&purge, true);
            loaded(&store);
            later.put(&store).unwrap();
            written(&store, 4);
        }
        let store = open(directory.path(), 64 * MIB);
        loaded(&store);
        assert!(brought(&store, &later.key()) && !later.found(&store).unwrap().state.is_stale());
    }
}

#[test]
fn what_is_removed_or_replaced_is_not_found_again() {
    let directory = tempfile::tempdir().unwrap();
    let (page, other) = (sample("http://a/"), sample("http://b/"));
    let version = {
        let store = open(directory.path(), 64 * MIB);
        page.put(&store).unwrap();
        other.put(&store).unwrap();
        let newer = page.put(&store).unwrap();
        written(&store, 3);
        store.remove(other.key().hash(), other.key().text()).unwrap();
        assert!(!brought(&store, &other.key()));
        newer.response().unwrap().version
    };
    let store = open(directory.path(), 64 * MIB);
    assert!(!brought(&store, &other.key()));
    assert!(brought(&store, &page.key()));
    assert_eq!(page.found(&store).unwrap().response().unwrap().version, version);
}

#[test]
fn the_directory_keeps_to_its_size_and_keeps_what_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let size = 16 * DISK_SEGMENT_BYTES_MIN;
    let store = open(directory.path(), size);
    let page = |at: u64| (format!("http://a/{at}"), 50_000);
    let kept = page(0);
    for at in 0..1000 {
        let (url, body) = page(at);
        let mut sample = sample(&url);
        sample.body = body;
        sample.put(&store).unwrap();
        written(&store, at + 1);
        // Records that were read are written again when their segment is deleted.
        assert!(brought(&store, &self::sample(&kept.0).key()), "after {at}");
    }
    let used: u64 = fs::read_dir(directory.path())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    let stats = store.disk_stats().unwrap();
    assert!(used <= size && stats.bytes <= size && used > size / 2, "{used} {stats:?}");
    assert!(!brought(&store, &sample("http://a/1").key()));
    assert!(brought(&store, &sample("http://a/999").key()));
    store.set_disk("test", Some((directory.path(), size / 2))).unwrap();
    wait_for(&store, |stats| stats.bytes <= size / 2);
}

#[test]
fn damage_is_found_and_taken_for_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let page = sample("http://a/");
    {
        let store = open(directory.path(), 64 * MIB);
        page.put(&store).unwrap();
        written(&store, 1);
    }
    let path = super::segment::path(directory.path(), 0);
    let whole = fs::read(&path).unwrap();
    let mut changed = whole.clone();
    *changed.last_mut().unwrap() ^= 1;
    fs::write(&path, &changed).unwrap();
    let store = open(directory.path(), 64 * MIB);
    assert!(!brought(&store, &page.key()));
    let stats = store.disk_stats().unwrap();
    assert_eq!((stats.damaged, stats.objects, stats.state), (1, 0, DiskState::Working));
    drop(store);
    // A record that is cut off anywhere is not found, and the next one is.
    for length in [0, 1, 39, 40, 100, whole.len() - 1] {
        fs::write(&path, &whole[..length]).unwrap();
        let store = open(directory.path(), 64 * MIB);
        assert!(!brought(&store, &page.key()), "{length}");
        page.put(&store).unwrap();
        written(&store, 1);
        drop(store);
        let store = open(directory.path(), 64 * MIB);
        assert!(brought(&store, &page.key()), "{length}");
        drop(store);
        fs::read_dir(directory.path())
            .unwrap()
            .for_each(|e| fs::remove_file(e.unwrap().path()).unwrap());
    }
}

#[test]
fn a_disk_that_fails_takes_nothing_else_down() {
    let directory = tempfile::tempdir().unwrap();
    let taken = directory.path().join("taken");
    fs::write(&taken, "a file where the directory should be").unwrap();
    let store = open(&taken, 64 * MIB);
    assert_eq!(store.disk_stats().unwrap().state, DiskState::Failing);
    let page = sample("http://a/");
    page.put(&store).unwrap();
    assert!(page.found(&store).is_some() && !brought(&store, &page.key()));
    store.purge(&Purge::All, false);
    assert!(page.found(&store).is_none());
    wait_for(&store, |stats| stats.dropped == 1);
}

#[test]
fn two_caches_do_not_share_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path(), 64 * MIB);
    let second = open(directory.path(), 64 * MIB);
    assert_eq!(second.disk_stats().unwrap().state, DiskState::Failing);
    assert_eq!(first.disk_stats().unwrap().state, DiskState::Working);
}

/// What other servers have purged in the meantime must not be found.
#[test]
fn nothing_is_found_before_the_purges_of_others_were_applied() {
    let directory = tempfile::tempdir().unwrap();
    let (page, other) = (sample("http://a/"), sample("http://b/"));
    let closed = |store: &Store| {
        page.found(store).is_none() && !brought(store, &page.key()) && store.is_closed()
    };
    {
        let store = open(directory.path(), 64 * MIB);
        store.purges().follow(true);
        page.put(&store).unwrap();
        other.put(&store).unwrap();
        written(&store, 2);
        assert!(closed(&store) && store.purges().is_new() && store.read_position().is_none());
        store.purges().set_joining();
        assert!(store.purges().set_joined());
        store.purges().serve_until(u64::MAX);
        assert!(page.found(&store).is_some());
        store.write_position("one 7 \n");
        store.purge(&Purge::Url(b"http://b/"), false);
        store.write_position("one 8 \n");
    }
    let store = Store::new(8 * MIB);
    store.purges().follow(true);
    store.set_disk("test", Some((directory.path(), 64 * MIB))).unwrap();
    wait_for(&store, |stats| stats.state != DiskState::Loading);
    assert!(closed(&store) && store.purges().is_new());
    assert_eq!(store.read_position().as_deref(), Some(&b"one 8 \n"[..]));
    store.purges().set_joining();
    assert!(closed(&store));
    assert!(store.purges().set_joined());
    store.purges().serve_until(u64::MAX);
    assert!(brought(&store, &page.key()) && !brought(&store, &other.key()));
    // Another directory has another past.
    let elsewhere = tempfile::tempdir().unwrap();
    store.set_disk("test", Some((elsewhere.path(), 64 * MIB))).unwrap();
    assert!(store.purges().is_new() && page.found(&store).is_none());
    assert!(store.read_position().is_none());
    store.purges().follow(false);
    assert!(page.found(&store).is_some());
}
