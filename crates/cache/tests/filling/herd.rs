//! Many clients request the same URL, which is not stored, and the origin gets one request.

use std::sync::mpsc;

use bytes::Bytes;
use message::shared_body;
use net::worker::block_on_local;
use settings::node;

use crate::site::{Site, done, get, get_with, growing_response, response_with, text};

const KEPT: (&str, &str) = ("cache-control", "max-age=60");

#[test]
fn a_thousand_clients_make_one_request() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let mut clients = Vec::new();
        for _ in 0..1000 {
            clients.push(get(&route, "/").await);
        }
        origin.next_call().await.respond(response_with(200, &[KEPT], "for all"));
        for client in clients {
            assert_eq!(text(client).await, "for all");
        }
        assert!(origin.is_idle());
        assert_eq!(site.counted("tidegate_cache_coalesced_total", None), 999);
        let hit = done(get(&route, "/").await).await.unwrap();
        assert!(hit.field("cache-status").starts_with("tidegate; hit; ttl="));
        assert!(origin.is_idle());
    });
}

/// Two workers request the same URL; both read the response while it arrives, one from its
/// beginning after a part has arrived.
#[test]
fn workers_share_a_fetch_and_each_reads_at_its_own_pace() {
    let (site, origin) = Site::plain();
    let (sender, receiver) = mpsc::channel();
    let (go, mut may_go) = tokio::sync::mpsc::unbounded_channel();
    let other = site.clone();
    let worker = net::worker::spawn("other".to_owned(), None, move || async move {
        let route = other.worker(1);
        may_go.recv().await.unwrap();
        let client = get(&route, "/").await;
        sender.send("asks").unwrap();
        let mut got = done(client).await.unwrap();
        assert_eq!(got.piece().await, "first ");
        sender.send("has the first").unwrap();
        assert_eq!(got.text().await.unwrap(), "last");
    })
    .unwrap();
    block_on_local(async move {
        let mut origin = origin;
        let route = site.worker(0);
        let leader = get(&route, "/").await;
        let (mut writer, content) = shared_body(1 << 20, None);
        let call = origin.next_call().await;
        go.send(()).unwrap();
        assert_eq!(receiver.recv().unwrap(), "asks");
        call.respond(growing_response(&[KEPT], &content));
        writer.push(Bytes::from_static(b"first ")).unwrap();
        let mut got = done(leader).await.unwrap();
        assert_eq!(got.piece().await, "first ");
        // The fetch runs on this worker: its event loop must run.
        while receiver.try_recv().is_err() {
            tokio::task::yield_now().await;
        }
        writer.push(Bytes::from_static(b"last")).unwrap();
        writer.finish(None);
        assert_eq!(got.text().await.unwrap(), "last");
        worker.join().unwrap();
        assert!(origin.is_idle());
        assert_eq!(text(get(&route, "/").await).await, "first last");
    });
}

#[test]
fn followers_do_not_notice_that_the_first_client_leaves() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let leader = get(&route, "/").await;
        let follower = get(&route, "/").await;
        let call = origin.next_call().await;
        leader.abort();
        assert!(leader.await.unwrap_err().is_cancelled());
        call.respond(response_with(200, &[KEPT], "for the others"));
        assert_eq!(text(follower).await, "for the others");
        assert!(origin.is_idle());
    });
}

#[test]
fn a_fetch_continues_for_a_while_when_all_clients_have_left_and_is_stored() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let leader = get(&route, "/").await;
        let call = origin.next_call().await;
        leader.abort();
        assert!(leader.await.unwrap_err().is_cancelled());
        call.respond(response_with(200, &[KEPT], "for later"));
        while site.cache().store().stats().objects == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(text(get(&route, "/").await).await, "for later");
        assert!(origin.is_idle());
    });
}

#[test]
fn a_fetch_without_followers_for_longer_is_given_up() {
    block_on_local(async {
        let (site, mut origin) =
            Site::new(|| node!({ "store": "pages", "fetch": { "outlive": "0s" } }));
        let route = site.worker(0);
        let leader = get(&route, "/").await;
        let mut call = origin.next_call().await;
        leader.abort();
        call.given_up().await;
        // A response whose content has begun is shared too.
        let reader = get(&route, "/").await;
        let (writer, content) = shared_body(1 << 20, None);
        origin.next_call().await.respond(growing_response(&[KEPT], &content));
        let got = done(reader).await.unwrap();
        drop((got, content));
        while !writer.is_abandoned() {
            net::timer::sleep(std::time::Duration::from_millis(1)).await;
        }
    });
}

/// RFC 9111 4.1: the response is for requests that select the same variant.
#[test]
fn a_request_for_another_variant_fetches_it() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let requesting =
            async |language| get_with(&route, "/", &[("accept-language", language)]).await;
        let (english, german) = (requesting("en").await, requesting("de").await);
        let (also_english, also_german) = (requesting("en").await, requesting("de").await);
        let varies = [KEPT, ("vary", "accept-language")];
        origin.next_call().await.respond(response_with(200, &varies, "hello"));
        assert_eq!(
            (text(english).await, text(also_english).await),
            ("hello".into(), "hello".into())
        );
        let call = origin.next_call().await;
        assert_eq!(call.field("accept-language"), Some("de"));
        call.respond(response_with(200, &varies, "hallo"));
        assert_eq!((text(german).await, text(also_german).await), ("hallo".into(), "hallo".into()));
        assert!(origin.is_idle());
        assert_eq!(text(requesting("de").await).await, "hallo");
        assert_eq!(text(requesting("en").await).await, "hello");
        assert!(origin.is_idle());
    });
}

/// A response requested before a purge is not for later requests.
#[test]
fn a_purge_separates_earlier_requests_from_later_ones() {
    use cache::store::Purge;
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let before = get(&route, "/").await;
        let old = origin.next_call().await;
        site.cache().store().purge(&Purge::Url(b"http://a/"), false);
        let after = get(&route, "/").await;
        let new = origin.next_call().await;
        new.respond(response_with(200, &[KEPT], "new"));
        assert_eq!(text(after).await, "new");
        old.respond(response_with(200, &[KEPT], "old"));
        assert_eq!(text(before).await, "old");
        assert_eq!(text(get(&route, "/").await).await, "new");
        assert!(origin.is_idle());
    });
}

/// The bytes that a fetch reads after all followers have left; a nearly complete fetch is finished.
#[test]
fn a_fetch_without_followers_reads_a_bounded_amount() {
    block_on_local(async {
        for (length, finished) in [(1 << 20, false), (1000, true)] {
            let (site, mut origin) =
                Site::new(|| node!({ "store": "pages", "fetch": { "outlive_size": "0B" } }));
            let route = site.worker(0);
            let client = get(&route, "/").await;
            let (mut writer, content) = shared_body(1 << 30, Some(length));
            origin.next_call().await.respond(growing_response(&[KEPT], &content));
            drop((done(client).await.unwrap(), content));
            writer.push(Bytes::from_static(b"some")).unwrap();
            if finished {
                tokio::task::yield_now().await;
                writer.push(vec![b'x'; length as usize - 4].into()).unwrap();
                writer.finish(None);
                while site.cache().store().stats().objects == 0 {
                    tokio::task::yield_now().await;
                }
                assert_eq!(text(get(&route, "/").await).await.len() as u64, length);
            } else {
                while !writer.is_abandoned() {
                    tokio::task::yield_now().await;
                }
                assert_eq!(site.cache().store().stats().objects, 0);
            }
        }
    });
}
