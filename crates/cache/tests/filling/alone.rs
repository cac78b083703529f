//! Responses that only one client may get: no request waits for such a response twice.

use message::shared_body;
use net::worker::block_on_local;
use settings::node;
use wire::Method;

use crate::site::{
    Site, begin, done, fault, get, get_with, growing_response, refusal, request, response_with,
    text,
};

const KEPT: (&str, &str) = ("cache-control", "max-age=60");
const PRIVATE: (&str, &str) = ("cache-control", "private");

#[test]
fn followers_of_an_uncacheable_response_fetch_for_themselves_concurrently() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let mut clients = Vec::new();
        for _ in 0..4 {
            clients.push(get(&route, "/").await);
        }
        origin.next_call().await.respond(response_with(200, &[PRIVATE], "the first one's"));
        // All three requests reach the origin before any gets a response.
        let calls = [origin.next_call().await, origin.next_call().await, origin.next_call().await];
        for call in calls {
            call.respond(response_with(200, &[PRIVATE], "another one's"));
        }
        let mut texts = Vec::new();
        for client in clients {
            texts.push(text(client).await);
        }
        assert_eq!(texts[0], "the first one's");
        assert!(texts[1..].iter().all(|text| text == "another one's"));
        // The cache remembers it: the next requests do not wait for each other.
        let (one, two) = (get(&route, "/").await, get(&route, "/").await);
        let calls = [origin.next_call().await, origin.next_call().await];
        for call in calls {
            call.respond(response_with(200, &[PRIVATE], "his"));
        }
        let got = done(one).await.unwrap();
        assert_eq!(got.field("cache-status"), "tidegate; fwd=miss; detail=private");
        assert_eq!(text(two).await, "his");
    });
}

#[test]
fn the_first_response_that_may_be_stored_ends_that() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let client = get(&route, "/").await;
        origin.next_call().await.respond(response_with(200, &[PRIVATE], "his"));
        text(client).await;
        let (one, two) = (get(&route, "/").await, get(&route, "/").await);
        let (first, second) = (origin.next_call().await, origin.next_call().await);
        first.respond(response_with(200, &[KEPT], "for all"));
        second.respond(response_with(200, &[KEPT], "for all, again"));
        assert_eq!(text(one).await, "for all");
        assert_eq!(text(two).await, "for all, again");
        text(get(&route, "/").await).await;
        assert!(origin.is_idle());
    });
}

#[test]
fn a_fault_is_shared_by_its_followers_and_not_stored() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let mut clients = Vec::new();
        for _ in 0..10 {
            clients.push(get(&route, "/").await);
        }
        origin.next_call().await.respond(fault(502));
        for client in clients {
            let fault = done(client).await.err().unwrap();
            assert_eq!((fault.status, fault.slug()), (502, "connection_refused"));
        }
        assert!(origin.is_idle());
        let client = get(&route, "/").await;
        origin.next_call().await.respond(response_with(200, &[KEPT], "well again"));
        assert_eq!(text(client).await, "well again");
    });
}

/// A filter after the cache may allow one client and reject another.
#[test]
fn what_one_client_is_refused_is_not_a_response_for_another() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let (one, two) = (get(&route, "/").await, get(&route, "/").await);
        origin.next_call().await.respond(refusal(403));
        origin.next_call().await.respond(response_with(200, &[KEPT], "his"));
        assert_eq!(done(one).await.err().unwrap().status, 403);
        assert_eq!(text(two).await, "his");
        // Nor may a stale response be served because of it.
        let declared = ("cache-control", "max-age=0, stale-if-error=1000");
        let client = get(&route, "/").await;
        origin.next_call().await.respond(response_with(200, &[declared], "stale"));
        text(client).await;
        let client = get(&route, "/").await;
        origin.next_call().await.respond(refusal(403));
        assert_eq!(done(client).await.err().unwrap().status, 403);
    });
}

/// After a server error, the next requests are coalesced again.
#[test]
fn an_error_is_not_remembered() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let client = get(&route, "/").await;
        origin.next_call().await.respond(response_with(500, &[], "sorry"));
        assert_eq!(done(client).await.unwrap().status, 500);
        let (one, two) = (get(&route, "/").await, get(&route, "/").await);
        origin.next_call().await.respond(response_with(200, &[KEPT], "for both"));
        assert_eq!((text(one).await, text(two).await), ("for both".into(), "for both".into()));
        assert!(origin.is_idle());
    });
}

#[test]
fn a_follower_that_times_out_is_forwarded() {
    block_on_local(async {
        let (site, mut origin) =
            Site::new(|| node!({ "store": "pages", "fetch": { "wait": "1ms" } }));
        let route = site.worker(0);
        let leader = get(&route, "/").await;
        let slow = origin.next_call().await;
        let waiter = get(&route, "/").await;
        origin.next_call().await.respond(response_with(200, &[KEPT], "his own"));
        let got = done(waiter).await.unwrap();
        assert_eq!(got.field("cache-status"), "tidegate; fwd=uri-miss; detail=waited");
        assert_eq!(got.text().await.unwrap(), "his own");
        slow.respond(response_with(200, &[KEPT], "for all"));
        assert_eq!(text(leader).await, "for all");
        assert_eq!(text(get(&route, "/").await).await, "for all");
    });
}

/// RFC 9111 3.5: a response to an authenticated user is not shared, and no request waits for it.
#[test]
fn authenticated_requests_do_not_wait_for_each_other() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let token = [("authorization", "Bearer a")];
        let (one, two) = (get_with(&route, "/", &token).await, get_with(&route, "/", &token).await);
        let calls = [origin.next_call().await, origin.next_call().await];
        for call in calls {
            call.respond(response_with(200, &[KEPT], "his"));
        }
        assert_eq!((text(one).await, text(two).await), ("his".into(), "his".into()));
        let anybody = get(&route, "/").await;
        origin.next_call().await.respond(response_with(200, &[KEPT], "for all"));
        assert_eq!(text(anybody).await, "for all");
    });
}

#[test]
fn what_is_not_for_the_cache_goes_by_as_it_came() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let mut fat = request(Method::Get, "/", &[("range", "bytes=0-1")]);
        fat.body = message::Body::from("a body");
        let client = begin(&route, fat).await;
        let call = origin.next_call().await;
        assert_eq!(call.field("range"), Some("bytes=0-1"));
        call.respond(response_with(206, &[KEPT, ("surrogate-key", "a")], "as it is"));
        let got = done(client).await.unwrap();
        assert_eq!(got.field("cache-status"), "tidegate; fwd=request; detail=content");
        assert_eq!((got.status, got.field("surrogate-key")), (206, ""));
        assert_eq!(site.cache().store().stats().objects, 0);
    });
}

/// An unsafe request invalidates what is stored (RFC 9111 4.4).
#[test]
fn what_an_unsafe_request_changes_is_fetched_again() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        for path in ["/a", "/b", "/c"] {
            let client = get(&route, path).await;
            origin.next_call().await.respond(response_with(200, &[KEPT], "old"));
            text(client).await;
        }
        let change = begin(&route, request(Method::Post, "/a", &[])).await;
        let location = [("location", "/b"), ("content-location", "http://elsewhere/c")];
        origin.next_call().await.respond(response_with(201, &location, ""));
        assert_eq!(done(change).await.unwrap().status, 201);
        for path in ["/a", "/b"] {
            let client = get(&route, path).await;
            origin.next_call().await.respond(response_with(200, &[KEPT], "new"));
            assert_eq!(text(client).await, "new");
        }
        assert_eq!(text(get(&route, "/c").await).await, "old");
        assert!(origin.is_idle());
    });
}

/// A response that is too long goes to one client, and other requests do not wait for its fetch.
#[test]
fn what_is_known_to_be_too_long_is_not_stored() {
    block_on_local(async {
        let (site, mut origin) = Site::new(|| node!({ "store": "pages", "max_size": "1KiB" }));
        let route = site.worker(0);
        let client = get(&route, "/").await;
        let (mut writer, content) = shared_body(1 << 20, Some(2000));
        origin.next_call().await.respond(growing_response(&[KEPT], &content));
        let got = done(client).await.unwrap();
        let status = "tidegate; fwd=uri-miss; detail=content_too_long";
        assert_eq!(got.field("cache-status"), status);
        writer.push(vec![b'x'; 2000].into()).unwrap();
        writer.finish(None);
        assert_eq!(got.text().await.unwrap().len(), 2000);
        assert_eq!(site.counted("tidegate_cache_unstored_total", Some("content_too_long")), 1);
    });
}

/// Other clients get 403; the request is never forwarded.
#[test]
fn an_allowed_client_purges_what_is_stored_under_a_url() {
    block_on_local(async {
        let purge: Method = Method::from_bytes(b"PURGE");
        let allowing = || node!({ "store": "pages", "purge": ["127.0.0.1"] });
        let others = || node!({ "store": "pages", "purge": ["10.0.0.0/8"] });
        for (settings, status) in
            [(allowing as fn() -> _, Ok(200)), (others, Err(403)), (|| node!("pages"), Err(405))]
        {
            let (site, mut origin) = Site::new(settings);
            let route = site.worker(0);
            let client = get(&route, "/").await;
            origin.next_call().await.respond(response_with(200, &[KEPT], "content"));
            text(client).await;
            let got = done(begin(&route, request(purge.clone(), "/", &[])).await).await;
            assert_eq!(got.as_ref().map(|got| got.status).map_err(|fault| fault.status), status);
            assert_eq!(site.cache().store().stats().objects, if status.is_ok() { 0 } else { 1 });
            if let Ok(got) = got {
                assert_eq!(got.text().await.unwrap(), "{\"purged\":1}\n");
            }
            assert!(origin.is_idle());
        }
    });
}
