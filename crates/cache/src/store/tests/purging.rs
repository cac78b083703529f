//! Purges, and responses fetched before them.

use super::*;
use crate::limits::PURGE_PREFIXES_MAX;

fn store_of(samples: &[Sample<'_>]) -> Store {
    let store = Store::new(16 * MIB);
    for sample in samples {
        sample.put(&store).unwrap();
    }
    store
}

#[test]
fn a_url_goes_with_all_its_variants_and_codings() {
    let page = sample("http://a/1");
    let other = sample("http://a/12");
    let store = store_of(&[other.clone(), page.clone().variant("de"), page.clone().variant("en")]);
    let de = page.clone().variant("de").found(&store).unwrap();
    let br = page.clone().variant("de").derived("br", version(&de));
    br.put(&store).unwrap();
    store.insert(marker("http://a/1", varies()), store.purge_epoch(), 32).unwrap();
    assert_eq!(store.purge(&Purge::Url(b"http://a/1"), false), 2);
    assert!(store.of_url(b"http://a/1").is_empty() && br.found(&store).is_none());
    assert!(de.state.is_removed());
    assert!(other.found(&store).is_some());
    assert_eq!(store.purge(&Purge::Url(b"http://a/1"), false), 0);
    assert_eq!(removed_count(&store, RemovalReason::Purged), 4);
}

#[test]
fn a_soft_purge_makes_stale_and_lifts_what_keeps_requests_from_waiting() {
    let page = sample("http://a/1");
    let store = store_of(std::slice::from_ref(&page));
    let uncacheable = ObjectKind::Uncacheable {
        until_secs: u64::MAX,
        why: crate::rules::UncachedReason::Private,
    };
    store.insert(marker("http://a/2", uncacheable), store.purge_epoch(), 32).unwrap();
    store.insert(marker("http://a/3", varies()), store.purge_epoch(), 32).unwrap();
    assert_eq!(store.purge(&Purge::Prefix(b"http://a/"), true), 1);
    let found = page.found(&store).unwrap();
    assert!(found.state.is_stale() && !found.state.is_removed());
    assert!(store.of_url(b"http://a/2").is_empty());
    assert_eq!(store.of_url(b"http://a/3").len(), 1);
    page.put(&store).unwrap();
    assert!(!page.found(&store).unwrap().state.is_stale(), "what comes later is fresh");
}

#[test]
fn a_prefix_goes_and_nothing_else_however_much_there_is() {
    let urls: Vec<String> = (0..2000).map(|n| format!("http://a/{}/{n}", n % 4)).collect();
    let store = store_of(&urls.iter().map(|url| sample(url)).collect::<Vec<_>>());
    assert_eq!(store.purge(&Purge::Prefix(b"http://a/2/"), false), 500);
    assert_eq!(store.stats().objects, 1500);
    let of = |url: &String| sample(url).found(&store).is_some() != url.starts_with("http://a/2/");
    assert!(urls.iter().all(of));
}

#[test]
fn tags_go_wherever_they_are() {
    let urls: Vec<String> = (0..900).map(|n| format!("http://a/{n}")).collect();
    let tags = |n: usize| [1, 10 + (n % 3) as u64];
    let tagged = |n: usize| sample(&urls[n]).tagged(&tags(n));
    let store = store_of(&(0..900).map(tagged).collect::<Vec<_>>());
    assert_eq!(store.purge(&Purge::Tags(&[10]), false), 300);
    assert_eq!(store.purge(&Purge::Tags(&[10, 11]), true), 300);
    let stale = |n: usize| tagged(n).found(&store).map(|object| object.state.is_stale());
    assert_eq!((stale(0), stale(1), stale(2)), (None, Some(true), Some(false)));
    // A response that is stored again without the tag is not found by it.
    sample(&urls[1]).put(&store).unwrap();
    assert_eq!(store.purge(&Purge::Tags(&[11]), false), 299);
    assert_eq!(store.purge(&Purge::Tags(&[1]), false), 300);
    assert_eq!(store.stats().objects, 1);
}

#[test]
fn all_is_gone_at_once_and_its_memory_comes_back_slice_by_slice() {
    let urls: Vec<String> = (0..2000).map(|n| format!("http://a/{n}")).collect();
    let store = store_of(&urls.iter().map(|url| sample(url)).collect::<Vec<_>>());
    store.insert(marker("http://a/v", varies()), store.purge_epoch(), 32).unwrap();
    let (full, epoch) = (store.stats().bytes, store.clear_epoch());
    assert_eq!(store.purge(&Purge::All, false), 2000);
    assert_ne!(store.clear_epoch(), epoch);
    assert_eq!(store.stats().objects, 0);
    assert!(urls.iter().all(|url| sample(url).found(&store).is_none()));
    assert!(store.list(None, 10, |_| true).objects.is_empty());
    sample(&urls[0]).put(&store).unwrap();
    assert_eq!((store.stats().objects, store.purge(&Purge::All, false)), (1, 1));
    while !store.sweep() {}
    assert!(store.stats().bytes < full / 2, "{} of {full}", store.stats().bytes);
    assert_eq!(removed_count(&store, RemovalReason::Purged), 2002);
}

#[test]
fn a_soft_purge_of_all_makes_stale_what_was_there() {
    let (one, other) = (sample("http://a/1"), sample("http://a/2"));
    let store = store_of(std::slice::from_ref(&one));
    let epoch = store.clear_epoch();
    assert_eq!(store.purge(&Purge::All, true), 1);
    assert_ne!(store.clear_epoch(), epoch);
    other.put(&store).unwrap();
    assert!(one.found(&store).unwrap().state.is_stale());
    assert!(!other.found(&store).unwrap().state.is_stale());
    assert_eq!(store.purge(&Purge::All, false), 2);
}

#[test]
fn what_was_fetched_before_a_purge_is_not_stored_after_it() {
    let store = Store::new(16 * MIB);
    let page = sample("http://a/1").tagged(&[5]);
    let purges = [
        (Purge::Url(b"http://a/1"), true),
        (Purge::Prefix(b"http://a"), true),
        (Purge::Tags(&[4, 5]), true),
        (Purge::All, true),
        (Purge::Url(b"http://a/12"), false),
        (Purge::Prefix(b"http://b"), false),
        (Purge::Tags(&[6]), false),
    ];
    for (purge, meant) in purges {
        for soft in [false, true] {
            let before = store.purge_epoch();
            store.purge(&purge, soft);
            let put = page.put_since(&store, before);
            assert_eq!(put.err(), meant.then_some(InsertError::Purged), "{purge:?} {soft}");
            assert!(page.put(&store).is_ok());
        }
    }
}

#[test]
fn prefixes_that_are_forgotten_keep_old_fetches_out() {
    let store = Store::new(MIB);
    let before = store.purge_epoch();
    for n in 0..=PURGE_PREFIXES_MAX {
        store.purge(&Purge::Prefix(format!("http://b/{n}").as_bytes()), false);
    }
    assert_eq!(sample("http://a").put_since(&store, before).err(), Some(InsertError::Purged));
    assert!(sample("http://a").put(&store).is_ok());
}
