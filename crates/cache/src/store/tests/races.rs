//! Concurrent operations on one store.

use std::sync::atomic::AtomicBool;
use std::thread;

use super::*;

/// The origin: a version that grows; each change is followed by a purge.
#[test]
fn after_a_purge_earlier_objects_are_not_found() {
    const URLS: usize = 8;
    let store = Store::new(4 * MIB);
    let urls: Vec<String> = (0..URLS).map(|n| format!("http://a/{n}")).collect();
    let origin: Vec<AtomicU64> = (0..URLS).map(|_| AtomicU64::new(1)).collect();
    // The version that every response must have at least.
    let purged: Vec<AtomicU64> = (0..URLS).map(|_| AtomicU64::new(0)).collect();
    let done = AtomicBool::new(false);

    let fetch = |at: usize| {
        let begun = store.purge_epoch();
        let current = origin[at].load(Ordering::SeqCst);
        thread::yield_now();
        let mut object = sample(&urls[at]).tagged(&[at as u64]).object(&store);
        if let ObjectKind::Response(response) = &mut object.kind {
            response.meta.initial_age_s = current as u32;
        }
        drop(store.insert(object, begun, 32));
    };
    let look = |at: usize| {
        let least = purged[at].load(Ordering::SeqCst);
        let found = sample(&urls[at]).found(&store);
        match found.as_deref().map(|object| &object.kind) {
            Some(ObjectKind::Response(response)) => {
                assert!(u64::from(response.meta.initial_age_s) >= least, "an old response");
                true
            }
            _ => false,
        }
    };
    let purge = |at: usize, how: u64| {
        let new = origin[at].fetch_add(1, Ordering::SeqCst) + 1;
        match how {
            0 => store.purge(&Purge::Url(urls[at].as_bytes()), false),
            1 => store.purge(&Purge::Tags(&[at as u64]), false),
            2 => store.purge(&Purge::Prefix(urls[at].as_bytes()), false),
            _ => store.purge(&Purge::All, false),
        };
        purged[at].fetch_max(new, Ordering::SeqCst);
    };

    thread::scope(|scope| {
        for seed in 1..=3 {
            let (done, fetch, look) = (&done, &fetch, &look);
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                while !done.load(Ordering::Relaxed) {
                    let at = random.usize(..URLS);
                    if !look(at) {
                        fetch(at);
                    }
                }
            });
        }
        let mut random = fastrand::Rng::with_seed(99);
        for _ in 0..3000 {
            purge(random.usize(..URLS), random.u64(..4));
            thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
    });
    for at in 0..URLS {
        look(at);
    }
}

#[test]
fn readers_writers_purges_and_resizes_leave_the_sums_right() {
    let store = Store::new(MIB);
    thread::scope(|scope| {
        for seed in 1..=4 {
            let store = &store;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                for step in 0..4000 {
                    let url = format!("http://a/{}", random.u64(..3000));
                    let mut wanted = sample(&url).tagged(&[random.u64(..4), 9]);
                    wanted.body = random.usize(..3000);
                    match random.u64(..40) {
                        0 => drop(store.purge(&Purge::Tags(&[random.u64(..4)]), step % 2 == 0)),
                        1 => drop(store.purge(&Purge::Prefix(url.as_bytes()), false)),
                        2 => drop(store.purge(&Purge::All, step % 3 != 0)),
                        3 => store.set_memory(MIB + random.u64(..MIB)),
                        4 => drop(store.sweep()),
                        5..25 => drop(wanted.put(store)),
                        _ => drop(wanted.found(store)),
                    }
                }
            });
        }
    });
    store.set_memory(MIB);
    assert!(store.stats().bytes <= MIB);
    let mut listed = 0;
    let mut page = store.list(None, 100, |_| true);
    loop {
        listed += page.objects.len() as u64;
        let Some(next) = page.next else { break };
        page = store.list(Some(next), 100, |_| true);
    }
    let stats = store.stats();
    assert_eq!(listed, stats.objects);
    store.purge(&Purge::All, false);
    // One sweep may have been half done.
    for _ in 0..2 {
        while !store.sweep() {}
    }
    let stats = store.stats();
    assert_eq!(stats.objects, 0);
    assert_eq!(stats.inserted, stats.left.iter().sum::<u64>());
}
