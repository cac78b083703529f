//! Content codings through the whole filter: transcoded once, served to clients that prefer them,
//! removed with the response they were made from.

use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::time::Duration;

use coding::{Coding, Decode, decode_all, encode_all};
use message::Frame;
use net::worker::block_on_local;
use plugin::Route;
use settings::node;

use super::site::{Got, Origin, Site, bytes_response, done, get_with, response_with, text};

const TIMEOUT: Duration = Duration::from_secs(60);
const KEPT: (&str, &str) = ("cache-control", "max-age=600");
const TYPE: (&str, &str) = ("content-type", "text/plain");
const TAG: (&str, &str) = ("etag", "\"a\"");

/// Text that compresses well.
fn content(length: usize) -> Vec<u8> {
    const WORDS: &[u8] = b"some words, and other words, again and again, now and then and always ";
    let (mut dice, mut text) = (1_u32, Vec::new());
    while text.len() < length {
        dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let at = (dice >> 26) as usize;
        text.extend_from_slice(&WORDS[at..(at + 3 + (dice >> 8) as usize % 9).min(WORDS.len())]);
    }
    text.truncate(length);
    text
}

/// A site that has stored a response with these fields and this body.
async fn stored(fields: &[(&str, &str)], body: Vec<u8>) -> (Site, Origin, Rc<Route>) {
    let (site, mut origin) = Site::plain();
    let route = site.worker(0);
    fill(&site, &mut origin, &route, fields, body).await;
    (site, origin, route)
}

async fn fill(
    site: &Site,
    origin: &mut Origin,
    route: &Rc<Route>,
    fields: &[(&str, &str)],
    body: Vec<u8>,
) {
    let before = site.cache().store().stats().inserted;
    let client = get_with(route, "/", &[("accept-encoding", "gzip")]).await;
    origin.next_call().await.respond(bytes_response(fields, body));
    done(client).await.unwrap().body.collect(1 << 30).await.unwrap();
    until(|| site.cache().store().stats().inserted > before).await;
}

async fn until(is: impl Fn() -> bool) {
    let wait = async {
        while !is() {
            tokio::task::yield_now().await;
        }
    };
    net::timer::within(TIMEOUT, wait).await.expect("it does not happen");
}

/// Repeats a request until the response has the wanted coding, because a transcode may be queued.
async fn encoded(route: &Rc<Route>, accept: &str, wanted: &str) -> Got {
    let requesting = async {
        loop {
            let got = done(get_with(route, "/", &[("accept-encoding", accept)]).await).await;
            let got = got.unwrap();
            if got.field("content-encoding") == wanted && !got.field("etag").is_empty() {
                return got;
            }
        }
    };
    net::timer::within(TIMEOUT, requesting).await.expect("it is never in that coding")
}

/// The decoded content of a response.
async fn plain(mut got: Got) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Some(frame) = got.body.frame().await {
        match frame.unwrap() {
            Frame::Data(data) => bytes.extend_from_slice(&data),
            Frame::File(range) => {
                let begin = bytes.len();
                bytes.resize(begin + range.length as usize, 0);
                range.file.read_exact_at(&mut bytes[begin..], range.offset).unwrap();
            }
            Frame::Trailers(_) => {}
        }
    }
    let allowed = Decode { output_bytes: 1 << 30, ratio: 1 << 20 };
    match got.headers.get_str("content-encoding").and_then(Coding::parse) {
        Some(coding) => decode_all(coding, &bytes, allowed).unwrap(),
        None => bytes,
    }
}

fn derived(site: &Site, coding: &str) -> u64 {
    site.counted("tidegate_cache_derived_bytes_total", Some(coding))
}

#[test]
fn each_client_has_the_coding_that_it_prefers_of_what_came_in_whatever_coding() {
    block_on_local(async {
        let whole = content(100_000);
        let gzip = encode_all(Coding::Gzip, 6, &whole).unwrap();
        let coded = [KEPT, TYPE, TAG, ("content-encoding", "gzip")];
        for (fields, body) in [(&coded[..], gzip), (&coded[..3], whole.clone())] {
            let (_site, mut origin, route) = stored(fields, body).await;
            for coding in Coding::ALL {
                let got = encoded(&route, coding.token(), coding.token()).await;
                assert_eq!(got.field("vary"), "Accept-Encoding");
                assert!(got.body.length().is_some());
                assert!(plain(got).await == whole);
            }
            let got = encoded(&route, "identity", "").await;
            assert!(plain(got).await == whole);
            assert!(origin.is_idle());
        }
    });
}

#[test]
fn a_coding_is_made_once_however_many_requests_need_it() {
    block_on_local(async {
        let whole = content(200_000);
        let (site, mut origin, route) = stored(&[KEPT, TYPE, TAG], whole.clone()).await;
        let other = site.worker(1);
        let mut clients = Vec::new();
        for turn in 0..100 {
            let route = if turn % 2 == 0 { &route } else { &other };
            clients.push(get_with(route, "/", &[("accept-encoding", "br")]).await);
        }
        for client in clients {
            assert!(plain(done(client).await.unwrap()).await == whole);
        }
        let br = encoded(&route, "br", "br").await;
        assert_eq!(br.field("etag"), "\"a-br\"");
        assert_eq!(derived(&site, "br"), br.body.length().unwrap());
        assert!(origin.is_idle());
    });
}

#[test]
fn what_is_not_to_be_transformed_or_of_another_type_stays_as_it_is() {
    block_on_local(async {
        let forbidden = [("cache-control", "max-age=600, no-transform"), TYPE, TAG];
        let image = [KEPT, ("content-type", "image/png"), TAG];
        let unknown = [KEPT, TYPE, TAG, ("content-encoding", "deflate")];
        for fields in [&forbidden[..], &image, &unknown] {
            let (site, mut origin, route) = stored(fields, content(50_000)).await;
            for _ in 0..3 {
                let requesting = get_with(&route, "/", &[("accept-encoding", "br, gzip")]).await;
                let got = done(requesting).await.unwrap();
                assert_eq!(got.field("etag"), "\"a\"");
                assert_eq!(got.body.length(), Some(50_000));
            }
            assert_eq!(site.cache().store().stats().objects, 1);
            assert!(origin.is_idle());
        }
    });
}

/// Two lines are one list (RFC 9110 5.3).
#[test]
fn what_has_several_encodings_stays_as_it_is() {
    block_on_local(async {
        let once = encode_all(Coding::Gzip, 6, &content(10_000)).unwrap();
        let twice = encode_all(Coding::Gzip, 6, &once).unwrap();
        let gzip = ("content-encoding", "gzip");
        let length = twice.len() as u64;
        let (_site, _origin, route) = stored(&[KEPT, TYPE, TAG, gzip, gzip], twice).await;
        for accept in ["gzip", "identity"] {
            let requesting = get_with(&route, "/", &[("accept-encoding", accept)]).await;
            let got = done(requesting).await.unwrap();
            assert_eq!(got.headers.get_all("content-encoding").count(), 2);
            assert_eq!(got.body.length(), Some(length));
        }
    });
}

/// Servers name an encoding also where a response has no content.
#[test]
fn no_content_is_none_in_any_encoding() {
    block_on_local(async {
        for cached in [KEPT, ("cache-control", "no-store")] {
            let (site, mut origin) = Site::plain();
            let route = site.worker(0);
            let requesting = async || get_with(&route, "/", &[("accept-encoding", "br")]).await;
            let client = requesting().await;
            let fields = [cached, ("location", "/b"), ("content-encoding", "gzip")];
            origin.next_call().await.respond(response_with(301, &fields, ""));
            assert_eq!(text(client).await, "");
            if cached == KEPT {
                until(|| site.cache().store().stats().objects > 0).await;
                assert_eq!(text(requesting().await).await, "");
                assert!(origin.is_idle());
            }
        }
    });
}

/// RFC 9111 5.2.1.6.
#[test]
fn a_client_that_wants_no_transformation_gets_what_the_origin_sent() {
    block_on_local(async {
        let gzip = encode_all(Coding::Gzip, 6, &content(50_000)).unwrap();
        let fields = [KEPT, TYPE, TAG, ("content-encoding", "gzip")];
        let (_site, _origin, route) = stored(&fields, gzip).await;
        encoded(&route, "br", "br").await;
        // One that does not accept that gets it in another encoding all the same.
        for (accept, coding) in [("br, gzip", "gzip"), ("br", "br")] {
            let fields = [("accept-encoding", accept), ("cache-control", "no-transform")];
            let got = done(get_with(&route, "/", &fields).await).await.unwrap();
            assert_eq!(got.field("content-encoding"), coding);
        }
    });
}

#[test]
fn what_gets_no_shorter_is_tried_once() {
    block_on_local(async {
        let dense = encode_all(Coding::Br, 9, &content(200_000)).unwrap();
        let (site, _origin, route) = stored(&[KEPT, TYPE, TAG], dense.clone()).await;
        let object = site.cache().store().list(None, 10, |_| true).objects.pop().unwrap();
        // The bit of gzip.
        let requesting = async || get_with(&route, "/", &[("accept-encoding", "gzip")]).await;
        let tried = async {
            while !object.state.was_tried(0) {
                assert!(plain(done(requesting().await).await.unwrap()).await == dense);
            }
        };
        net::timer::within(TIMEOUT, tried).await.expect("it is never tried");
        assert!(plain(done(requesting().await).await.unwrap()).await == dense);
        assert_eq!((site.cache().store().stats().objects, derived(&site, "gzip")), (1, 0));
    });
}

#[test]
fn a_bomb_is_not_kept_unpacked() {
    block_on_local(async {
        let bomb = encode_all(Coding::Gzip, 9, &vec![0; 32 << 20]).unwrap();
        let fields = [KEPT, TYPE, TAG, ("content-encoding", "gzip")];
        let (site, _origin, route) = stored(&fields, bomb).await;
        let object = site.cache().store().list(None, 10, |_| true).objects.pop().unwrap();
        let tried = async {
            while !object.state.was_tried(3) {
                // A client that accepts no coding gets the content decoded while it is read.
                let requesting = get_with(&route, "/", &[("accept-encoding", "identity")]).await;
                drop(done(requesting).await.unwrap());
            }
        };
        net::timer::within(TIMEOUT, tried).await.expect("it is never tried");
        assert_eq!(site.cache().store().stats().objects, 1);
    });
}

#[test]
fn after_a_304_a_coding_stays_with_the_fields_of_now() {
    block_on_local(async {
        let (site, mut origin, route) =
            stored(&[KEPT, TYPE, TAG, ("x-turn", "one")], content(80_000)).await;
        let first = encoded(&route, "br", "br").await;
        assert_eq!(first.field("x-turn"), "one");
        let made = derived(&site, "br");
        let again = [("accept-encoding", "br"), ("cache-control", "no-cache")];
        let client = get_with(&route, "/", &again).await;
        let call = origin.next_call().await;
        assert_eq!(call.field("if-none-match"), Some("\"a\""), "the origin's own tag");
        call.respond(response_with(304, &[KEPT, TAG, ("x-turn", "two")], ""));
        let got = done(client).await.unwrap();
        assert_eq!((got.status, got.field("content-encoding")), (200, "br"));
        let got = encoded(&route, "br", "br").await;
        assert_eq!((got.field("x-turn"), got.field("etag")), ("two", "\"a-br\""));
        assert!(plain(got).await == content(80_000));
        assert_eq!(derived(&site, "br"), made, "it is not made again");
    });
}

#[test]
fn a_newer_response_takes_the_codings_of_the_older_one_along() {
    block_on_local(async {
        let (site, mut origin, route) = stored(&[KEPT, TYPE, TAG], content(80_000)).await;
        encoded(&route, "br", "br").await;
        let before = site.cache().store().stats().inserted;
        let again = [("accept-encoding", "gzip"), ("cache-control", "no-cache")];
        let client = get_with(&route, "/", &again).await;
        let newer = content(90_000);
        let fields = [KEPT, TYPE, ("etag", "\"b\"")];
        origin.next_call().await.respond(bytes_response(&fields, newer.clone()));
        done(client).await.unwrap().body.collect(1 << 30).await.unwrap();
        until(|| site.cache().store().stats().inserted > before).await;
        let got = encoded(&route, "br", "br").await;
        assert_eq!(got.field("etag"), "\"b-br\"");
        assert!(plain(got).await == newer);
    });
}

#[test]
fn a_client_learns_that_what_it_has_is_good_by_either_tag() {
    block_on_local(async {
        let (_site, _origin, route) = stored(&[KEPT, TYPE, TAG], content(80_000)).await;
        encoded(&route, "br", "br").await;
        for tag in ["\"a-br\"", "\"a\""] {
            let fields = [("accept-encoding", "br"), ("if-none-match", tag)];
            let got = done(get_with(&route, "/", &fields).await).await.unwrap();
            assert_eq!((got.status, got.field("etag")), (304, tag));
        }
        let fields = [("accept-encoding", "br"), ("if-none-match", "\"a-gzip\"")];
        let got = done(get_with(&route, "/", &fields).await).await.unwrap();
        assert_eq!(got.status, 200, "other bytes");
        // A range is one of the coding that the client would get for the whole.
        let fields = [("accept-encoding", "br"), ("range", "bytes=0-9"), ("if-range", "\"a-br\"")];
        let part = done(get_with(&route, "/", &fields).await).await.unwrap();
        let whole = encoded(&route, "br", "br").await;
        let length = whole.body.length().unwrap();
        assert_eq!(part.status, 206);
        assert_eq!(part.field("content-range"), format!("bytes 0-9/{length}"));
    });
}

#[test]
fn what_is_requested_again_and_again_is_made_again_at_its_best() {
    block_on_local(async {
        let (site, mut origin) = Site::new(|| {
            node!({ "store": "pages", "codings": {
                "best_after": 5, "levels": { "gzip": 1 }, "best_levels": { "gzip": 9 }
            } })
        });
        let route = site.worker(0);
        fill(&site, &mut origin, &route, &[KEPT, TYPE, TAG], content(200_000)).await;
        let first = encoded(&route, "gzip", "gzip").await.body.length().unwrap();
        let better = async {
            loop {
                let got = encoded(&route, "gzip", "gzip").await;
                if got.body.length().unwrap() < first {
                    return got;
                }
                tokio::task::yield_now().await;
            }
        };
        let got = net::timer::within(TIMEOUT, better).await.expect("it gets no better");
        assert!(plain(got).await == content(200_000));
        assert_eq!(site.cache().store().stats().objects, 2);
    });
}

#[test]
fn what_is_long_is_given_as_it_is_until_its_coding_is_there() {
    block_on_local(async {
        let whole = content(3 << 20);
        let (_site, _origin, route) = stored(&[KEPT, TYPE, TAG], whole.clone()).await;
        let requesting = get_with(&route, "/", &[("accept-encoding", "zstd")]).await;
        let got = done(requesting).await.unwrap();
        assert!(plain(got).await == whole);
        let got = encoded(&route, "zstd", "zstd").await;
        assert!(plain(got).await == whole);
    });
}
