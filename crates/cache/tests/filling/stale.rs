//! What is stored and stale: served while it is confirmed, or because it cannot be.

use message::shared_body;
use net::worker::block_on_local;

use crate::site::{
    Origin, Site, done, fault, get, get_with, growing_response, response_with, text,
};

const OLD: &str = "\"1\"";
/// Stale at once, and to be confirmed.
const ASK: (&str, &str) = ("cache-control", "no-cache");
const BEHIND: (&str, &str) = ("cache-control", "max-age=0, stale-while-revalidate=1000");
const ERROR: (&str, &str) = ("cache-control", "max-age=0, stale-if-error=1000");
const STRICT: (&str, &str) = ("cache-control", "max-age=0, must-revalidate, stale-if-error=1000");
const KEPT: (&str, &str) = ("cache-control", "max-age=60");

async fn store(
    route: &std::rc::Rc<plugin::Route>,
    origin: &mut Origin,
    declared: (&'static str, &'static str),
) {
    let client = get(route, "/").await;
    origin.next_call().await.respond(response_with(
        200,
        &[declared, ("etag", OLD), ("x-a", "old")],
        "content",
    ));
    assert_eq!(text(client).await, "content");
}

#[test]
fn many_are_served_stale_while_one_request_revalidates() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        store(&route, &mut origin, BEHIND).await;
        for _ in 0..100 {
            assert_eq!(text(get(&route, "/").await).await, "content");
        }
        let call = origin.next_call().await;
        assert_eq!(call.field("if-none-match"), Some(OLD));
        assert!(origin.is_idle());
        call.respond(response_with(200, &[KEPT], "newer"));
        while text(get(&route, "/").await).await != "newer" {
            tokio::task::yield_now().await;
        }
        assert!(origin.is_idle());
    });
}

/// RFC 9111 4.3.4: the stored content with the headers of the 304, for all followers.
#[test]
fn a_304_renews_what_is_stored() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        store(&route, &mut origin, ASK).await;
        let client = get_with(&route, "/", &[("if-none-match", "\"other\"")]).await;
        let call = origin.next_call().await;
        assert_eq!(call.headers.get_all("if-none-match").collect::<Vec<_>>(), [OLD.as_bytes()]);
        call.respond(response_with(304, &[("etag", OLD), ("x-a", "new"), KEPT], ""));
        let got = done(client).await.unwrap();
        assert_eq!((got.status, got.field("x-a")), (200, "new"));
        assert_eq!(
            got.field("cache-status").split("; ttl").next(),
            Some("tidegate; fwd=stale; fwd-status=304; stored")
        );
        assert_eq!(got.notes.upstream.as_deref(), Some("the origin"));
        assert_eq!(got.text().await.unwrap(), "content");
        // Now it is fresh.
        let got = done(get(&route, "/").await).await.unwrap();
        assert_eq!(got.field("x-a"), "new");
        assert_eq!(got.text().await.unwrap(), "content");
        assert!(origin.is_idle());
        assert_eq!(site.counted("tidegate_cache_revalidations_total", Some("valid")), 1);
    });
}

/// RFC 9111 4.3.4: a 304 about something else says nothing of what is stored.
#[test]
fn a_304_for_another_representation_is_revalidated_again() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        store(&route, &mut origin, ASK).await;
        let client = get(&route, "/").await;
        origin.next_call().await.respond(response_with(304, &[("etag", "\"2\"")], ""));
        let call = origin.next_call().await;
        assert_eq!(call.field("if-none-match"), None);
        call.respond(response_with(200, &[KEPT, ("etag", "\"2\"")], "newer"));
        assert_eq!(text(client).await, "newer");
    });
}

/// RFC 5861 4.
#[test]
fn what_is_stale_is_served_when_the_origin_fails_and_the_origin_is_left_alone() {
    block_on_local(async {
        for failure in [fault, |status| response_with(status, &[], "sorry")] {
            let (site, mut origin) = Site::plain();
            let route = site.worker(0);
            store(&route, &mut origin, ERROR).await;
            let (one, two) = (get(&route, "/").await, get(&route, "/").await);
            origin.next_call().await.respond(failure(503));
            assert_eq!((text(one).await, text(two).await), ("content".into(), "content".into()));
            let mut fetches = 0;
            for _ in 0..100 {
                let client = get(&route, "/").await;
                // It asks again after a moment, and on a slow machine that may be over.
                tokio::task::yield_now().await;
                if !client.is_finished() {
                    origin.next_call().await.respond(failure(503));
                    fetches += 1;
                }
                assert_eq!(text(client).await, "content");
            }
            assert!(fetches < 100, "the origin is not left alone");
            assert!(site.counted("tidegate_cache_stale_total", Some("error")) >= 102);
        }
    });
}

/// RFC 9111 4.2.4, 5.2.2.2.
#[test]
fn what_must_be_confirmed_is_not_served_when_it_cannot_be() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        store(&route, &mut origin, STRICT).await;
        let client = get(&route, "/").await;
        origin.next_call().await.respond(fault(504));
        assert_eq!(done(client).await.err().unwrap().status, 504);
    });
}

/// A failed answer leaves what is stored as it is.
#[test]
fn what_is_stored_survives_a_response_that_is_cut_off() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        store(&route, &mut origin, ASK).await;
        let client = get(&route, "/").await;
        let (writer, content) = shared_body(1 << 20, Some(100));
        origin.next_call().await.respond(growing_response(&[KEPT], &content));
        drop(writer);
        assert!(done(client).await.unwrap().text().await.is_err());
        let client = get(&route, "/").await;
        let call = origin.next_call().await;
        assert_eq!(call.field("if-none-match"), Some(OLD));
        call.respond(response_with(304, &[("etag", OLD), KEPT], ""));
        assert_eq!(text(client).await, "content");
    });
}

/// RFC 9111 4, 5.2.2.4: what is to be confirmed each time is confirmed for each, all at once, and
/// costs the origin no more than a 304.
#[test]
fn followers_revalidate_for_themselves_what_must_be_revalidated() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        store(&route, &mut origin, ASK).await;
        let clients = [get(&route, "/").await, get(&route, "/").await, get(&route, "/").await];
        let confirm = |call: crate::site::Call| {
            assert_eq!(call.field("if-none-match"), Some(OLD));
            call.respond(response_with(304, &[("etag", OLD), ASK], ""));
        };
        confirm(origin.next_call().await);
        let calls = [origin.next_call().await, origin.next_call().await];
        calls.into_iter().for_each(confirm);
        for client in clients {
            assert_eq!(text(client).await, "content");
        }
        assert!(origin.is_idle());
    });
}

/// 403 and 429 may be about the one client that wants it revalidated; 404 and 410 are not.
#[test]
fn an_error_of_one_request_does_not_replace_what_is_stored() {
    block_on_local(async {
        for (status, stays) in [(403, true), (429, true), (404, false), (410, false)] {
            let (site, mut origin) = Site::plain();
            let route = site.worker(0);
            store(&route, &mut origin, KEPT).await;
            let client = get_with(&route, "/", &[("cache-control", "no-cache")]).await;
            origin.next_call().await.respond(response_with(status, &[], "sorry"));
            assert_eq!(text(client).await, "sorry");
            let next = get(&route, "/").await;
            if !stays {
                origin.next_call().await.respond(response_with(200, &[KEPT], "newer"));
            }
            assert_eq!(text(next).await, if stays { "content" } else { "newer" }, "{status}");
            assert!(origin.is_idle());
        }
    });
}
