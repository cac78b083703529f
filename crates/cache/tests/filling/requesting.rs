//! Requests that the cache sends to the origin, and responses to clients whose request differed.

use bytes::Bytes;
use message::{Frame, shared_body};
use net::worker::block_on_local;
use wire::Method;

use crate::site::{
    Site, begin, done, get, get_with, growing_response, request, response_with, text,
};

const KEPT: (&str, &str) = ("cache-control", "max-age=60");

#[test]
fn a_head_that_finds_nothing_brings_the_whole() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let client = begin(&route, request(Method::Head, "/", &[])).await;
        let call = origin.next_call().await;
        assert_eq!(call.method, Method::Get);
        call.respond(response_with(200, &[KEPT, ("etag", "\"1\"")], "content"));
        let got = done(client).await.unwrap();
        assert_eq!((got.status, got.field("etag"), got.body.length()), (200, "\"1\"", Some(7)));
        drop(got);
        while site.cache().store().stats().objects == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(text(get(&route, "/").await).await, "content");
        assert!(origin.is_idle());
    });
}

#[test]
fn a_part_is_taken_of_the_whole_while_that_comes() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let client = get_with(&route, "/", &[("range", "bytes=2-4")]).await;
        let call = origin.next_call().await;
        assert_eq!(call.field("range"), None);
        let (mut writer, content) = shared_body(1 << 20, Some(7));
        call.respond(growing_response(&[KEPT], &content));
        let got = done(client).await.unwrap();
        assert_eq!((got.status, got.field("content-range")), (206, "bytes 2-4/7"));
        writer.push(Bytes::from_static(b"content")).unwrap();
        writer.finish(None);
        assert_eq!(got.text().await.unwrap(), "nte");
        assert_eq!(text(get(&route, "/").await).await, "content");
        assert!(origin.is_idle());
    });
}

#[test]
fn a_client_that_has_it_already_is_notified_while_it_comes() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let client = get_with(&route, "/", &[("if-none-match", "\"1\"")]).await;
        let call = origin.next_call().await;
        assert_eq!(call.field("if-none-match"), None);
        call.respond(response_with(200, &[KEPT, ("etag", "\"1\"")], "content"));
        assert_eq!(done(client).await.unwrap().status, 304);
        assert_eq!(text(get(&route, "/").await).await, "content");
    });
}

/// RFC 9111 5.2.1.7.
#[test]
fn only_if_cached_gets_504_without_a_stored_response() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let requesting =
            async || get_with(&route, "/", &[("cache-control", "only-if-cached")]).await;
        assert_eq!(done(requesting().await).await.err().unwrap().status, 504);
        let client = get(&route, "/").await;
        origin.next_call().await.respond(response_with(200, &[KEPT], "content"));
        text(client).await;
        assert_eq!(text(requesting().await).await, "content");
    });
}

/// The cache requests gzip whatever clients accept: other clients get the content decoded, stored
/// or not, under another entity tag.
#[test]
fn no_client_gets_a_coding_that_it_does_not_accept() {
    let long = "a line that is repeated\n".repeat(20_000);
    let coded = coding::encode_all(coding::Coding::Gzip, 1, long.as_bytes()).unwrap();
    block_on_local(async {
        for declared in [KEPT, ("cache-control", "no-store")] {
            let (site, mut origin) = Site::plain();
            let route = site.worker(0);
            let plain = get(&route, "/").await;
            // A follower of a response for one client alone is forwarded with its own range.
            let takes = match declared == KEPT {
                true => Some(get_with(&route, "/", &[("accept-encoding", "gzip")]).await),
                false => None,
            };
            let piece_by_piece = coded.clone();
            let answering = tokio::task::spawn_local(async move {
                let call = origin.next_call().await;
                assert_eq!(call.field("accept-encoding"), Some("gzip"));
                let length = Some(piece_by_piece.len() as u64);
                let (mut writer, content) = shared_body(1 << 20, length);
                let fields = [declared, ("content-encoding", "gzip"), ("etag", "\"1\"")];
                call.respond(growing_response(&fields, &content));
                for piece in piece_by_piece.chunks(1000) {
                    writer.push(Bytes::copy_from_slice(piece)).unwrap();
                }
                writer.finish(None);
            });
            for client in takes.into_iter().chain([plain]) {
                let mut got = done(client).await.unwrap();
                let is_coded = got.field("content-encoding") == "gzip";
                assert_eq!(got.field("etag"), if is_coded { "\"1\"" } else { "\"1-identity\"" });
                let mut body = Vec::new();
                while let Some(frame) = got.body.frame().await {
                    if let Frame::Data(data) = frame.unwrap() {
                        body.extend_from_slice(&data);
                    }
                }
                match is_coded {
                    true => assert_eq!(body, coded),
                    false => assert!(body == long.as_bytes()),
                }
            }
            answering.await.unwrap();
        }
    });
}

/// No-Vary-Search: URLs that the origin declares equal share a stored response.
#[test]
fn parameters_that_do_not_matter_share_what_is_stored() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let client = get(&route, "/a?id=1&utm=x").await;
        let declared = [KEPT, ("no-vary-search", "params=(\"utm\")")];
        origin.next_call().await.respond(response_with(200, &declared, "one"));
        assert_eq!(text(client).await, "one");
        assert_eq!(text(get(&route, "/a?id=1&utm=y").await).await, "one");
        assert_eq!(text(get(&route, "/a?id=1").await).await, "one");
        assert!(origin.is_idle());
        let client = get(&route, "/a?id=2&utm=x").await;
        let call = origin.next_call().await;
        // The target has the form of the key: parameters that do not count are not sent.
        assert_eq!(call.target, "/a?id=2");
        call.respond(response_with(200, &declared, "two"));
        assert_eq!(text(client).await, "two");
    });
}

/// The access log of a route with a cache still names the server that responded and how the cache
/// handled the request.
#[test]
fn the_log_says_what_the_cache_did() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let (leader, waiter) = (get(&route, "/").await, get(&route, "/").await);
        origin.next_call().await.respond(response_with(200, &[KEPT], "content"));
        let declared = |got: &crate::site::Got| (got.notes.cache, got.notes.upstream.clone());
        let leader = done(leader).await.unwrap();
        assert_eq!(declared(&leader), (Some("miss"), Some("the origin".into())));
        assert_eq!(declared(&done(waiter).await.unwrap()), (Some("coalesced"), None));
        assert_eq!(leader.text().await.unwrap(), "content");
        assert_eq!(declared(&done(get(&route, "/").await).await.unwrap()), (Some("hit"), None));
    });
}
