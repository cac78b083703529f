//! Origins, preflights and the fields of all other responses.

use super::*;
use crate::testing::{errors, filter, get, passed};
use settings::node;

fn settings() -> Node {
    node!({
        "origins": ["https://shop.example.com", "https://*.example.org"],
        "origin_regex": "https://pr-[0-9]+\\.preview\\.dev|https://old",
        "methods": ["GET", "PUT", "DELETE"],
        "headers": ["authorization", "X-Own"],
        "expose": ["x-request-id", "etag"],
        "credentials": true,
        "max_age": "1h",
        "private_network": true,
    })
}

/// The status of a preflight and its response, which the server completes for a fault.
fn preflight(settings: &Node, headers: &[(&str, &str)]) -> Response {
    let cors = filter(&KIND, settings);
    let mut request = get("/", headers);
    request.method = Method::Options;
    let plugin::MaybeFuture::Ready(step) = cors.on_request(&mut request) else { panic!("waits") };
    match step {
        Step::Respond(response) => response,
        Step::Fail(fault) => {
            let mut response = crate::testing::rendered(&fault);
            cors.on_generated(&request, &mut response);
            response
        }
        Step::Continue => Response::new(299),
    }
}

fn simple(settings: &Node, headers: &[(&str, &str)]) -> Response {
    let cors = filter(&KIND, settings);
    let mut request = get("/", headers);
    passed(cors.on_request(&mut request)).unwrap();
    let mut response = Response::new(200);
    for (name, value) in [
        ("access-control-allow-origin", "https://upstream.example"),
        ("access-control-allow-credentials", "true"),
        ("access-control-expose-headers", "x-secret"),
        ("vary", "Accept"),
    ] {
        response.headers.append(name, value);
    }
    passed(cors.on_response(&mut request, &mut response)).unwrap();
    response
}

fn field(response: &Response, name: &str) -> Option<String> {
    let all: Vec<_> = response.headers.get_all(name).map(String::from_utf8_lossy).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

#[test]
fn the_declaration_is_valid() {
    settings::verify::<Cors>().unwrap();
}

#[test]
fn origins_are_allowed_as_a_whole() {
    let table = [
        ("https://shop.example.com", true),
        ("https://a.example.org", true),
        ("https://a.b-c.example.org", true),
        ("https://pr-12.preview.dev", true),
        ("https://old", true),
        ("http://shop.example.com", false),
        ("https://shop.example.com:8443", false),
        ("https://shop.example.com.evil.net", false),
        ("https://evil.net/https://shop.example.com", false),
        ("https://example.org", false),
        ("https://.example.org", false),
        ("https://evilexample.org", false),
        ("https://a.example.org.evil.net", false),
        ("https://evil.net#.example.org", false),
        ("https://pr-12.preview.dev.evil.net", false),
        ("https://evil.net?https://pr-1.preview.dev", false),
        ("https://pr-x.preview.dev", false),
        ("https://pr-1xpreview.dev", false),
        ("https://older", false),
        ("very-https://old", false),
        ("HTTPS://SHOP.EXAMPLE.COM", false),
        ("null", false),
        ("", false),
        ("*", false),
    ];
    for (origin, allowed) in table {
        let response = simple(&settings(), &[("origin", origin)]);
        let wanted = allowed.then(|| origin.to_owned());
        assert_eq!(field(&response, "access-control-allow-origin"), wanted, "{origin}");
        let credentials = field(&response, "access-control-allow-credentials");
        assert_eq!(credentials.is_some(), allowed, "{origin}");
        let exposed = field(&response, "access-control-expose-headers");
        assert_eq!(exposed.as_deref(), allowed.then_some("x-request-id, etag"), "{origin}");
        assert_eq!(field(&response, "vary").as_deref(), Some("Accept, Origin"), "{origin}");
        let request = [("origin", origin), ("access-control-request-method", "PUT")];
        let status = if allowed { 204 } else { 403 };
        assert_eq!(preflight(&settings(), &request).status, status, "{origin}");
    }
}

#[test]
fn preflights_are_allowed_if_everything_is() {
    const ORIGIN: (&str, &str) = ("origin", "https://shop.example.com");
    let method = |value| ("access-control-request-method", value);
    let headers = |value| ("access-control-request-headers", value);
    let private = ("access-control-request-private-network", "true");
    let table: [(&[(&str, &str)], u16); 16] = [
        (&[ORIGIN, method("PUT")], 204),
        (&[ORIGIN, method("GET")], 204),
        // Needs no permission.
        (&[ORIGIN, method("POST")], 204),
        (&[ORIGIN, method("PATCH")], 403),
        (&[ORIGIN, method("put")], 403),
        (&[ORIGIN, method("")], 403),
        (&[ORIGIN, method("PUT"), headers("authorization")], 204),
        (&[ORIGIN, method("PUT"), headers("Authorization,x-own")], 204),
        (&[ORIGIN, method("PUT"), headers("")], 204),
        (&[ORIGIN, method("PUT"), headers("x-other")], 403),
        (&[ORIGIN, method("PUT"), headers("x-own"), headers("x-other")], 403),
        (&[ORIGIN, method("PUT"), headers("x-own, a b")], 403),
        (&[ORIGIN, method("PUT"), private], 204),
        // Not preflights: they pass.
        (&[ORIGIN], 299),
        (&[method("PUT")], 299),
        (&[ORIGIN, ORIGIN, method("PUT")], 403),
    ];
    for (request, status) in table {
        let response = preflight(&settings(), request);
        assert_eq!(response.status, status, "{request:?}");
        if status == 299 {
            continue;
        }
        let vary = field(&response, "vary").unwrap();
        for name in ["Origin", "Access-Control-Request-Method", "Access-Control-Request-Headers"] {
            assert!(vary.contains(name), "{request:?}: {vary}");
        }
        let allowed = status == 204;
        assert_eq!(field(&response, "access-control-max-age").is_some(), allowed, "{request:?}");
        assert_eq!(field(&response, "access-control-allow-methods").is_some(), allowed);
    }
}

#[test]
fn an_allowed_preflight_says_what_is_allowed() {
    let response = preflight(
        &settings(),
        &[
            ("origin", "https://shop.example.com"),
            ("access-control-request-method", "PUT"),
            ("access-control-request-headers", "x-own, Authorization"),
            ("access-control-request-private-network", "true"),
        ],
    );
    for (name, value) in [
        ("access-control-allow-origin", "https://shop.example.com"),
        ("access-control-allow-credentials", "true"),
        ("access-control-allow-methods", "GET, PUT, DELETE"),
        ("access-control-allow-headers", "x-own, Authorization"),
        ("access-control-max-age", "3600"),
        ("access-control-allow-private-network", "true"),
    ] {
        assert_eq!(field(&response, name).as_deref(), Some(value), "{name}");
    }
}

#[test]
fn a_private_network_needs_permission() {
    let settings = node!({ "origins": "*" });
    let request = [
        ("origin", "https://a.example"),
        ("access-control-request-method", "GET"),
        ("access-control-request-private-network", "true"),
    ];
    assert_eq!(preflight(&settings, &request).status, 403);
    assert_eq!(preflight(&settings, &request[..2]).status, 204);
}

#[test]
fn every_origin_gets_a_wildcard_that_caches_can_share() {
    let settings = node!({ "origins": "*", "headers": ["*"] });
    for headers in [&[("origin", "https://a.example")][..], &[("origin", "null")], &[]] {
        let response = simple(&settings, headers);
        assert_eq!(field(&response, "access-control-allow-origin").as_deref(), Some("*"));
        assert_eq!(field(&response, "access-control-allow-credentials"), None);
        assert_eq!(field(&response, "vary").as_deref(), Some("Accept"));
    }
    let request = [
        ("origin", "https://a.example"),
        ("access-control-request-method", "GET"),
        ("access-control-request-headers", "x-any"),
    ];
    let response = preflight(&settings, &request);
    assert_eq!(field(&response, "access-control-allow-headers").as_deref(), Some("x-any"));
}

#[test]
fn generated_responses_have_the_fields_too() {
    let cors = filter(&KIND, &settings());
    let request = get("/", &[("origin", "https://shop.example.com")]);
    let mut response = Response::new(502);
    cors.on_generated(&request, &mut response);
    let allowed = field(&response, "access-control-allow-origin");
    assert_eq!(allowed.as_deref(), Some("https://shop.example.com"));
    assert_eq!(field(&response, "vary").as_deref(), Some("Origin"));
}

#[test]
fn errors_are_named() {
    for (settings, why) in [
        (node!({}), "no origin is allowed"),
        (node!({ "origins": "*", "credentials": true }), "act as its visitor"),
        (node!({ "origins": ["*", "https://a.example"] }), "stands alone"),
        (node!({ "origins": "*", "origin_regex": "a" }), "stands alone"),
        (node!({ "origins": "https://a.example/" }), "is not an origin"),
        (node!({ "origins": "https://a.example:443" }), "default port"),
        (node!({ "origins": "null" }), "is not an origin"),
        (node!({ "origin_regex": "(" }), "unclosed group"),
        (node!({ "origin_regex": ".*", "credentials": true }), "act as its visitor"),
        (node!({ "origin_regex": "https?://.+", "credentials": true }), "act as its visitor"),
        (node!({ "origin_regex": "https://a|null", "credentials": true }), "act as its visitor"),
        (node!({ "origin_regex": "https://[^/]*:8443", "credentials": true }), "act as its"),
        (node!({ "origins": "*", "methods": [] }), "no method is allowed"),
        (node!({ "origins": "*", "methods": ["G T"] }), "is not a method"),
        (node!({ "origins": "*", "max_age": "2d" }), "1d"),
    ] {
        let report = errors(&KIND, &settings);
        assert!(report.contains(why), "{report}\nwanted {why}");
    }
}
