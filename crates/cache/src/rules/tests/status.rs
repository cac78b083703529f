//! RFC 9211: Cache-Status.

use sfv::{FieldType, Item, Parser};

use super::{fields, lines};
use crate::rules::status::{self, CacheOutcome, Status};
use crate::rules::{Forward, UncachedReason};

fn written(status: &Status<'_>) -> String {
    let mut out = Vec::new();
    status::write("tidegate", status, &mut out);
    String::from_utf8(out).unwrap()
}

fn item(text: &str) -> Item {
    Parser::new(text).parse().unwrap()
}

/// An item without its parameters, as it is written.
fn bare(item: &Item) -> String {
    Item::new(item.bare_item.clone()).serialize()
}

/// The value of a parameter, as it is written.
fn param(item: &Item, key: &str) -> Option<String> {
    Some(Item::new(item.params.get(key)?.clone()).serialize())
}

#[test]
fn rfc9211_s2_1_a_hit_has_no_fwd() {
    let text = written(&Status::hit(376));
    assert_eq!(text, "tidegate; hit; ttl=376");
    let item = item(&text);
    assert_eq!(param(&item, "hit").as_deref(), Some("?1"));
    assert_eq!(param(&item, "fwd"), None);
    assert_eq!(written(&Status::hit(-412)), "tidegate; hit; ttl=-412");
}

#[test]
fn rfc9211_s2_2_a_miss_says_why() {
    for why in Forward::ALL {
        let item = item(&written(&Status::forwarded(why)));
        assert_eq!(param(&item, "fwd").as_deref(), Some(why.token()));
        assert_eq!(param(&item, "hit"), None);
    }
    assert_eq!(
        written(&Status::passed(UncachedReason::Method)),
        "tidegate; fwd=method; detail=method"
    );
    let passed = |reason: UncachedReason| reason.forward();
    assert_eq!(passed(UncachedReason::Precondition), Forward::Request);
    assert_eq!(passed(UncachedReason::Upgrade), Forward::Bypass);
}

#[test]
fn rfc9211_s2_3_to_2_8_the_other_parameters() {
    let outcome = CacheOutcome::Forwarded {
        why: Forward::Stale,
        status: Some(304),
        stored: true,
        collapsed: true,
    };
    let status = Status {
        outcome,
        ttl_s: Some(60),
        key: Some(b"http://a/\"b\\\n\x00c"),
        detail: Some("a b"),
    };
    let item = item(&written(&status));
    assert_eq!(bare(&item), "tidegate");
    assert_eq!(param(&item, "fwd-status").as_deref(), Some("304"));
    assert_eq!(param(&item, "stored").as_deref(), Some("?1"));
    assert_eq!(param(&item, "collapsed").as_deref(), Some("?1"));
    assert_eq!(param(&item, "ttl").as_deref(), Some("60"));
    assert_eq!(param(&item, "key").as_deref(), Some(r#""http://a/\"b\\??c""#));
    assert_eq!(param(&item, "detail").as_deref(), Some("\"a b\""));
    let refused = Status::forwarded(Forward::UriMiss).refused(UncachedReason::SetCookie);
    assert_eq!(written(&refused), "tidegate; fwd=uri-miss; detail=set_cookie");
}

#[test]
fn rfc9211_s2_the_name_is_a_token_or_a_string() {
    for (name, expected) in [
        ("edge-1", "edge-1"),
        ("Edge One", "\"Edge One\""),
        ("10.0.0.1", "\"10.0.0.1\""),
        ("", "\"\""),
    ] {
        let mut out = Vec::new();
        status::write(name, &Status::hit(1), &mut out);
        assert_eq!(bare(&item(std::str::from_utf8(&out).unwrap())), expected);
    }
}

#[test]
fn rfc9211_s2_what_caches_nearer_to_the_origin_said_stays_in_front() {
    let mut headers = fields("Cache-Status: OriginCache; hit; ttl=1100\nX: 1");
    status::add("tidegate", &Status::hit(5), &mut headers);
    assert_eq!(
        lines(&headers),
        ["Cache-Status: OriginCache; hit; ttl=1100", "X: 1", "Cache-Status: tidegate; hit; ttl=5"]
    );
    let declared = "Cache-Control: max-age=60\nCache-Status: OriginCache; hit";
    let stored = super::Case::default().evaluate(declared).unwrap();
    assert!(stored.head.contains("Cache-Status"), "in the store too");
}

#[test]
fn each_outcome_has_its_word_for_the_status_field() {
    let stored = CacheOutcome::Forwarded {
        why: Forward::UriMiss,
        status: None,
        stored: true,
        collapsed: false,
    };
    let stored = Status { outcome: stored, ..Status::hit(1) };
    assert_eq!(status::word(&Status::hit(1)), "hit");
    assert_eq!(status::word(&stored), "fetching");
    assert_eq!(status::word(&Status::passed(UncachedReason::Method)), "passed");
    assert_eq!(status::word(&Status::forwarded(Forward::UriMiss)), "hitForPass");
}
