//! What a worker's table finds.

use super::*;
use crate::store::tests::{MIB, Sample, sample};
use crate::store::{Purge, Store};

fn is_found(front: &mut WorkerTable<Arc<Object>>, store: &Store, wanted: &Sample<'_>) -> bool {
    let key = wanted.key();
    front.get(key.hash(), key.text(), store.clear_epoch()).is_some()
}

fn keep(front: &mut WorkerTable<Arc<Object>>, store: &Store, wanted: &Sample<'_>) {
    let epoch = store.clear_epoch();
    let object = wanted.put(store).unwrap();
    front.put(object.key.hash(), object, epoch);
}

#[test]
fn what_is_kept_is_found_until_it_leaves_the_store() {
    let store = Store::new(16 * MIB);
    let mut front = WorkerTable::new(64, 1 << 20);
    let page = sample("http://a/1");
    assert!(!is_found(&mut front, &store, &page));
    keep(&mut front, &store, &page);
    assert!(is_found(&mut front, &store, &page));

    page.put(&store).unwrap();
    assert!(!is_found(&mut front, &store, &page), "replaced");
    assert_eq!(front.bytes(), 0);

    keep(&mut front, &store, &page);
    store.purge(&Purge::Url(b"http://a/1"), false);
    assert!(!is_found(&mut front, &store, &page), "purged");
}

#[test]
fn a_purge_of_everything_empties_it() {
    let store = Store::new(16 * MIB);
    for soft in [false, true] {
        let mut front = WorkerTable::new(64, 1 << 20);
        let page = sample("http://a/1");
        keep(&mut front, &store, &page);
        store.purge(&Purge::All, soft);
        assert!(!is_found(&mut front, &store, &page));
        assert_eq!(front.bytes(), 0);
        // Looked up before the purge, added after it: not of this epoch.
        let epoch = store.clear_epoch();
        let object = page.put(&store).unwrap();
        store.purge(&Purge::All, soft);
        front.put(object.key.hash(), object, epoch);
        assert!(!is_found(&mut front, &store, &page));
    }
}

#[test]
fn another_key_at_the_same_place_is_not_mistaken_for_it() {
    let store = Store::new(16 * MIB);
    let mut front = WorkerTable::new(1, 1 << 20);
    let (one, other) = (sample("http://a/1"), sample("http://a/2"));
    keep(&mut front, &store, &one);
    assert!(!is_found(&mut front, &store, &other));
    let (hash, other_key) = (one.key().hash(), other.key());
    assert!(
        front.get(hash, other_key.text(), store.clear_epoch()).is_none(),
        "same hash, other text"
    );
    keep(&mut front, &store, &other);
    assert!(is_found(&mut front, &store, &other) && !is_found(&mut front, &store, &one));
}

/// A response and its coding, for example.
#[test]
fn two_that_belong_in_one_slot_are_both_found_until_a_third_comes() {
    let store = Store::new(16 * MIB);
    let mut front = WorkerTable::new(2, 1 << 20);
    let pages = ["http://a/1", "http://a/2", "http://a/3"].map(sample);
    for page in &pages[..2] {
        keep(&mut front, &store, page);
    }
    assert!(pages[..2].iter().all(|page| is_found(&mut front, &store, page)));
    let bytes = front.bytes();
    for page in &pages[..2] {
        keep(&mut front, &store, page);
    }
    assert_eq!(front.bytes(), bytes, "each is there once");
    keep(&mut front, &store, &pages[2]);
    let found = pages.each_ref().map(|page| is_found(&mut front, &store, page));
    assert_eq!(found.iter().filter(|found| **found).count(), 2);
    assert!(found[2]);
}

#[test]
fn it_keeps_no_more_alive_than_it_may() {
    let store = Store::new(64 * MIB);
    let most = 100_000;
    let mut front = WorkerTable::new(256, most);
    for n in 0..500 {
        let url = format!("http://a/{n}");
        keep(&mut front, &store, &Sample { body: 9000, ..sample(&url) });
        assert!(front.bytes() <= most && front.bytes() > 0);
    }
    keep(&mut front, &store, &Sample { body: 200_000, ..sample("http://a/large") });
    assert!(!is_found(&mut front, &store, &sample("http://a/large")));
    store.purge(&Purge::Prefix(b"http://a/"), false);
    front.drop_removed();
    assert_eq!(front.bytes(), 0);
}

#[test]
fn what_has_left_the_store_is_let_go_while_other_things_are_put() {
    let store = Store::new(64 * MIB);
    let mut front = WorkerTable::new(256, 64 << 20);
    let large = Sample { body: 1_000_000, ..sample("http://a/large") };
    keep(&mut front, &store, &large);
    store.purge(&Purge::Url(b"http://a/large"), false);
    for n in 0..TIDY_AFTER {
        keep(&mut front, &store, &sample(&format!("http://a/{n}")));
    }
    assert!(front.bytes() < 1_000_000, "{} bytes", front.bytes());
}
