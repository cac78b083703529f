//! Each setting of `key_auth`, and every place of a key.

use settings::node;
use wire::Known;

use super::KIND;
use plugin::testing::{errors, filter, get, passed, plan, rendered};

/// SHA-256 of "abc" (FIPS 180-2, appendix B.1).
const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

#[test]
fn the_declaration_is_valid() {
    settings::verify::<super::KeyAuth>().unwrap();
}

#[test]
fn a_known_key_names_its_consumer_and_is_not_forwarded() {
    let keys = filter(
        &KIND,
        &node!({ "keys": [
        { "consumer": "alice", "sha256": ABC },
        { "consumer": "bob", "key": "xyz" },
        { "consumer": "bob", "sha256": (ABC.to_uppercase().replace("BA", "00")) }
    ] }),
    );
    for (key, consumer) in [("abc", "alice"), ("xyz", "bob")] {
        let mut request = get("/", &[("x-api-key", key), ("x-other", "stays")]);
        passed(keys.on_request(&mut request)).unwrap();
        assert_eq!(request.consumer_name(), Some(consumer));
        assert!(!request.headers.contains("x-api-key") && request.headers.contains("x-other"));
    }
}

#[test]
fn others_are_challenged() {
    let keys = filter(
        &KIND,
        &node!({
            "keys": [{ "consumer": "alice", "sha256": (format!("sha256:{ABC}")) }], "realm": "shop"
        }),
    );
    let wrong: &[&[(&str, &str)]] = &[
        &[],
        &[("x-api-key", "")],
        &[("x-api-key", "abd")],
        &[("x-api-key", "abc ")],
        &[("x-api-key", ABC)],
        &[("x-api-key", "abc"), ("x-api-key", "abc")],
        &[("authorization", "Bearer abc")],
    ];
    for headers in wrong {
        let mut request = get("/?x-api-key=abc", headers);
        let fault = passed(keys.on_request(&mut request)).unwrap_err();
        let response = rendered(&fault);
        assert_eq!(response.status, 401, "{headers:?}");
        let challenge = response.headers.get_str(Known::WwwAuthenticate);
        assert_eq!(challenge, Some("ApiKey realm=\"shop\""));
        assert!(request.consumer.is_none());
    }
}

#[test]
fn from_names_the_places_of_the_key() {
    let keys = filter(
        &KIND,
        &node!({
            "keys": [{ "consumer": "alice", "key": "abc" }],
            "from": ["bearer", { "query": "key" }, { "header": "X-Own" }]
        }),
    );
    for (target, headers) in [
        ("/a", ("authorization", "bearer abc")),
        ("/a?key=abc", ("x", "y")),
        ("/a?key=%61bc", ("x", "y")),
        ("/a", ("x-own", "abc")),
        // No place keeps a key, also those behind the one that counts.
        ("/a?key=abc", ("x-own", "other")),
        ("/a?key=other", ("authorization", "Bearer abc")),
    ] {
        let mut request = get(target, &[headers]);
        passed(keys.on_request(&mut request)).unwrap();
        assert_eq!(request.target.raw(), b"/a");
        assert!(!request.headers.contains("x-own"), "{target}");
    }
    for (target, headers) in [
        ("/a?key=abc&key=abc", ("x", "y")),
        ("/a", ("authorization", "Basic abc")),
        ("/a", ("authorization", "Bearer ")),
        ("/a?key=abc", ("authorization", "Bearer wrong")),
        ("/a", ("x-api-key", "abc")),
    ] {
        let mut request = get(target, &[headers]);
        let fault = passed(keys.on_request(&mut request)).unwrap_err();
        assert_eq!(request.target.raw(), b"/a", "the log shows no key");
        let challenge = rendered(&fault);
        let challenge = challenge.headers.get_str(Known::WwwAuthenticate);
        assert_eq!(challenge, Some("Bearer realm=\"tidegate\", ApiKey realm=\"tidegate\""));
    }
}

#[test]
fn a_query_keeps_its_other_pairs() {
    let keys = filter(
        &KIND,
        &node!({
            "keys": [{ "consumer": "alice", "key": "abc" }], "from": { "query": "key" }
        }),
    );
    for (before, after) in [
        ("/a%20b?x=1&key=abc&y=%32", "/a%20b?x=1&y=%32"),
        ("/?key=abc&y", "/?y"),
        ("/?k%65y=abc", "/"),
    ] {
        let mut request = get(before, &[]);
        passed(keys.on_request(&mut request)).unwrap();
        assert_eq!(request.target.raw(), after.as_bytes());
    }
}

#[test]
fn a_key_that_is_not_hidden_is_forwarded() {
    let settings = node!({ "keys": [{ "consumer": "alice", "key": "abc" }], "hide": false });
    let mut request = get("/", &[("x-api-key", "abc")]);
    passed(filter(&KIND, &settings).on_request(&mut request)).unwrap();
    assert_eq!(request.headers.get("x-api-key"), Some(&b"abc"[..]));
    let shown = plan(&KIND, &settings).unwrap().describe();
    assert_eq!(shown, "1 key, passed on");
}

#[test]
fn errors_are_named_and_show_no_key() {
    for (settings, why) in [
        (node!({ "keys": [{ "consumer": "a" }] }), "either sha256 or key"),
        (
            node!({ "keys": [{ "consumer": "a", "key": "topsecret", "sha256": ABC }] }),
            "either sha256 or key",
        ),
        (node!({ "keys": [{ "consumer": "a", "sha256": "abc" }] }), "is not a SHA-256"),
        (node!({ "keys": [{ "consumer": "a", "sha256": (ABC.replace("b", "é")) }] }), "is not"),
        (node!({ "keys": [{ "consumer": "", "key": "abc" }] }), "the consumer needs a name"),
        (
            node!({
                "keys": [{ "consumer": "a", "key": "abc" }, { "consumer": "b", "sha256": ABC }]
            }),
            "a and b have the same key",
        ),
        (node!({ "keys": [{ "consumer": "a", "key": "k" }], "realm": "a\"b" }), "realm"),
        (node!({ "keys": [{ "consumer": "a", "key": "k" }], "from": [] }), "no place"),
        (node!({ "keys": [] }), "an empty list of keys"),
        (node!({ "keys": [{ "consumer": "a", "key": "k" }], "form": "bearer" }), "\"from\"?"),
    ] {
        let report = errors(&KIND, &settings);
        assert!(report.contains(why), "{report}\nwanted {why}");
        assert!(!report.contains("topsecret"), "{report}");
        assert_eq!(report.matches("error: ").count(), 1, "{report}");
    }
}
