//! Variants of one URL, through the whole filter (RFC 9111 4.1).

use net::worker::block_on_local;
use settings::node;

use wire::Method;

use super::site::{Site, begin, done, get_with, request, response_with, text};

const KEPT: (&str, &str) = ("cache-control", "max-age=600");

#[test]
fn s4_1_a_variant_by_language_is_in_the_language_that_the_origin_was_requested_for() {
    block_on_local(async {
        let (site, mut origin) =
            Site::new(|| node!({ "store": "pages", "languages": ["en", "de"] }));
        let route = site.worker(0);
        let requesting =
            async |language| get_with(&route, "/", &[("accept-language", language)]).await;
        let client = requesting("fr, de-AT;q=0.5").await;
        let call = origin.next_call().await;
        assert_eq!(call.field("accept-language"), Some("de"));
        call.respond(response_with(200, &[KEPT, ("vary", "accept-language")], "hallo"));
        assert_eq!(text(client).await, "hallo");
        assert_eq!(text(requesting("de").await).await, "hallo");
        assert!(origin.is_idle());
        let english = requesting("fr").await;
        let call = origin.next_call().await;
        assert_eq!(call.field("accept-language"), Some("en"));
        call.respond(response_with(200, &[KEPT, ("vary", "accept-language")], "hello"));
        assert_eq!(text(english).await, "hello");
    });
}

#[test]
fn s4_1_a_response_that_forgets_vary_is_for_the_variant_that_was_requested() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let requesting = async |word| get_with(&route, "/", &[("x-word", word)]).await;
        let first = requesting("a").await;
        origin.next_call().await.respond(response_with(200, &[KEPT, ("vary", "x-word")], "for a"));
        assert_eq!(text(first).await, "for a");
        let second = requesting("b").await;
        origin.next_call().await.respond(response_with(200, &[KEPT], "for b"));
        assert_eq!(text(second).await, "for b");
        for (word, content) in [("a", "for a"), ("b", "for b")] {
            assert_eq!(text(requesting(word).await).await, content);
        }
        let third = requesting("c").await;
        origin.next_call().await.respond(response_with(200, &[KEPT], "for c"));
        assert_eq!(text(third).await, "for c");
        assert!(origin.is_idle());
    });
}

#[test]
fn s4_1_what_has_varied_once_does_not_vary_for_ever() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        let requesting = async |word| get_with(&route, "/", &[("x-word", word)]).await;
        let first = requesting("a").await;
        let stale = ("cache-control", "max-age=1, stale-while-revalidate=600");
        let varies = ("vary", "x-word");
        origin.next_call().await.respond(response_with(
            200,
            &[stale, varies, ("age", "1")],
            "for a",
        ));
        assert_eq!(text(first).await, "for a");
        // Nothing that is fresh varies any more.
        let second = requesting("b").await;
        origin.next_call().await.respond(response_with(200, &[KEPT], "for all"));
        assert_eq!(text(second).await, "for all");
        assert_eq!(text(requesting("c").await).await, "for all");
        assert!(origin.is_idle());
    });
}

/// Another coding is made here under a tag of ours: with that a client may change what it has.
#[test]
fn rfc9110_s13_1_1_a_change_of_what_was_coded_here_reaches_the_origin() {
    block_on_local(async {
        let (site, mut origin) = Site::plain();
        let route = site.worker(0);
        for method in [Method::Put, Method::Get] {
            let fields = [("if-match", "\"v1-gzip\"")];
            let client = begin(&route, request(method, "/", &fields)).await;
            let call = origin.next_call().await;
            let tags: Vec<&[u8]> = call.headers.get_all("if-match").collect();
            assert_eq!(tags, [&b"\"v1-gzip\""[..], b"\"v1\""]);
            call.respond(response_with(204, &[], ""));
            assert_eq!(done(client).await.unwrap().status, 204);
        }
    });
}
