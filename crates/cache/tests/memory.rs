//! Compares the memory that a store reports with the memory of the process: many small objects, the
//! product's allocator, and nothing else in the process.

use std::time::SystemTime;

use bytes::Bytes;
use cache::rules::{Flags, Meta};
use cache::store::{Purge, Store};
use cache::{Content, Key, Object, ObjectKind, StoredResponse};
use message::{Headers, SharedHeaders};

#[global_allocator]
static ALLOCATOR: net::Allocator = net::Allocator;

/// The number of objects; `make soak` sets a larger one.
const OBJECTS: usize = 100_000;
/// The memory that an object may take in addition to its key, headers and body.
const OVERHEAD_BYTES: usize = 400;

/// The resident memory of this process, in bytes.
fn resident_bytes() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|statm| statm.split_whitespace().nth(1)?.parse::<usize>().ok());
    pages.expect("the kernel says how much memory is there") * 4096
}

/// An object, and the bytes of its key, head and body.
fn object(version: usize, now_secs: u64) -> (Object, usize) {
    let url = format!("http://www.example.org/articles/{version}/index.html");
    // The text is copied, as for every object that is stored: a buffer that has grown is in a
    // larger block, and truncating it does not release that block.
    let key = Key::new(format!("{url}\0catalog").as_bytes(), url.len());
    let mut head = Headers::new();
    head.append("content-type", "text/html; charset=utf-8");
    head.append("cache-control", "public, max-age=3600");
    head.append("etag", "\"0123456789abcdef\"");
    let head = SharedHeaders::from(&head);
    let body = vec![b'x'; 200 + version % 200];
    let own = key.text().len() + head.bytes() + body.len();
    let meta = Meta {
        status: 200,
        flags: Flags::VALIDATOR,
        received_secs: now_secs,
        initial_age_s: 0,
        lifetime_s: 3600,
        while_revalidate_s: 0,
        if_error_s: 0,
    };
    let response = StoredResponse {
        version: version as u64,
        meta,
        head,
        hidden: None,
        // The body has the form that it has after it was sent.
        content: Content::Memory(Bytes::from(body).clone()),
        coding: None,
        derived: false,
        hits: Default::default(),
        tags: [version as u64 % 7].into(),
    };
    (Object { key, kind: ObjectKind::Response(response), state: Default::default() }, own)
}

#[test]
fn a_store_of_small_objects_takes_what_it_says_and_little_besides_them() {
    let count = std::env::var("CACHE_OBJECTS").map_or(OBJECTS, |n| n.parse().unwrap());
    let now_secs = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let store = Store::new(64 << 30);
    let (empty, before) = (store.stats().bytes as usize, resident_bytes());
    let mut own = 0;
    for version in 0..count {
        let (object, bytes) = object(version, now_secs);
        own += bytes;
        if let ObjectKind::Response(StoredResponse { content: Content::Memory(content), .. }) =
            &object.kind
        {
            drop(content.clone());
        }
        store.insert(object, store.purge_epoch(), 32).unwrap();
    }
    let counted = store.stats().bytes as usize - empty;
    let resident = resident_bytes() - before;
    let overhead = (counted - own) / count;
    println!(
        "{count} objects: counted {counted}, resident {resident}, {} each, {overhead} overhead",
        counted / count
    );
    assert_eq!(store.stats().objects, count as u64);
    assert!(overhead <= OVERHEAD_BYTES, "{overhead} bytes of overhead each");
    // Memory that the allocator has not returned yet, and pages that are larger than requested.
    let apart = counted.abs_diff(resident).saturating_sub(8 << 20) * 100 / resident;
    assert!(apart <= 5, "counted {counted}, resident {resident}: {apart} % apart");

    store.purge(&Purge::All, false);
    while !store.sweep() {}
    let rest = store.stats().bytes as usize - empty;
    assert!(rest < count * 200, "{rest} bytes are left");
}
