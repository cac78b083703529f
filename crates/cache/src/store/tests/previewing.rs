//! Previews of purges.

use super::*;

fn all(_: &Object) -> bool {
    true
}

#[test]
fn a_preview_has_the_number_that_the_purge_returns() {
    let urls: Vec<String> = (0..2000).map(|n| format!("http://a/{}/{n}", n % 4)).collect();
    let store = Store::new(16 * MIB);
    for (n, url) in urls.iter().enumerate() {
        sample(url).tagged(&[1, 10 + (n % 3) as u64]).put(&store).unwrap();
    }
    let page = sample("http://a/page");
    let de = page.clone().variant("de").put(&store).unwrap();
    page.clone().variant("en").put(&store).unwrap();
    page.variant("de").derived("br", version(&de)).put(&store).unwrap();
    let purges = [
        (Purge::Url(b"http://a/page"), false, 2),
        (Purge::Tags(&[10, 11]), true, 1334),
        // Those that are stale already are not counted again, unless they are removed.
        (Purge::Tags(&[10, 11]), true, 0),
        (Purge::Prefix(b"http://a/2/"), false, 500),
        (Purge::Tags(&[1, 10]), false, 1500),
        (Purge::All, true, 0),
    ];
    for (purge, soft, expected) in purges {
        let preview = store.preview(&purge, soft, 10, &all);
        assert_eq!(preview.responses, expected, "{purge:?}");
        assert_eq!(preview.sample.len() as u64, expected.min(10));
        assert_eq!(store.preview(&purge, soft, 10, &all).responses, expected, "nothing was purged");
        assert_eq!(store.purge(&purge, soft), expected, "{purge:?}");
    }
}

#[test]
fn everything_is_counted_again_and_a_condition_narrows_a_preview() {
    let store = Store::new(16 * MIB);
    for url in ["http://a/1", "http://a/2", "http://b/1"] {
        sample(url).put(&store).unwrap();
    }
    let is_first = |object: &Object| object.key.url().ends_with(b"/1");
    let preview = store.preview(&Purge::Prefix(b"http://a/"), false, 10, &is_first);
    assert_eq!((preview.responses, preview.sample[0].key.url()), (1, &b"http://a/1"[..]));
    for _ in 0..2 {
        assert_eq!(store.preview(&Purge::All, true, 0, &all).responses, 3);
        assert_eq!(store.purge(&Purge::All, true), 3);
    }
    assert_eq!(store.preview(&Purge::All, false, 1, &all).sample.len(), 1);
    assert_eq!(store.purge(&Purge::All, false), 3);
    assert_eq!(store.preview(&Purge::All, false, 1, &all).responses, 0);
}
