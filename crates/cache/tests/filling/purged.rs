//! Purges, and changes by one client's response that must not affect shared responses.

use cache::rules::tags;
use cache::store::Purge;
use net::worker::block_on_local;
use wire::Method;

use crate::site::{Site, begin, done, get, get_with, request, response_with, text};

const KEPT: (&str, &str) = ("cache-control", "max-age=60");

/// The tags of a response are known when it arrives: a request that was sent after a purge of a tag
/// fetches again, although it joined a fetch that began before the purge.
#[test]
fn after_a_purge_by_tag_earlier_fetches_are_not_served() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let tagged = [KEPT, ("surrogate-key", "shop")];
        let before = get(&route, "/").await;
        let first = origin.next_call().await;
        site.cache().store().purge(&Purge::Tags(&[tags::tag(b"shop")]), false);
        let after = get(&route, "/").await;
        first.respond(response_with(200, &tagged, "old"));
        assert_eq!(text(before).await, "old");
        origin.next_call().await.respond(response_with(200, &tagged, "new"));
        assert_eq!(text(after).await, "new");
        assert_eq!(text(get(&route, "/").await).await, "new");
        assert!(origin.is_idle());
    });
}

/// The same if the origin revalidates a response that was purged during the fetch.
#[test]
fn after_a_purge_by_tag_earlier_revalidations_are_not_served() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let tagged = [KEPT, ("surrogate-key", "shop"), ("etag", "\"1\"")];
        let first = get(&route, "/").await;
        origin.next_call().await.respond(response_with(200, &tagged, "old"));
        assert_eq!(text(first).await, "old");
        site.cache().store().purge(&Purge::All, true);
        let before = get(&route, "/").await;
        let call = origin.next_call().await;
        assert_eq!(call.field("if-none-match"), Some("\"1\""));
        site.cache().store().purge(&Purge::Tags(&[tags::tag(b"shop")]), false);
        let after = get(&route, "/").await;
        call.respond(response_with(304, &tagged, ""));
        assert_eq!(text(before).await, "old");
        let call = origin.next_call().await;
        assert_eq!(call.field("if-none-match"), None);
        call.respond(response_with(200, &tagged, "new"));
        assert_eq!(text(after).await, "new");
    });
}

/// RFC 9111 4.4: the stored response to a GET of the URL is removed.
#[test]
fn s4_4_what_is_found_by_no_vary_search_goes_with_each_url_it_serves() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let searched = [KEPT, ("no-vary-search", "params=(\"u\")")];
        for how in ["purge", "post"] {
            let first = get(&route, "/?a=1&u=1").await;
            origin.next_call().await.respond(response_with(200, &searched, "old"));
            assert_eq!(text(first).await, "old");
            assert_eq!(text(get(&route, "/?u=2&a=1").await).await, "old");
            if how == "purge" {
                let url = Purge::Url(b"http://a/?u=3&a=1");
                assert_eq!(site.cache().store().purge(&url, false), 1);
            } else {
                let post = begin(&route, request(Method::Post, "/?a=1&u=3", &[])).await;
                origin.next_call().await.respond(response_with(200, &[], "changed"));
                assert_eq!(text(post).await, "changed");
            }
            let again = get(&route, "/?a=1&u=2").await;
            origin.next_call().await.respond(response_with(200, &searched, "new"));
            assert_eq!(text(again).await, "new");
            site.cache().store().purge(&Purge::All, false);
        }
    });
}

/// The first response with No-Vary-Search is stored under another URL than the purged one.
#[test]
fn what_is_purged_while_it_is_fetched_is_not_kept_under_another_url() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let searched = [KEPT, ("no-vary-search", "params=(\"u\")")];
        let before = get(&route, "/?u=1").await;
        let call = origin.next_call().await;
        site.cache().store().purge(&Purge::Url(b"http://a/?u=1"), false);
        call.respond(response_with(200, &searched, "old"));
        assert_eq!(text(before).await, "old");
        let after = get(&route, "/?u=1").await;
        origin.next_call().await.respond(response_with(200, &searched, "new"));
        assert_eq!(text(after).await, "new");
    });
}

/// RFC 9111 3.5: the response to an authenticated request is not stored and removes nothing.
#[test]
fn s3_5_what_one_user_has_confirmed_stays_stored_for_the_others() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let fields = [KEPT, ("etag", "\"1\"")];
        let first = get(&route, "/").await;
        origin.next_call().await.respond(response_with(200, &fields, "content"));
        assert_eq!(text(first).await, "content");
        let own = [("authorization", "Basic eA=="), ("cache-control", "no-cache")];
        let own = get_with(&route, "/", &own).await;
        origin.next_call().await.respond(response_with(304, &fields, ""));
        let got = done(own).await.unwrap();
        assert_eq!((got.status, got.text().await.unwrap()), (200, "content".to_owned()));
        assert_eq!(text(get(&route, "/").await).await, "content");
        assert!(origin.is_idle());
    });
}

/// RFC 9111 4.1, 4.3.4: a 304 may declare that the response varies from now on.
#[test]
fn s4_3_4_what_varies_since_it_was_confirmed_is_not_for_others() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let fields = [KEPT, ("etag", "\"1\"")];
        let requesting = async |word| get_with(&route, "/", &[("x-word", word)]).await;
        let first = requesting("a").await;
        origin.next_call().await.respond(response_with(200, &fields, "for a"));
        assert_eq!(text(first).await, "for a");
        site.cache().store().purge(&Purge::All, true);
        let again = requesting("a").await;
        let varies = [KEPT, ("etag", "\"1\""), ("vary", "x-word")];
        origin.next_call().await.respond(response_with(304, &varies, ""));
        assert_eq!(text(again).await, "for a");
        let other = requesting("b").await;
        origin.next_call().await.respond(response_with(200, &varies, "for b"));
        assert_eq!(text(other).await, "for b");
        assert_eq!(text(requesting("a").await).await, "for a");
        assert!(origin.is_idle());
    });
}
