//! The objects with the most hits, and those that take the most memory.

use super::*;

fn urls(objects: &[Arc<Object>]) -> Vec<&str> {
    objects.iter().map(|object| std::str::from_utf8(object.key.url()).unwrap()).collect()
}

fn find_often(one: &Sample<'_>, store: &Store, times: usize) {
    (0..times).for_each(|_| drop(one.found(store)));
}

#[test]
fn the_highest_are_listed_in_order() {
    let store = Store::new(16 * MIB);
    let names: Vec<String> = (0..3000).map(|n| format!("http://a/{n}")).collect();
    for (n, url) in names.iter().enumerate() {
        let body = match n {
            2999 => 9000,
            2998 => 5000,
            _ => 100,
        };
        Sample { body, ..sample(url) }.put(&store).unwrap();
    }
    for (times, n) in [(2, 7), (9, 1234), (5, 2999)] {
        find_often(&sample(&names[n]), &store, times);
    }
    let top = store.top(2);
    assert_eq!(urls(&top.by_hits), ["http://a/1234", "http://a/2999"]);
    assert_eq!(urls(&top.by_memory), ["http://a/2999", "http://a/2998"]);
    assert_eq!(top.by_hits[0].hits(), 9);
    let all = store.top(usize::MAX);
    assert_eq!(urls(&all.by_hits), ["http://a/1234", "http://a/2999", "http://a/7"]);
    assert_eq!(all.by_memory.len(), crate::limits::TOP_MAX);
}

#[test]
fn a_replaced_response_hands_its_hits_on() {
    let store = Store::new(16 * MIB);
    let one = sample("http://a/1");
    one.put(&store).unwrap();
    find_often(&one, &store, 3);
    one.put(&store).unwrap();
    find_often(&one, &store, 2);
    assert_eq!(store.top(1).by_hits[0].hits(), 5);
}

#[test]
fn markers_and_what_was_purged_are_not_listed() {
    let store = Store::new(16 * MIB);
    let one = sample("http://a/1");
    store.insert(marker("http://a/2", varies()), store.purge_epoch(), 32).unwrap();
    find_often(&sample("http://a/2"), &store, 3);
    assert!(store.top(5).by_hits.is_empty() && store.top(5).by_memory.is_empty());
    one.put(&store).unwrap();
    find_often(&one, &store, 1);
    assert_eq!((store.top(5).by_hits.len(), store.top(5).by_memory.len()), (1, 1));
    store.purge(&Purge::All, false);
    assert!(store.top(5).by_hits.is_empty() && store.top(5).by_memory.is_empty());
}
