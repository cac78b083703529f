//! Conditions: their spellings, their errors, and what they hold for.

use std::net::IpAddr;
use std::rc::Rc;

use bytes::Bytes;
use settings::{Node, node, read};
use wire::Method;

use super::Condition;
use message::{CountryDatabase, Headers, Request, Target};

/// Every address is in Germany.
struct Germany;

impl CountryDatabase for Germany {
    fn country(&self, _: IpAddr) -> Option<&str> {
        Some("DE")
    }
}

fn request() -> Request {
    let mut headers = Headers::new();
    headers.append("x-env", "alpha");
    headers.append("x-env", "beta-2");
    headers.append("x-empty", "  ");
    headers.append("X_Internal", "1");
    headers.append("x-bytes", b"SQLmap\xff");
    headers.append("cookie", "sid=abc; theme=");
    let target = Target::new(Bytes::from_static(b"/p?q=a%20b&flag&q=c")).unwrap();
    let mut request = Request::made_up(Method::Get, target, headers);
    request.client_ip = "10.1.2.3".parse().unwrap();
    request.countries = Some(Rc::new(Germany));
    request
}

fn condition(node: &Node) -> Condition {
    read(node).unwrap_or_else(|out| panic!("{out}"))
}

#[test]
fn the_table_of_tests() {
    for (node, holds) in [
        (node!({ "country": "de" }), true),
        (node!({ "country": ["AT", "unknown"] }), false),
        (node!({ "variable": "country", "equals": "DE" }), true),
        (node!({ "header": "X-Env", "equals": "alpha" }), true),
        (node!({ "header": "x-env", "equals": "beta-2" }), true),
        (node!({ "header": "x-env", "equals": "beta" }), false),
        (node!({ "header": "x-env", "prefix": "beta", "suffix": "2" }), true),
        (node!({ "header": "x-env", "prefix": "alpha", "suffix": "2" }), false),
        (node!({ "header": "x-env", "contains": "ta-" }), true),
        (node!({ "header": "x-env", "regex": "^beta-[0-9]$" }), true),
        (node!({ "header": "x-env", "ant": "beta-?" }), true),
        (node!({ "header": "x-env", "in": ["x", "alpha"] }), true),
        (node!({ "header": "x-env", "in": "x" }), false),
        (node!({ "header": "x-env" }), true),
        (node!({ "header": "x-none" }), false),
        // The next recipient may take `X_Internal` for it.
        (node!({ "header": "x-internal" }), true),
        (node!({ "header": "x-internal", "equals": "1" }), true),
        (node!({ "header": "x-internal", "present": false }), false),
        (node!({ "header": "xinternal" }), false),
        (node!({ "header": "x-none", "present": false }), true),
        (node!({ "header": "x-env", "present": false }), false),
        (node!({ "header": "x-none", "blank": true }), true),
        (node!({ "header": "x-empty", "blank": true }), true),
        (node!({ "header": "x-env", "blank": false }), true),
        (node!({ "header": "x-none", "blank": false }), false),
        (node!({ "header": "x-none", "equals": "" }), false),
        (node!({ "header": "x-bytes", "regex": "(?i)sqlmap" }), true),
        (node!({ "header": "x-bytes", "regex": "^SQLmap$" }), false),
        (node!({ "header": "x-bytes", "ant": "SQL*" }), true),
        (node!({ "query": "q", "equals": "a b" }), true),
        (node!({ "query": "q", "equals": "c" }), true),
        (node!({ "query": "flag", "equals": "" }), true),
        (node!({ "query": "none" }), false),
        (node!({ "cookie": "sid", "equals": "abc" }), true),
        (node!({ "cookie": "theme", "blank": true }), true),
        (node!({ "cookie": "SID" }), false),
        (node!({ "ip": "10.0.0.0/8" }), true),
        (node!({ "ip": { "in": ["192.168.0.0/16", "::1"] } }), false),
        (node!({ "scheme": "http" }), true),
        (node!({ "scheme": "https" }), false),
        (node!({ "time": "2026-11-20.." }), true),
        (node!({ "time": { "in": ["..2026-11-19", "Sat"], "offset": "+01:00" } }), false),
        (node!({ "not": { "scheme": "https" } }), true),
        (node!({ "any": [{ "scheme": "https" }, { "ip": "10.1.2.3" }] }), true),
        (node!({ "all": [{ "scheme": "https" }, { "ip": "10.1.2.3" }] }), false),
        (node!([{ "scheme": "http" }, { "not": [{ "cookie": "sid" }, { "query": "x" }] }]), true),
    ] {
        let condition = condition(&node);
        // A Friday, 2026-11-20 12:00 UTC.
        let noon = Some(1_795_132_800 + 12 * 3600);
        assert_eq!(condition.holds_at(&request(), noon), holds, "{condition}");
        assert_eq!(condition.why_not(&request(), noon).is_none(), holds, "{condition}");
    }
}

#[test]
fn the_clock_is_read_where_no_time_is_given() {
    assert!(condition(&node!({ "time": "2020-01-01.." })).holds(&request()));
    assert!(!condition(&node!({ "time": "..2020-01-01" })).holds(&request()));
}

#[test]
fn cheap_ones_come_first_and_the_failing_one_is_named() {
    let condition = condition(&node!([
        { "header": "x-env", "regex": "^alpha$" },
        { "cookie": "sid", "prefix": "z", "present": true },
        { "ip": "10.0.0.0/8" }
    ]));
    let shown = condition.to_string();
    assert_eq!(
        shown,
        "all of (ip in [10.0.0.0/8]; cookie sid present and prefix \"z\"; \
         header x-env regex ^alpha$)"
    );
    assert_eq!(condition.tests(), 4);
    let why = condition.why_not(&request(), None).unwrap();
    assert_eq!(why, "cookie sid present and prefix \"z\"");
}

#[test]
fn a_word_misspelt_is_one_error() {
    for node in [
        node!({ "haeder": "a" }),
        node!({ "haeder": "a", "equals": "b" }),
        node!({ "all": [{ "haeder": "a" }] }),
        node!({ "not": { "haeder": "a" } }),
    ] {
        let out = read::<Condition>(&node).unwrap_err();
        assert_eq!(out.matches("error: ").count(), 1, "{out}");
    }
}

#[test]
fn errors_say_what_was_meant() {
    for (node, why) in [
        (node!({}), "a condition without a subject"),
        (node!({ "equals": "x" }), "a condition without a subject"),
        (node!({ "header": "a", "cookie": "b" }), "a condition on both header and cookie"),
        (node!({ "ip": "::1", "equals": "x" }), "`equals` tests nothing here"),
        (node!({ "all": [] }), "an empty list of conditions"),
        (node!([]), "an empty list of conditions"),
        (node!({ "haeder": "a" }), "did you mean \"header\"?"),
        (node!({ "header": "a", "sufix": "b" }), "did you mean \"suffix\"?"),
        (node!({ "header": "a b" }), "is not a valid header name"),
        (node!({ "scheme": "htps" }), "did you mean \"https\"?"),
        (node!({ "ip": "10.0.0.1/8" }), "write 10.0.0.0/8"),
        (node!({ "time": "Mon-Fry" }), "no day \"Fry\""),
        (node!({ "header": "a", "regex": "(" }), "is not a regular expression"),
        (node!("x-env"), "expected a map"),
    ] {
        let out = read::<Condition>(&node).unwrap_err();
        assert!(out.contains(why), "{out}\nwanted {why}");
    }
}

#[test]
fn size_and_depth_are_bounded() {
    let mut deep = node!({ "scheme": "http" });
    for _ in 0..20 {
        deep = Node::made(settings::Value::Map(vec![(
            settings::MapKey { name: "not".to_owned(), span: settings::Span::NOWHERE },
            deep,
        )]));
    }
    assert!(read::<Condition>(&deep).unwrap_err().contains("deep"));
    let many = vec![node!({ "scheme": "http" }); 300];
    let many = Node::made(settings::Value::List(many));
    assert!(read::<Condition>(&many).unwrap_err().contains("more than 256 tests"));
}

#[test]
fn the_declaration_is_valid() {
    settings::verify::<Condition>().unwrap();
}
