//! Memory accounting and its bounds.

use super::*;

#[test]
fn the_bound_holds_and_moves_live() {
    let store = Store::new(4 * MIB);
    for n in 0..20_000 {
        sample(&format!("http://a/{n}")).put(&store).unwrap();
        assert!(store.stats().bytes <= 4 * MIB);
    }
    let full = store.stats();
    assert!(full.bytes > 4 * MIB * 9 / 10, "{}", full.bytes);
    assert_eq!(removed_count(&store, RemovalReason::Size) + full.objects, 20_000);
    store.set_memory(MIB);
    assert!(store.stats().bytes <= MIB);
    assert!(store.stats().objects > full.objects / 10, "{}", store.stats().objects);
    store.set_memory(64 * MIB);
    for n in 0..20_000 {
        sample(&format!("http://a/{n}")).put(&store).unwrap();
    }
    assert_eq!(store.stats().objects, 20_000);
}

#[test]
fn what_is_too_large_for_the_store_is_refused_and_disturbs_nothing() {
    let store = Store::new(4 * MIB);
    let small = sample("http://a/small");
    small.put(&store).unwrap();
    let large = Sample { body: 2 << 20, ..sample("http://a/large") };
    assert_eq!(large.put(&store).err(), Some(InsertError::TooLarge));
    assert!(small.found(&store).is_some());
    assert_eq!(store.stats().refused, [1, 0, 0]);
}

#[test]
fn one_large_object_does_not_empty_its_shard() {
    let store = Store::new(64 * MIB);
    let urls: Vec<String> = (0..30_000).map(|n| format!("http://a/{n}")).collect();
    for url in &urls {
        Sample { body: 3000, ..sample(url) }.put(&store).unwrap();
    }
    let before = store.stats().objects;
    Sample { body: 8 << 20, ..sample("http://a/large") }.put(&store).unwrap();
    let mut per_shard = vec![0; store.memory.shards()];
    for url in &urls {
        let key = sample(url).key();
        if store.peek(key.hash(), key.text()).is_some() {
            per_shard[store.memory.shard_of(key.hash())] += 1;
        }
    }
    let fair = before as usize / per_shard.len();
    assert!(per_shard.iter().all(|count| *count > fair / 2), "{fair} {per_shard:?}");
}

#[test]
fn tables_that_have_become_empty_are_given_back_and_nothing_is_lost() {
    let store = Store::new(64 * MIB);
    let urls: Vec<String> = (0..4000).map(|n| format!("http://a/{n}")).collect();
    let tagged = |n: usize| sample(&urls[n]).tagged(&[n as u64 % 2, 9]);
    for n in 0..urls.len() {
        tagged(n).put(&store).unwrap();
    }
    let full = store.stats().bytes;
    for n in 0..urls.len() {
        let key = tagged(n).key();
        if n % 10 != 0 {
            store.remove(key.hash(), key.text()).unwrap();
        }
    }
    while !store.sweep() {}
    let moved = (0..store.memory.shards()).any(|shard| store.memory.read(shard).renumberings() > 0);
    assert!(moved && store.stats().bytes < full / 3, "{} of {full}", store.stats().bytes);
    let found = |n: &usize| tagged(*n).found(&store).is_some();
    assert_eq!((0..urls.len()).filter(found).count(), 400);
    assert_eq!(store.purge(&Purge::Tags(&[0]), false), 400);
    assert_eq!(store.stats().objects, 0);
    for n in 0..urls.len() {
        tagged(n).put(&store).unwrap();
    }
    assert!((0..urls.len()).all(|n| found(&n)));
}
