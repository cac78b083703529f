//! Hits, in process: a stored response is served to the clients that may have it.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use coding::Coding;
use message::{Body, HandlerResult, Headers, Request, SharedHeaders, Target};
use plugin::{Local, Shared, WorkerContext};
use settings::{Node, node, read};
use telemetry::Telemetry;
use wire::{Known, Method};

use crate::filter::Classified;
use crate::key::KeyBuffer;
use crate::rules::{Flags, Meta, SearchRule, Vary};
use crate::store::Purge;
use crate::worker_filter::CacheFilter;
use crate::{Cache, CachePlan, Caches, Content, Object, ObjectKind, StoredResponse};

const CONTENT: &str = "0123456789abcdefghijklmnopqrstuvwxyz";

/// A filter on a worker of its own, and its cache.
struct Bench {
    plan: CachePlan,
    filter: CacheFilter,
    cache: Arc<Cache>,
}

impl Bench {
    fn new(settings: Node) -> Bench {
        let worker = WorkerContext {
            index: 0,
            workers: 1,
            telemetry: Arc::new(Telemetry::new()),
            shared: Arc::new(Shared::default()),
            local: Rc::new(Local::default()),
        };
        let plan = CachePlan::new(read(&settings).unwrap_or_else(|wrong| panic!("{wrong}")));
        let caches = Caches::of(&worker.shared);
        let filter = plan.filter("shop", &worker);
        let cache = caches.all().pop().unwrap();
        Bench { plan, filter, cache }
    }

    fn put(&self, request: &Request, tail: &[u8], kind: ObjectKind) -> Arc<Object> {
        let mut buffer = KeyBuffer::default();
        self.plan.key_rules("shop").write(request, &mut buffer).unwrap();
        let primary = buffer.key();
        let key = crate::Key::new([primary.text(), tail].concat(), primary.url().len());
        let object = Object { key, kind, state: Default::default() };
        let store = self.cache.store();
        store.insert(object, store.purge_epoch(), 32).unwrap_or_else(|why| panic!("{why:?}"))
    }

    fn serve(&self, request: &mut Request) -> Option<HandlerResult> {
        match self.filter.classify_request(request) {
            Classified::Hit(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Status, one field and content of a hit.
    fn hit(&self, request: &mut Request) -> message::Response {
        self.serve(request).expect("a hit").unwrap_or_else(|fault| panic!("{}", fault.slug()))
    }
}

fn bench() -> Bench {
    Bench::new(node!("pages"))
}

fn request(method: Method, target: &'static str, fields: &[(&str, &str)]) -> Request {
    let mut headers = Headers::new();
    headers.append("host", "shop.example");
    for (name, value) in fields {
        headers.append(*name, value);
    }
    let target = Target::new(Bytes::from_static(target.as_bytes())).unwrap();
    Request::made_up(method, target, headers)
}

fn get(target: &'static str, fields: &[(&str, &str)]) -> Request {
    request(Method::Get, target, fields)
}

/// A response that arrived ten seconds ago and is fresh for fifty more.
fn response(content: Content) -> StoredResponse {
    let mut head = Headers::new();
    head.append("Date", "Sun, 06 Nov 1994 08:49:37 GMT");
    head.append("Content-Type", "text/plain");
    head.append("Cache-Control", "max-age=60");
    head.append("ETag", "\"a\"");
    head.append("Last-Modified", "Sat, 05 Nov 1994 08:49:37 GMT");
    head.append("X-Own", "1");
    StoredResponse {
        version: 1,
        meta: Meta {
            status: 200,
            flags: Flags::VALIDATOR,
            received_secs: net::clock::wall_secs(),
            initial_age_s: 10,
            lifetime_s: 60,
            while_revalidate_s: 0,
            if_error_s: 0,
        },
        head: SharedHeaders::from(&head),
        hidden: None,
        content,
        coding: None,
        derived: false,
        hits: Default::default(),
        tags: Box::default(),
    }
}

fn stored() -> ObjectKind {
    ObjectKind::Response(response(Content::Memory(Bytes::from_static(CONTENT.as_bytes()))))
}

fn text(response: message::Response) -> String {
    let mut body = response.body;
    let bytes = net::worker::block_on_local(async move { body.collect(1 << 20).await.unwrap() });
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn field<'r>(response: &'r message::Response, name: &'r str) -> &'r str {
    response.headers.get_str(name).unwrap_or_default()
}

#[test]
fn what_is_stored_and_fresh_is_the_response_again_and_again() {
    let bench = bench();
    assert!(bench.serve(&mut get("/a", &[])).is_none());
    let object = bench.put(&get("/a", &[]), b"", stored());
    for _ in 0..5 {
        let hit = bench.hit(&mut get("/a", &[]));
        assert_eq!((hit.status, field(&hit, "x-own")), (200, "1"));
        let age: u64 = field(&hit, "age").parse().unwrap();
        let cache_status = field(&hit, "cache-status").to_owned();
        assert!(
            (10..20).contains(&age) && cache_status == format!("tidegate; hit; ttl={}", 60 - age)
        );
        assert_eq!(field(&hit, "date"), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(text(hit), CONTENT);
    }
    assert!(object.state.uses() > 1);
    assert!(bench.serve(&mut get("/a?", &[])).is_none());
}

/// Other workers read an object that is used often: each hit would take it from their caches.
#[test]
fn many_hits_are_added_to_the_object_in_steps() {
    let bench = bench();
    let object = bench.put(&get("/a", &[]), b"", stored());
    for hits in 1..=66 {
        bench.hit(&mut get("/a", &[]));
        assert_eq!(object.hits(), hits);
    }
    (0..100).for_each(|_| drop(bench.hit(&mut get("/a", &[]))));
    assert_eq!(object.hits(), 130, "two from the store, and 128 of 164");
    drop(bench);
    assert_eq!(object.hits(), 166);
}

/// Runs a check on an entry of the store, and again when the worker has it at hand.
fn both(bench: &Bench, check: impl Fn(&str)) {
    check("from the store");
    for _ in 0..4 {
        assert!(bench.serve(&mut get("/a", &[])).is_some());
    }
    check("from what is at hand");
}

#[test]
fn a_head_gets_the_fields_of_a_get() {
    let bench = bench();
    bench.put(&get("/a", &[]), b"", stored());
    both(&bench, |whence| {
        let hit = bench.hit(&mut request(Method::Head, "/a", &[]));
        assert_eq!((hit.status, field(&hit, "etag")), (200, "\"a\""), "{whence}");
        // The serving loop sends no content, but the length that the content would have.
        assert_eq!(hit.body.length(), Some(CONTENT.len() as u64));
    });
}

#[test]
fn conditions_are_evaluated_on_what_is_stored() {
    let bench = bench();
    bench.put(&get("/a", &[]), b"", stored());
    both(&bench, |whence| {
        for (name, value, status) in [
            ("If-None-Match", "\"a\"", 304),
            ("If-None-Match", "W/\"a\"", 304),
            ("If-None-Match", "\"b\"", 200),
            ("If-Modified-Since", "Sat, 05 Nov 1994 08:49:37 GMT", 304),
            ("If-Modified-Since", "Fri, 04 Nov 1994 08:49:37 GMT", 200),
        ] {
            let hit = bench.hit(&mut get("/a", &[(name, value)]));
            assert_eq!(hit.status, status, "{whence} {name}: {value}");
            if status == 304 {
                assert!(hit.body.is_empty());
                for kept in ["etag", "cache-control", "date", "age", "cache-status", "x-own"] {
                    assert!(hit.headers.contains(kept), "{kept}");
                }
                assert!(!hit.headers.contains_any(&[Known::ContentType, Known::LastModified]));
            }
        }
        // A precondition that only the origin can evaluate is not evaluated here.
        assert!(bench.serve(&mut get("/a", &[("If-Match", "\"a\"")])).is_none());
    });
}

#[test]
fn parts_are_of_what_is_stored() {
    let bench = bench();
    bench.put(&get("/a", &[]), b"", stored());
    let long = Content::Memory(CONTENT.repeat(10).into());
    bench.put(&get("/long", &[]), b"", ObjectKind::Response(response(long)));
    both(&bench, |whence| {
        let hit = bench.hit(&mut get("/a", &[("Range", "bytes=2-4")]));
        assert_eq!((hit.status, field(&hit, "content-range")), (206, "bytes 2-4/36"), "{whence}");
        assert!(hit.headers.contains("age") && hit.headers.contains("cache-status"));
        assert_eq!(text(hit), "234");
        let hit = bench.hit(&mut get("/long", &[("Range", "bytes=0-0,-1")]));
        let kind = field(&hit, "content-type").to_owned();
        assert!(hit.status == 206 && kind.starts_with("multipart/byteranges; boundary="));
        let parts = text(hit);
        assert!(parts.contains("Content-Range: bytes 359-359/360\r\n\r\nz"), "{parts}");
        for (if_range, status) in [("\"a\"", 206), ("\"b\"", 200), ("W/\"a\"", 200)] {
            let fields = [("Range", "bytes=2-4"), ("If-Range", if_range)];
            assert_eq!(bench.hit(&mut get("/a", &fields)).status, status, "{if_range}");
        }
        let outcome = bench.serve(&mut get("/a", &[("Range", "bytes=36-")])).unwrap();
        let fields = outcome.err().unwrap().fields.unwrap();
        assert_eq!(fields.get_str("content-range"), Some("bytes */36"));
        assert!(fields.contains("cache-status"));
        // RFC 9110 14.2: a HEAD has no parts.
        let head = bench.hit(&mut request(Method::Head, "/a", &[("Range", "bytes=2-4")]));
        assert_eq!(head.status, 200);
    });
}

#[test]
fn what_needs_the_origin_is_left_to_others() {
    let bench = bench();
    let put = |change: &dyn Fn(&mut StoredResponse)| {
        let ObjectKind::Response(mut response) = stored() else { unreachable!() };
        change(&mut response);
        bench.put(&get("/a", &[]), b"", ObjectKind::Response(response))
    };
    put(&|_| {});
    assert!(bench.serve(&mut get("/a", &[])).is_some());
    for fields in [("cache-control", "no-cache"), ("pragma", "no-cache")] {
        assert!(bench.serve(&mut get("/a", &[fields])).is_none());
    }
    assert!(bench.serve(&mut request(Method::Post, "/a", &[])).is_none());
    let mut with_body = get("/a", &[]);
    with_body.body = Body::from("fat");
    assert!(bench.serve(&mut with_body).is_none(), "a GET with content");
    put(&|response| response.meta.lifetime_s = 10);
    assert!(bench.serve(&mut get("/a", &[])).is_none(), "stale");
    put(&|response| (response.meta.lifetime_s, response.meta.while_revalidate_s) = (10, 60));
    assert!(bench.serve(&mut get("/a", &[])).is_none(), "to be asked for behind the response");
    bench.put(
        &get("/a", &[]),
        b"",
        ObjectKind::Uncacheable {
            until_secs: u64::MAX,
            why: crate::rules::UncachedReason::Private,
        },
    );
    assert!(bench.serve(&mut get("/a", &[])).is_none(), "a marker");
}

#[test]
fn what_is_purged_is_not_at_hand_any_more() {
    let all = Purge::All;
    let url = Purge::Url(b"http://shop.example/a");
    for (purge, soft) in [(&all, false), (&all, true), (&url, false), (&url, true)] {
        let bench = bench();
        bench.put(&get("/a", &[]), b"", stored());
        for _ in 0..4 {
            assert!(bench.serve(&mut get("/a", &[])).is_some());
        }
        bench.cache.store().purge(purge, soft);
        assert!(bench.serve(&mut get("/a", &[])).is_none(), "{soft}");
    }
}

#[test]
fn a_variant_is_for_requests_that_select_it() {
    let bench = bench();
    let vary = Vary { fields: Box::new([b"x-kind".as_slice().into()]) };
    bench.put(&get("/a", &[]), b"", ObjectKind::Varies(vary));
    bench.put(&get("/a", &[]), b"\0v:\nx-kind:one", stored());
    for _ in 0..4 {
        assert!(bench.serve(&mut get("/a", &[("X-Kind", "one")])).is_some());
        assert!(bench.serve(&mut get("/a", &[("X-Kind", "two")])).is_none());
        assert!(bench.serve(&mut get("/a", &[])).is_none());
    }
}

#[test]
fn parameters_that_do_not_matter_make_no_difference() {
    let bench = bench();
    let rule =
        SearchRule { key_order: true, params: Box::new([b"utm".as_slice().into()]), all: false };
    bench.put(&get("/a", &[]), b"\0s:", ObjectKind::NoVarySearch(rule));
    bench.put(&get("/a?b=2&c=1", &[]), b"", stored());
    for target in ["/a?b=2&c=1", "/a?utm=x&c=1&b=2", "/a?c=1&b=2"] {
        assert!(bench.serve(&mut get(target, &[])).is_some(), "{target}");
    }
    for target in ["/a?c=2&b=2", "/a", "/a?", "/a?utm=x"] {
        assert!(bench.serve(&mut get(target, &[])).is_none(), "{target}");
    }
}

#[test]
fn a_coding_is_for_clients_that_accept_it_and_its_tag_stands_for_the_origins() {
    let bench = bench();
    let ObjectKind::Response(mut coded) = stored() else { unreachable!() };
    (coded.coding, coded.derived) = (Some(Coding::Gzip), true);
    let mut head = coded.head.headers();
    head.set(Known::Etag, "\"a-gzip\"");
    head.append(Known::ContentEncoding, "gzip");
    coded.head = SharedHeaders::from(&head);
    coded.derived = false;
    bench.put(&get("/a", &[]), b"", ObjectKind::Response(coded.clone()));
    assert!(bench.serve(&mut get("/a", &[])).is_none());
    assert!(bench.serve(&mut get("/a", &[("accept-encoding", "gzip;q=0, br")])).is_none());
    assert!(bench.serve(&mut get("/a", &[("accept-encoding", "br, gzip")])).is_some());
    // The canonical response has the origin's tag; a transcoded one has that tag with a suffix.
    let mut answer = |tag: &str, derived: bool| {
        coded.derived = derived;
        let fields = [("accept-encoding", "gzip"), ("if-none-match", tag)];
        let cache_status = super::StatusHeaders::hit(0, 1, false);
        let headers = coded.head.headers();
        super::respond(&coded, headers, Body::Empty, &cache_status, &get("/a", &fields)).unwrap()
    };
    assert_eq!(answer("\"a\"", false).status, 200);
    for tag in ["\"a-gzip\"", "\"a\""] {
        let hit = answer(tag, true);
        assert_eq!((hit.status, field(&hit, "etag")), (304, tag));
        assert!(!hit.headers.contains("content-encoding"));
    }
    // Bytes of two codings do not fit together.
    let fields = [("range", "bytes=0-1"), ("if-range", "\"a\"")];
    let cache_status = super::StatusHeaders::hit(0, 1, false);
    let headers = coded.head.headers();
    let whole =
        super::respond(&coded, headers, Body::Empty, &cache_status, &get("/a", &fields)).unwrap();
    assert_eq!(whole.status, 200);
}

#[test]
fn x_status_says_it_too_where_it_is_requested() {
    let bench = Bench::new(node!({ "store": "pages", "x_status": true }));
    bench.put(&get("/a", &[]), b"", stored());
    both(&bench, |whence| {
        assert_eq!(field(&bench.hit(&mut get("/a", &[])), "x-status"), "hit", "{whence}");
    });
}

#[test]
fn each_client_gets_the_coding_that_it_prefers() {
    let bench = Bench::new(node!({ "store": "pages", "codings": { "offer": ["gzip"] } }));
    let with = |coding: Option<Coding>| {
        let mut made = response(Content::Memory(CONTENT.repeat(100).into()));
        made.meta.flags = made.meta.flags.with(Flags::CODABLE);
        (made.coding, made.derived) = (coding, coding.is_some());
        if coding.is_some() {
            let mut head = made.head.headers();
            head.append(Known::ContentEncoding, "gzip");
            made.head = SharedHeaders::from(&head);
        }
        ObjectKind::Response(made)
    };
    bench.put(&get("/a", &[]), b"", with(None));
    bench.put(&get("/a", &[]), b"\0c:gzip", with(Some(Coding::Gzip)));
    for _ in 0..4 {
        for (accepted, coding) in [
            (None, ""),
            (Some("gzip"), "gzip"),
            (Some("gzip"), "gzip"),
            (Some("gzip;q=0"), ""),
            (Some("br, gzip;q=0.1"), "gzip"),
            (Some(""), ""),
        ] {
            let fields: Vec<_> =
                accepted.map(|value| ("accept-encoding", value)).into_iter().collect();
            let hit = bench.hit(&mut get("/a", &fields));
            assert_eq!(field(&hit, "content-encoding"), coding, "{accepted:?}");
        }
    }
}
