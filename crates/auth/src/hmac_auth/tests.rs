//! The filter around signatures: consumers, bodies, nonces, settings.

mod rfc9421;
mod shenyu;

use std::rc::Rc;
use std::sync::Arc;

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use message::{Body, Fault, Request};
use plugin::testing::{errors, filter_in, get, plan, rendered};
use plugin::{Filter, Step, WorkerContext};
use settings::{Node, node};
use sha2::{Digest as _, Sha256};
use wire::Known;

use super::{HmacAuth, KIND};
use crate::registry::Registry;

const SECRET: &str = "0123456789abcdef0123456789abcdef";

fn run(filter: &Rc<dyn Filter>, request: &mut Request) -> Result<(), Fault> {
    match net::worker::block_on_local(filter.on_request(request).resolve()) {
        Step::Continue => Ok(()),
        Step::Fail(fault) => Err(fault),
        Step::Respond(_) => panic!("responded"),
    }
}

/// Why a request is rejected.
fn refusal(filter: &Rc<dyn Filter>, request: &mut Request) -> String {
    run(filter, request).expect_err("accepted").detail.into_owned()
}

/// A worker whose consumers are `alice` with a key of HMAC, and `bob` with one of ShenYu.
fn worker() -> (WorkerContext, Arc<Registry>) {
    let worker = WorkerContext::default();
    let registry = worker.shared.get((), Registry::default);
    let put = |entry: Node| registry.put(settings::read(&entry).unwrap(), |_| true).unwrap();
    put(node!({ "name": "alice", "signature_keys": [
        { "id": "a-1", "algorithm": "hmac-sha256", "secret": SECRET }
    ] }));
    put(node!({ "name": "bob", "signature_keys": [
        { "id": "b-1", "algorithm": "md5", "secret": SECRET }
    ] }));
    (worker, registry)
}

fn now_s() -> u64 {
    net::clock::wall_secs()
}

/// The line that a component contributes to the signed text.
type Line<'a> = (&'a str, &'a str);

const LINES: [Line<'_>; 4] =
    [("@method", "GET"), ("@authority", "shop.example"), ("@path", "/a"), ("@query", "?b=1")];

/// A request that the secret signs, with these lines and parameters.
fn signed(lines: &[Line<'_>], parameters: &str, headers: &[(&str, &str)]) -> Request {
    let names: Vec<String> = lines.iter().map(|(name, _)| format!("\"{name}\"")).collect();
    let input = format!("({}){parameters}", names.join(" "));
    let mut base: String =
        lines.iter().map(|(name, value)| format!("\"{name}\": {value}\n")).collect();
    base.push_str(&format!("\"@signature-params\": {input}"));
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let signature = STANDARD.encode(hmac::sign(&key, base.as_bytes()));
    let mut request = get("/a?b=1", headers);
    request.headers.append(Known::Host, "Shop.example:80");
    request.headers.append("signature-input", format!("s={input}"));
    request.headers.append("signature", format!("s=:{signature}:"));
    request
}

/// The usual parameters, and others behind them.
fn parameters(other: &str) -> String {
    format!(";created={};keyid=\"a-1\"{other}", now_s())
}

#[test]
fn the_declaration_is_valid() {
    settings::verify::<HmacAuth>().unwrap();
}

#[test]
fn a_signature_names_its_consumer_and_is_not_forwarded() {
    let (worker, _registry) = worker();
    let filter = filter_in(&KIND, &node!({}), &worker);
    let mut request = signed(&LINES, &parameters(""), &[]);
    run(&filter, &mut request).unwrap();
    assert_eq!(request.consumer_name(), Some("alice"));
    assert!(request.headers.get("signature").is_none());
    assert!(request.headers.get("signature-input").is_none());
    let passed_on = node!({ "hide": false });
    assert!(plan(&KIND, &passed_on).unwrap().describe().contains("passed on"));
    let filter = filter_in(&KIND, &passed_on, &worker);
    let mut request = signed(&LINES, &parameters(""), &[]);
    run(&filter, &mut request).unwrap();
    assert!(request.headers.get("signature").is_some());
    let response = rendered(&run(&filter, &mut get("/", &[])).unwrap_err());
    assert_eq!(response.status, 401);
    let challenge = response.headers.get_str(Known::WwwAuthenticate);
    assert_eq!(challenge, Some("Signature realm=\"tidegate\""));
}

#[test]
fn forged_and_odd_signatures_are_rejected() {
    let (worker, _registry) = worker();
    let filter = filter_in(&KIND, &node!({}), &worker);
    let now = now_s();
    let with = |parameters: &str| signed(&LINES, parameters, &[]);
    for (mut request, why) in [
        (with(""), "does not say when"),
        (with(&format!(";created={now}")), "names no key"),
        (with(&format!(";created={now};keyid=a-1")), "not text"),
        (with(&format!(";created={now};keyid=\"a-2\"")), "not known"),
        (with(&format!(";created={now};keyid=\"b-1\"")), "shenyu only"),
        (with(&format!(";created=\"{now}\";keyid=\"a-1\"")), "not a number"),
        (with(&format!(";created={now}.5;keyid=\"a-1\"")), "not a number"),
        (with(";created=-1;keyid=\"a-1\""), "before 1970"),
        (with(&format!(";created={};keyid=\"a-1\"", now - 331)), "has expired"),
        (with(&format!(";created={};keyid=\"a-1\"", now + 60)), "in the future"),
        (with(&parameters(&format!(";expires={}", now - 60))), "has expired"),
        (with(&parameters(";expires=soon")), "not a number"),
        (with(&parameters(";alg=\"ed25519\"")), "another algorithm"),
        (with(&parameters(";alg=\"none\"")), "another algorithm"),
        (with(&parameters(";alg=none")), "not text"),
        (with(&parameters(&format!(";nonce=\"{}\"", "x".repeat(257)))), "too long"),
        (signed(&LINES[1..], &parameters(""), &[]), "does not cover"),
        (signed(&LINES[..3], &parameters(""), &[]), "does not cover"),
        (signed(&[], &parameters(""), &[]), "does not cover"),
    ] {
        let refusal = refusal(&filter, &mut request);
        assert!(refusal.contains(why), "{refusal}\nwanted {why}");
        assert!(request.consumer.is_none() && request.headers.get("signature").is_none());
    }
    let more = |name: &'static str, value: &'static str| {
        let lines = [&LINES[..], &[(name, value)]].concat();
        signed(&lines, &parameters(""), &[("x-a", "1")])
    };
    for (mut request, why) in [
        (more("@method", "GET"), "twice"),
        (more("@status", "200"), "does not have"),
        (more("@query-param", "1"), "no name"),
        (more("x-b", "1"), "not all headers"),
        (more("X-A", "1"), "lower case"),
        (more("x-a", "2"), "is wrong"),
        (more("@scheme", "https"), "is wrong"),
    ] {
        let refusal = refusal(&filter, &mut request);
        assert!(refusal.contains(why), "{refusal}\nwanted {why}");
    }
    for (name, value) in [("x-a", "1"), ("@scheme", "http"), ("@target-uri", TARGET)] {
        run(&filter, &mut more(name, value)).unwrap();
    }
    forged_headers(&filter);
}

const TARGET: &str = "http://shop.example/a?b=1";

/// Headers that no signer writes.
fn forged_headers(filter: &Rc<dyn Filter>) {
    let good = || signed(&LINES, &parameters(""), &[]);
    let replaced = |name: &'static str, change: &dyn Fn(&str) -> String| {
        let mut request = good();
        let value = change(request.headers.get_str(name).unwrap());
        request.headers.set(name, value);
        request
    };
    let many: String = (0..9).map(|label| format!("l{label}=(), ")).collect();
    for (mut request, why) in [
        (replaced("signature", &|_| String::new()), "has no signature"),
        (replaced("signature", &|value| value.replace("s=", "t=")), "has no signature"),
        (replaced("signature", &|_| "s=\"x\"".into()), "has no signature"),
        (replaced("signature", &|_| "s=:AAAA:".into()), "is wrong"),
        (replaced("signature", &|_| "s=::".into()), "is wrong"),
        (replaced("signature", &|_| "s=:AAAA".into()), "not a dictionary"),
        (replaced("signature-input", &|_| "s=1".into()), "not a list"),
        (replaced("signature-input", &|_| "s=(".into()), "not a dictionary"),
        (replaced("signature-input", &|value| format!("{many}{value}")), "too many"),
        (replaced("signature-input", &|value| value.replace("\"@path\" ", "")), "does not cover"),
        (replaced("signature-input", &|value| value.replace("a-1", "a-2")), "not known"),
        (replaced("host", &|_| "other.example".into()), "is wrong"),
    ] {
        let refusal = refusal(filter, &mut request);
        assert!(refusal.contains(why), "{refusal}\nwanted {why}");
    }
    let mut posted = good();
    posted.method = wire::Method::Post;
    assert_eq!(refusal(filter, &mut posted), "the signature is wrong");
    // One of several signatures is enough, and another cannot spoil it.
    let other = "o=(\"@method\");created=1;keyid=\"x\"";
    run(filter, &mut replaced("signature-input", &|value| format!("{other}, {value}"))).unwrap();
}

#[test]
fn a_tag_selects_the_signature() {
    let (worker, _registry) = worker();
    let filter = filter_in(&KIND, &node!({ "tag": "shop" }), &worker);
    run(&filter, &mut signed(&LINES, &parameters(";tag=\"shop\""), &[])).unwrap();
    for other in ["", ";tag=\"other\""] {
        let refusal = refusal(&filter, &mut signed(&LINES, &parameters(other), &[]));
        assert_eq!(refusal, "there is no signature");
    }
}

#[test]
fn a_nonce_is_accepted_once_on_all_workers() {
    let (worker, _registry) = worker();
    let filter = filter_in(&KIND, &node!({ "nonce": true }), &worker);
    let with = |nonce: &str| signed(&LINES, &parameters(&format!(";nonce=\"{nonce}\"")), &[]);
    assert_eq!(
        refusal(&filter, &mut signed(&LINES, &parameters(""), &[])),
        "the signature has no nonce"
    );
    run(&filter, &mut with("one")).unwrap();
    run(&filter, &mut with("two")).unwrap();
    assert_eq!(refusal(&filter, &mut with("one")), "the nonce was used before");
    // Another filter, as after a reload or on another worker.
    let other = filter_in(&KIND, &node!({}), &worker);
    assert_eq!(refusal(&other, &mut with("two")), "the nonce was used before");
    run(&other, &mut signed(&LINES, &parameters(""), &[])).unwrap();
    // A nonce that is not proven is not used up.
    let mut forged = with("three");
    forged.method = wire::Method::Post;
    assert_eq!(refusal(&filter, &mut forged), "the signature is wrong");
    run(&filter, &mut with("three")).unwrap();
}

/// A signed request with a body, whose digest is written for `digested`.
fn with_body(body: &'static str, digested: &str) -> Request {
    let digest = format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(digested)));
    let lines = [&LINES[..], &[("content-digest", digest.as_str())]].concat();
    let mut request = signed(&lines, &parameters(""), &[("content-digest", &digest)]);
    request.body = Body::from(bytes::Bytes::from_static(body.as_bytes()));
    request
}

#[test]
fn a_body_is_the_one_that_was_signed() {
    let (worker, _registry) = worker();
    let filter = filter_in(&KIND, &node!({ "max_body": "128KiB" }), &worker);
    let mut request = with_body("hello", "hello");
    run(&filter, &mut request).unwrap();
    let kept = net::worker::block_on_local(request.collect_body(100)).unwrap();
    assert_eq!(&kept[..], b"hello");
    let long: &'static str = String::leak("x".repeat(100 * 1024));
    run(&filter, &mut with_body(long, long)).unwrap();
    run(&filter, &mut with_body("", "")).unwrap();
    for (body, digested) in [("hello", "Hello"), ("", "hello"), (long, "x")] {
        let refusal = refusal(&filter, &mut with_body(body, digested));
        assert!(refusal.contains("another digest"), "{refusal}");
    }
    let longer: &'static str = String::leak("x".repeat(128 * 1024 + 1));
    assert_eq!(run(&filter, &mut with_body(longer, longer)).unwrap_err().status, 413);
    // A digest that the signature does not cover proves nothing.
    let mut bare = signed(&LINES, &parameters(""), &[("content-digest", "sha-256=:AAAA:")]);
    bare.body = Body::from(bytes::Bytes::from_static(b"hello"));
    assert!(refusal(&filter, &mut bare).contains("does not cover the digest"));
    let lax = filter_in(&KIND, &node!({ "body": false }), &worker);
    let mut bare = signed(&LINES, &parameters(""), &[]);
    bare.body = Body::from(bytes::Bytes::from_static(b"hello"));
    run(&lax, &mut bare).unwrap();
    assert!(refusal(&lax, &mut with_body("hello", "Hello")).contains("another digest"));
}

#[test]
fn another_method_may_accept_what_is_not_signed() {
    let (worker, _registry) = worker();
    let any = node!({ "any": [{ "hmac_auth": {} }, { "key_auth": {
        "keys": [{ "consumer": "carol", "key": "sesame" }]
    } }] });
    let filter = filter_in(&crate::any::KIND, &any, &worker);
    let mut request = get("/", &[("x-api-key", "sesame"), ("signature-input", "s=()")]);
    run(&filter, &mut request).unwrap();
    assert_eq!(request.consumer_name(), Some("carol"));
    assert!(request.headers.get("signature-input").is_none());
    let mut tampered = with_body("hello", "Hello");
    tampered.headers.append("x-api-key", "sesame");
    run(&filter, &mut tampered).unwrap();
    assert_eq!(tampered.consumer_name(), Some("carol"));
    let challenge = rendered(&run(&filter, &mut get("/", &[])).unwrap_err());
    let challenge = challenge.headers.get_str(Known::WwwAuthenticate).unwrap().to_owned();
    assert_eq!(challenge, "Signature realm=\"tidegate\", ApiKey realm=\"tidegate\"");
}

#[test]
fn errors_are_named() {
    for (settings, why) in [
        (node!({ "components": ["@paht"] }), "did you mean \"@path\""),
        (node!({ "components": ["X-A"] }), "not a component"),
        (node!({ "components": ["@status"] }), "not a component"),
        (node!({ "components": [] }), "protects nothing"),
        (node!({ "format": "aws" }), "rfc9421"),
        (node!({ "format": "shenyu", "nonce": true }), "`nonce` is not for"),
        (node!({ "format": "shenyu", "tag": "a" }), "`tag` is not for"),
        (node!({ "format": "shenyu", "components": ["@path"] }), "`components` is not for"),
        (node!({ "max_age": "48h" }), "max_age"),
        (node!({ "max_body": "1GiB" }), "max_body"),
        (node!({ "realm": "a\"b" }), "the realm"),
    ] {
        let report = errors(&KIND, &settings);
        assert!(report.contains(why), "{report}\nwanted {why}");
    }
}
