//! Long content, which stays on disk.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use net::FileRange;
use tempfile::TempDir;

use super::{brought, forget, open, wait_for, written};
use crate::limits::{DISK_PAGE_BYTES, DISK_SEGMENT_BYTES_MIN};
use crate::store::tests::{Sample, sample};
use crate::store::{Purge, Store};

const LONG: usize = 100_000;
const SIZE: u64 = 4 * DISK_SEGMENT_BYTES_MIN;

fn long(url: &str) -> Sample<'_> {
    Sample { body: LONG, ..sample(url) }
}

fn opened() -> (TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path(), SIZE);
    (directory, store)
}

/// Where the content of a stored object is on disk.
fn place(store: &Store, page: &Sample<'_>) -> Option<FileRange> {
    page.found(store)?.file().cloned()
}

/// Stores a page and loads it from disk.
fn loaded(store: &Store, page: &Sample<'_>) -> FileRange {
    page.put(store).unwrap();
    written(store, 1);
    forget(store, page);
    assert!(brought(store, &page.key()));
    place(store, page).unwrap()
}

/// Writes other pages until the oldest segment is deleted.
fn oldest_deleted(store: &Store, directory: &Path) {
    let segments = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let is_segment = |path: &PathBuf| path.extension().is_some_and(|end| end == "segment");
    let oldest = segments.filter(is_segment).min().unwrap();
    let before = store.disk_stats().unwrap().written;
    for at in before + 1.. {
        long(&format!("http://others/{at}")).put(store).unwrap();
        written(store, at);
        if !oldest.exists() {
            return;
        }
    }
}

#[test]
fn takes_no_memory_and_is_as_it_was_written() {
    let (_directory, store) = opened();
    let page = long("http://a/");
    let empty = store.stats().bytes;
    let range = loaded(&store, &page);
    let mut content = vec![0; LONG];
    range.file.read_exact_at(&mut content, range.offset).unwrap();
    assert!(range.length == LONG as u64 && content.iter().all(|byte| *byte == b'x'));
    assert!(page.found(&store).unwrap().is_ready());
    assert_eq!(range.offset % DISK_PAGE_BYTES, 0);
    assert!(store.stats().bytes - empty < 4096, "{:?}", store.stats());
    // Short content is in memory.
    let short = sample("http://b/");
    short.put(&store).unwrap();
    written(&store, 2);
    forget(&store, &short);
    assert!(brought(&store, &short.key()) && place(&store, &short).is_none());
}

#[test]
fn damage_is_found_before_it_is_sent() {
    let (_directory, store) = opened();
    let page = long("http://a/");
    let range = loaded(&store, &page);
    range.file.write_all_at(b"y", range.offset + range.length - 1).unwrap();
    forget(&store, &page);
    assert!(!brought(&store, &page.key()));
    assert_eq!(store.disk_stats().unwrap().damaged, 1);
}

#[test]
fn a_segment_that_was_cut_short_is_not_sent_from() {
    let (_directory, store) = opened();
    let page = long("http://a/");
    let range = loaded(&store, &page);
    range.file.set_len(range.offset + range.length - 1).unwrap();
    assert!(!page.found(&store).unwrap().is_ready());
    forget(&store, &page);
    assert!(!brought(&store, &page.key()));
    assert_eq!(store.disk_stats().unwrap().errors, 1);
}

#[test]
fn leaves_memory_with_its_segment() {
    let (directory, store) = opened();
    let page = long("http://a/");
    let sent = loaded(&store, &page);
    oldest_deleted(&store, directory.path());
    wait_for(&store, |_| place(&store, &page).is_none());
    // Its length is reported until the response from it has ended.
    wait_for(&store, |stats| stats.deleted_bytes > 0);
    drop(sent);
    wait_for(&store, |stats| stats.deleted_bytes == 0);
    // It was read, so it was written again.
    assert!(brought(&store, &page.key()) && place(&store, &page).is_some());
}

#[test]
fn is_not_stored_when_its_segment_was_deleted_before() {
    let (directory, store) = opened();
    let page = long("http://a/");
    let range = loaded(&store, &page);
    let (record, begun) = store.find_on_disk(&page.key()).unwrap();
    // A 304 makes an object that shares the content.
    let mut confirmed = page.object(&store);
    if let crate::ObjectKind::Response(response) = &mut confirmed.kind {
        response.content = crate::Content::File(range);
    }
    let confirmed_since = store.purge_epoch();
    oldest_deleted(&store, directory.path());
    wait_for(&store, |_| place(&store, &page).is_none());
    let object = record.read(&page.key()).unwrap();
    store.insert_from_disk(object, begun).unwrap();
    assert!(page.found(&store).is_none());
    let before = store.disk_stats().unwrap().written;
    store.insert(confirmed, confirmed_since, 32).unwrap();
    assert!(page.found(&store).is_none());
    // Its record is a new one.
    written(&store, before + 1);
    wait_for(&store, |stats| stats.deleted_bytes == 0);
    assert!(brought(&store, &page.key()) && place(&store, &page).is_some());
}

/// Clients that are slow to read keep the space of deleted segments.
#[test]
fn deleted_segments_that_stay_open_count_from_the_next_one_on() {
    let (directory, store) = opened();
    let page = long("http://a/");
    let slow = loaded(&store, &page);
    oldest_deleted(&store, directory.path());
    let deleted = store.disk_stats().unwrap().deleted_bytes;
    assert!(deleted > 0);
    let second = loaded_last(&store);
    (0..4).for_each(|_| oldest_deleted(&store, directory.path()));
    wait_for(&store, |stats| stats.deleted_bytes > deleted);
    let stats = store.disk_stats().unwrap();
    assert!(stats.bytes + deleted <= SIZE, "{stats:?}");
    drop((slow, second));
    wait_for(&store, |stats| stats.deleted_bytes == 0);
}

/// Loads the record that was written last.
fn loaded_last(store: &Store) -> FileRange {
    let url = format!("http://others/{}", store.disk_stats().unwrap().written);
    let page = long(&url);
    forget(store, &page);
    assert!(brought(store, &page.key()));
    place(store, &page).unwrap()
}

#[test]
fn leaves_memory_with_the_directory_and_with_a_purge() {
    let (_directory, store) = opened();
    let page = long("http://a/");
    let file = Arc::downgrade(&loaded(&store, &page).file);
    store.purge(&Purge::Url(b"http://a/"), false);
    assert!(page.found(&store).is_none());
    page.put(&store).unwrap();
    written(&store, 2);
    forget(&store, &page);
    assert!(brought(&store, &page.key()));
    store.set_disk("test", None).unwrap();
    // The thread of the old directory ends in the background.
    while page.found(&store).is_some() || file.strong_count() > 0 {
        std::thread::yield_now();
    }
}
