//! Insertion, expiry and removal.

use super::*;
use crate::limits::URL_RESPONSES_MAX;

#[test]
fn what_is_stored_is_found_by_its_whole_key_and_replaced_by_what_comes_later() {
    let store = Store::new(16 * MIB);
    let (one, other) = (sample("http://a/1"), sample("http://a/2"));
    let first = one.put(&store).unwrap();
    assert!(other.found(&store).is_none());
    let second = one.put(&store).unwrap();
    assert_eq!(version(&one.found(&store).unwrap()), version(&second));
    assert!(first.state.is_removed() && !second.state.is_removed());
    let stats = store.stats();
    assert_eq!(
        (stats.objects, stats.inserted, removed_count(&store, RemovalReason::Replaced)),
        (1, 2, 1)
    );
}

#[test]
fn a_use_is_counted_by_get_and_not_by_peek() {
    let store = Store::new(MIB);
    let one = sample("http://a/1");
    let object = one.put(&store).unwrap();
    let key = one.key();
    assert!(store.peek(key.hash(), key.text()).is_some());
    assert_eq!(object.state.uses(), 0);
    assert!(store.get(key.hash(), key.text()).is_some());
    assert_eq!(object.state.uses(), 1);
}

#[test]
fn derived_codings_are_stored_only_with_their_canonical_response_and_removed_with_it() {
    let store = Store::new(16 * MIB);
    let page = sample("http://a/1");
    assert_eq!(page.clone().derived("br", 7).put(&store).err(), Some(InsertError::Orphan));

    let canonical = page.put(&store).unwrap();
    let br = page.clone().derived("br", version(&canonical));
    let derived = br.put(&store).unwrap();
    assert_eq!(version(&br.found(&store).unwrap()), version(&canonical));

    let newer = page.put(&store).unwrap();
    assert!(derived.state.is_removed() && br.found(&store).is_none());
    assert_eq!(br.put(&store).err(), Some(InsertError::Orphan), "of a version that is replaced");

    let br = page.clone().derived("br", version(&newer));
    br.put(&store).unwrap();
    let key = page.key();
    assert!(store.remove(key.hash(), key.text()).is_some());
    assert!(br.found(&store).is_none());
    assert_eq!(store.stats().objects, 0);
}

#[test]
fn a_response_refreshed_under_the_same_version_keeps_what_was_derived() {
    let store = Store::new(16 * MIB);
    let page = sample("http://a/1");
    let canonical = page.put(&store).unwrap();
    let br = page.clone().derived("br", version(&canonical));
    br.put(&store).unwrap();
    let mut refreshed = page.object(&store);
    if let ObjectKind::Response(response) = &mut refreshed.kind {
        response.version = version(&canonical);
    }
    store.insert(refreshed, store.purge_epoch(), 32).unwrap();
    assert!(canonical.state.is_removed());
    assert!(br.found(&store).is_some());
}

#[test]
fn of_too_many_variants_the_least_used_one_goes() {
    let store = Store::new(16 * MIB);
    let names: Vec<String> = (0..5).map(|n| n.to_string()).collect();
    let variant = |name: &String| sample("http://a/1").variant(name);
    for name in &names[..4] {
        store.insert(variant(name).object(&store), store.purge_epoch(), 4).unwrap();
        if name != "2" {
            variant(name).found(&store).unwrap();
        }
    }
    // Replacing a variant adds none; a marker or another URL does not count.
    store.insert(variant(&names[0]).object(&store), store.purge_epoch(), 4).unwrap();
    store.insert(marker("http://a/1", varies()), store.purge_epoch(), 4).unwrap();
    sample("http://a/2").put(&store).unwrap();
    assert_eq!(removed_count(&store, RemovalReason::Variants), 0);

    store.insert(variant(&names[4]).object(&store), store.purge_epoch(), 4).unwrap();
    assert_eq!(removed_count(&store, RemovalReason::Variants), 1);
    let there = |name| variant(name).found(&store).is_some();
    assert_eq!(names.iter().map(there).collect::<Vec<_>>(), [true, true, false, true, true]);
    assert_eq!(store.of_url(b"http://a/1").len(), 5);
}

/// Other components of a key (`key: { headers: [x-tenant] }`) are not variants.
#[test]
fn each_key_of_a_url_has_its_own_variants() {
    let store = Store::new(64 * MIB);
    let response = |tenant: usize, name: &str| {
        let rest = format!("{ROUTE}\0={tenant}\0v:{name}");
        Sample { rest, ..sample("http://a/1") }
    };
    for (tenant, name) in (0..40).flat_map(|tenant| [(tenant, "a"), (tenant, "b")]) {
        store.insert(response(tenant, name).object(&store), store.purge_epoch(), 2).unwrap();
    }
    assert_eq!(store.stats().objects, 80);
    store.insert(response(7, "c").object(&store), store.purge_epoch(), 2).unwrap();
    assert_eq!((store.stats().objects, removed_count(&store, RemovalReason::Variants)), (80, 1));
    assert!(response(7, "a").found(&store).is_none() || response(7, "b").found(&store).is_none());
    for tenant in 40..URL_RESPONSES_MAX {
        store.insert(response(tenant, "a").object(&store), store.purge_epoch(), 2).unwrap();
    }
    assert_eq!(store.stats().objects, URL_RESPONSES_MAX as u64);
}

#[test]
fn what_is_of_no_use_any_more_is_taken_out() {
    let store = Store::new(16 * MIB);
    let over = Sample { lifetime_s: 0, ..sample("http://a/over") };
    let useful = Sample { flags: Flags::VALIDATOR, ..over.clone() };
    let useful = Sample { url: "http://a/useful", ..useful };
    over.put(&store).unwrap();
    useful.put(&store).unwrap();
    store
        .insert(
            marker(
                "http://a/u",
                ObjectKind::Uncacheable {
                    until_secs: 1,
                    why: crate::rules::UncachedReason::Private,
                },
            ),
            store.purge_epoch(),
            1,
        )
        .unwrap();
    while !store.sweep() {}
    assert!(over.found(&store).is_none());
    assert!(useful.found(&store).is_some(), "the origin can be asked about it");
    assert_eq!((store.stats().objects, removed_count(&store, RemovalReason::Expired)), (1, 2));
}

#[test]
fn pages_list_each_object_once_while_others_come_and_go() {
    let store = Store::new(16 * MIB);
    let urls: Vec<String> = (0..1000).map(|n| format!("http://a/{n}")).collect();
    for url in &urls {
        sample(url).put(&store).unwrap();
    }
    let mut seen = std::collections::HashMap::new();
    let (mut from, mut turn) = (None, 0);
    loop {
        let page = store.list(from, 7, |object| !object.key.url().ends_with(b"9"));
        assert!(page.objects.len() <= 7);
        for object in &page.objects {
            *seen.entry(object.key.url().to_vec()).or_insert(0) += 1;
        }
        // An object whose number ends in 9 leaves, and a new one comes.
        let key = sample(&urls[(turn * 10 + 9) % 1000]).key();
        store.remove(key.hash(), key.text());
        sample(&format!("http://b/{turn}9")).put(&store).unwrap();
        turn += 1;
        from = page.next;
        if from.is_none() {
            break;
        }
    }
    assert_eq!(seen.len(), 900);
    assert!(seen.values().all(|times| *times == 1));
}
