//! Requests signed for Apache ShenYu: the examples of its documentation, and forged ones.

use md5::{Digest as _, Md5};

use super::*;
use crate::hmac_auth::shenyu::{ShenYuSignature, SignedTarget};

fn md5(text: &str) -> String {
    Md5::digest(text).iter().map(|byte| format!("{byte:02X}")).collect()
}

/// The text that a request signs.
fn text(request: &Request, body: Option<&str>) -> Result<String, &'static str> {
    let signature = ShenYuSignature::of(request)?.ok_or("not signed")?;
    let target = SignedTarget::of(request).ok_or("not ASCII")?;
    let signed = signature.signed(&target, body.map(str::as_bytes))?;
    Ok(String::from_utf8(signed).unwrap())
}

fn first(target: &str, timestamp: &str) -> Request {
    let sign = "00000000000000000000000000000000";
    let headers = [("appKey", "k"), ("sign", sign), ("timestamp", timestamp), ("version", "1.0.0")];
    get(target, &headers)
}

#[test]
fn the_examples_of_the_documentation() {
    let request = first("/api/service/abc", "1571711067186");
    let signed = text(&request, None).unwrap();
    assert_eq!(signed, "path/api/service/abctimestamp1571711067186version1.0.0");
    let secret = "506EEB535CF740D7A755CB4B9F4A1536";
    assert_eq!(md5(&format!("{signed}{secret}")), "A021BF82BE342668B78CD9ADE593D683");
    let request = first("/http/order/save", "1660659201000");
    let signed = text(&request, Some(r#"{"id":123,"name":"order"}"#)).unwrap();
    let secret = "2D47C325AE5B4A4C926C23FD4395C719";
    assert_eq!(md5(&format!("{signed}{secret}")), "35FE61C21F73E9AAFC46954C14F299D7");
    let token = "eyJhbGciOiJNRDUiLCJhcHBLZXkiOiJCRDc5ODBGNTY4OEE0REU2QkNGMUI1MzI3RkUwN0Y1QyIsInRpb\
        WVzdGFtcCI6IjE2NzM3MDgzNTM5OTYifQ==.33ED53DF79CA5B53C0BF2448B670AF35";
    for name in ["authorization", "shenyu-authorization"] {
        let request = get("/http/order/save", &[(name, token), ("version", "2.0.0")]);
        let signature = ShenYuSignature::of(&request).unwrap().unwrap();
        assert_eq!(signature.key_id, "BD7980F5688A4DE6BCF1B5327FE07F5C");
        let signed = text(&request, None).unwrap();
        assert_eq!(md5(&format!("{signed}{secret}")), "33ED53DF79CA5B53C0BF2448B670AF35");
    }
}

#[test]
fn a_body_and_a_query_are_written_as_java_does() {
    let body = r#"{"z":[1,"x",null,{"b":true,"a":2.5}],"a":null,"é":{},"s":"t"}"#;
    let signed = text(&first("/p?q=1%20&n&e=", "1"), Some(body)).unwrap();
    let expected =
        "anullennullpath/pq1%20sttimestamp1version1.0.0z[1, x, null, {b=true, a=2.5}]é{}";
    assert_eq!(signed, expected);
    for (target, body) in [
        ("/p?path=/q", "{}"),
        ("/p?timestamp=1", "{}"),
        ("/p", r#"{"path":"/q"}"#),
        ("/p", r#"{"version":"2"}"#),
        ("/p?sign=1", "{}"),
        ("/p?a=1&a=2", "{}"),
        ("/p?a=1", r#"{"a":1}"#),
        ("/p", r#"{"a":1,"a":2}"#),
        ("/p", "[]"),
        ("/p", "a=1"),
    ] {
        assert!(text(&first(target, "1"), Some(body)).is_err(), "{target} {body}");
    }
}

/// A token of version 2 that the secret of `bob` signs.
fn second(algorithm: &str, written: &str, body: &str) -> String {
    let time = now_s() * 1000;
    let parameters = format!(r#"{{"alg":"{algorithm}","appKey":"b-1","timestamp":"{time}"}}"#);
    let parameters = STANDARD.encode(parameters);
    let sign = md5(&format!("{parameters}{written}{body}{SECRET}"));
    format!("{parameters}.{sign}")
}

#[test]
fn requests_are_verified_with_their_bodies() {
    let (worker, _registry) = worker();
    let filter = filter_in(&KIND, &node!({ "format": "shenyu" }), &worker);
    let with = |target: &str, written: &str, body: &'static str| {
        let token = second("MD5", written, body);
        let mut request =
            get(target, &[("version", "2.0.0"), ("authorization", &token), ("host", "a")]);
        request.body = Body::from(bytes::Bytes::from_static(body.as_bytes()));
        request
    };
    let mut request = with("/a%20b?c=d%C3%A9", "/a b?c=dé", "hello");
    run(&filter, &mut request).unwrap();
    assert_eq!(request.consumer_name(), Some("bob"));
    assert!(!request.headers.contains(Known::Authorization));
    let mut altered = with("/a", "/a", "hello");
    altered.body = Body::from(bytes::Bytes::from_static(b"Hello"));
    assert_eq!(refusal(&filter, &mut altered), "the signature is wrong");
    for (target, written) in [("/a%2Fb", "/a/b"), ("/a?b=1%26c=2", "/a?b=1&c=2")] {
        let refusal = refusal(&filter, &mut with(target, written, ""));
        assert!(refusal.contains("escaped delimiter"), "{refusal}");
    }
    let lax = filter_in(&KIND, &node!({ "format": "shenyu", "body": false }), &worker);
    let token = second("MD5", "/a", "");
    let headers = [("version", "2.0.0"), ("shenyu-authorization", &*token), ("authorization", "x")];
    let mut request = get("/a", &headers);
    request.body = Body::from(bytes::Bytes::from_static(b"not signed"));
    run(&lax, &mut request).unwrap();
    assert_eq!(request.headers.get_str(Known::Authorization), Some("x"));
    assert!(request.headers.get("shenyu-authorization").is_none());
}

#[test]
fn version_1_is_verified() {
    let (worker, _registry) = worker();
    let filter = filter_in(&KIND, &node!({ "format": "shenyu", "body": false }), &worker);
    let with = |time_s: u64| {
        let time = (time_s * 1000).to_string();
        let sign = md5(&format!("path/atimestamp{time}version1.0.0{SECRET}"));
        let headers =
            [("appKey", "b-1"), ("sign", &*sign), ("timestamp", &*time), ("version", "1.0.0")];
        get("/a", &headers)
    };
    let mut request = with(now_s());
    run(&filter, &mut request).unwrap();
    assert!(request.headers.get("sign").is_none() && request.headers.get("appkey").is_none());
    assert_eq!(refusal(&filter, &mut with(now_s() - 400)), "the signature has expired");
    let refusal = refusal(&filter, &mut with(now_s() + 100));
    assert_eq!(refusal, "the signature was created in the future");
}

#[test]
fn forged_and_odd_requests_are_rejected() {
    let (worker, _registry) = worker();
    let filter = filter_in(&KIND, &node!({ "format": "shenyu" }), &worker);
    let token = second("MD5", "/a", "");
    let other = second("HS256", "/a", "");
    let (parameters, sign) = token.split_once('.').unwrap();
    let unknown = STANDARD.encode(r#"{"alg":"MD5","appKey":"x","timestamp":"1"}"#);
    let encoded = |text: &str| format!("{}.{sign}", STANDARD.encode(text));
    for (token, why) in [
        (other, "another algorithm"),
        (format!("{parameters}.{}", sign.to_lowercase()), "upper-case"),
        (format!("{parameters}.{}", &sign[2..]), "is wrong"),
        (format!("{parameters}."), "is wrong"),
        (parameters.to_owned(), "two parts"),
        (format!("{parameters}.{sign}.{sign}"), "upper-case"),
        (format!("!.{sign}"), "not base64"),
        (format!("{unknown}.{sign}"), "has expired"),
        (encoded("{}"), "not all parameters"),
        (encoded(r#"{"alg":"MD5","appKey":"b-1","timestamp":1}"#), "not all parameters"),
        (encoded(r#"{"alg":"MD5","appKey":"b-1","timestamp":"x"}"#), "not a number"),
        (encoded(r#"{"alg":"MD5","alg":"HS256"}"#), "unique names"),
        ("x".repeat(5000), "too long"),
    ] {
        let mut request = get("/a", &[("version", "2.0.0"), ("authorization", &token)]);
        let refusal = refusal(&filter, &mut request);
        assert!(refusal.contains(why), "{refusal}\nwanted {why}: {token}");
    }
    for (headers, why) in [
        (&[][..], "there is no signature"),
        (&[("version", "1.0.0")], "there is no signature"),
        (&[("version", "3.0.0")], "neither 1.0.0 nor 2.0.0"),
        (&[("version", "2.0.0")], "there is no signature"),
    ] {
        assert!(refusal(&filter, &mut get("/a", headers)).contains(why), "{headers:?}");
    }
}
