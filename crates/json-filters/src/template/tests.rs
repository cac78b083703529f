//! New bodies by format, and what is rejected.

use std::rc::Rc;

use super::*;
use crate::content::ON_WORKER_BYTES;
use message::{Headers, Target};
use settings::{Report, node};

fn plan(settings: &Node) -> Result<Arc<dyn FilterPlan>, String> {
    let mut report = Report::new();
    let plan = read(settings, &mut Reader::new(&mut report));
    match plan {
        Some(plan) if report.is_empty() => Ok(plan),
        _ => Err(report.render()),
    }
}

fn filter(settings: &Node) -> Rc<dyn Filter> {
    match plan(settings).unwrap().build(&WorkerContext::default()) {
        Stage::Filter(filter) => filter,
        Stage::Middleware(_) => panic!("not a filter"),
    }
}

fn request(fields: &[(&str, &str)], body: Body) -> Request {
    let mut headers = Headers::new();
    fields.iter().for_each(|(name, value)| headers.append(*name, *value));
    let target = Target::new(Bytes::from_static(b"/?q=a%22b%3C%26")).unwrap();
    let mut request = Request::made_up(Method::Post, target, headers);
    request.body = body;
    request
}

fn finished(step: MaybeFuture<'_, Step>) -> Result<(), Fault> {
    match net::worker::block_on_local(step.resolve()) {
        Step::Continue => Ok(()),
        Step::Fail(fault) => Err(fault),
        Step::Respond(response) => panic!("responded {}", response.status),
    }
}

fn content(body: &mut Body) -> String {
    let bytes = net::worker::block_on_local(body.collect(1 << 20)).unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

const JSON: (&str, &str) = ("content-type", "application/json; charset=utf-8");
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

#[test]
fn the_declaration_is_valid() {
    settings::verify::<BodyTemplates>().unwrap();
}

/// What a template makes of a body: values stay values in every format.
#[test]
fn values_are_escaped_for_the_format_of_the_new_body() {
    let document = r#"{"id": 12345678901234567890, "user": {"name": "A\"\n<&>"}, "no": null}"#;
    for (old, body, content_type, text, wanted) in [
        (
            JSON,
            document,
            "application/json",
            r#"{{"u": {json /user}, "n": {json /id}, "t": "{json /user/name}/{json /id}"}}"#,
            concat!(
                r#"{"u": {"name":"A\"\n<&>"}, "n": 12345678901234567890, "#,
                r#""t": "A\"\n<&>/12345678901234567890"}"#
            ),
        ),
        (
            JSON,
            document,
            "application/problem+json",
            r#"[{json /x}, "{json /x}", {query.q}, "\\\"{query.q}", {json /no}, "{json /no}"]"#,
            r#"[null, "", "a\"b<&", "\\\"a\"b<&", null, ""]"#,
        ),
        (
            JSON,
            document,
            "text/json",
            r#"["{query.q}", {json /id}]"#,
            concat!(r#"["a\"b<&", "#, "12345678901234567890]"),
        ),
        (
            JSON,
            "[1, true]",
            "text/xml; charset=utf-8",
            "<a b='{query.q}'>{json /1}{json}</a>",
            "<a b='a&quot;b&lt;&amp;'>true[1,true]</a>",
        ),
        (JSON, r#"{"a":"\u0001x"}"#, "image/svg+xml", "<t>{json /a}</t>", "<t>\u{fffd}x</t>"),
        (
            JSON,
            document,
            FORM.1,
            "n={json /user/name}&q={query.q}",
            "n=A%22%0A%3C%26%3E&q=a%22b%3C%26",
        ),
        (JSON, document, "text/plain", "{{{json /user/name}}}", "{A\"\n<&>}"),
        (
            FORM,
            "a=1+2&b=%22&a=3",
            "application/json",
            r#"{{"a": {form a}, "b": "{form b}", "c": {form c}}}"#,
            r#"{"a": "1 2", "b": "\"", "c": null}"#,
        ),
        (
            ("content-type", "image/png"),
            "\u{0}",
            "application/json",
            r#"{{"q": {query.q}}}"#,
            r#"{"q": "a\"b<&"}"#,
        ),
    ] {
        let filter = filter(&node!({ "request": { "body": text, "content_type": content_type } }));
        let mut request = request(&[old, ("content-md5", "x")], Body::from(body));
        finished(filter.on_request(&mut request)).unwrap();
        assert_eq!(content(&mut request.body), wanted, "{text}");
        assert_eq!(request.headers.get(Known::ContentType), Some(content_type.as_bytes()));
        assert!(!request.headers.contains("content-md5"));
    }
}

#[test]
fn requests_that_a_template_cannot_read_are_rejected() {
    let json =
        filter(&node!({ "request": { "body": "[{json /a},{json /a}]" }, "max_size": "16B" }));
    let form = filter(&node!({ "request": { "body": "[{form a}]" } }));
    let encoded = ("content-encoding", "deflate");
    let utf7 = format!("{}; charset=utf-7", FORM.1);
    for (filter, fields, body, status) in [
        (&json, &[JSON][..], "{\"a\":1", 400),
        (&json, &[JSON], "{\"a\":1,\"b\":22222}", 413),
        (&json, &[JSON], "{\"a\":\"56789012\"}", 413),
        (&json, &[JSON, encoded], "{}", 415),
        (&json, &[FORM], "a=1", 415),
        (&json, &[], "{}", 415),
        (&form, &[FORM], "a=%ff", 400),
        (&form, &[JSON], "{}", 415),
        (&form, &[("content-type", &utf7)], "a=1", 415),
    ] {
        let mut request = request(fields, Body::from(body));
        let fault = finished(filter.on_request(&mut request)).unwrap_err();
        assert_eq!(fault.status, status, "{fields:?} {body} {fault}");
    }
    let mut surrogate = request(&[JSON], Body::from(r#"["\ud800"]"#));
    let text = filter(&node!({ "request": { "body": "{json /0}", "content_type": "text/plain" } }));
    assert_eq!(finished(text.on_request(&mut surrogate)).unwrap_err().status, 400);
    let mut empty = request(&[], Body::Empty);
    finished(json.on_request(&mut empty)).unwrap();
    assert!(empty.body.is_empty());
    for fields in [&[][..], &[JSON], &[FORM]] {
        let mut empty = request(fields, crate::content::tests::no_chunks());
        finished(json.on_request(&mut empty)).unwrap();
        assert!(empty.body.is_empty(), "{fields:?}");
    }
}

#[test]
fn successful_responses_get_the_new_body() {
    let filter = filter(&node!({
        "response": { "body": "<a>{json /a}</a>", "content_type": "text/xml" }, "max_size": "64B",
    }));
    let mut get = request(&[("range", "bytes=0-1")], Body::Empty);
    finished(filter.on_request(&mut get)).unwrap();
    assert!(!get.headers.contains("range"), "a template reads a whole document");
    let sent = |mut response: Response, get: &mut Request| {
        finished(filter.on_response(get, &mut response)).map(|()| response)
    };
    let mut old = Response::json(201, r#"{"a":"<"}"#);
    old.headers.append("etag", "\"1\"");
    old.headers.append("content-length", "9");
    let mut new = sent(old, &mut get).unwrap();
    assert_eq!(content(&mut new.body), "<a>&lt;</a>");
    assert_eq!(new.headers.get("etag"), Some(&b"W/\"1\""[..]));
    assert_eq!(new.headers.get("content-type"), Some(&b"text/xml"[..]));
    assert!(!new.headers.contains("content-length"));

    for passing in [Response::json(404, "{}"), Response::json(206, "{"), Response::text(200, "{}")]
    {
        let (status, mut old) = (passing.status, passing);
        let expected = content(&mut old.body);
        old.body = Body::from(expected.clone());
        let mut new = sent(old, &mut get).unwrap();
        assert_eq!((new.status, content(&mut new.body)), (status, expected));
    }
    let long = format!(r#"{{"a":"{}"}}"#, "<".repeat(40));
    for broken in ["{".to_owned(), long] {
        assert_eq!(
            sent(Response::json(200, broken), &mut get).err().map(|fault| fault.status),
            Some(502)
        );
    }
    get.method = Method::Head;
    let mut head = Response::json(200, Body::Empty);
    head.headers.append("content-length", "9");
    let head = sent(head, &mut get).unwrap();
    assert!(!head.headers.contains("content-length"));
    assert_eq!(head.headers.get("content-type"), Some(&b"text/xml"[..]), "as for GET");
}

#[test]
fn large_bodies_are_filled_in_on_another_thread() {
    let filter = filter(&node!({ "request": { "body": "[{json /a}, {query.q}]" } }));
    let long = "x".repeat(ON_WORKER_BYTES);
    let mut request = request(&[JSON], Body::from(format!(r#"{{"a":"{long}"}}"#)));
    finished(filter.on_request(&mut request)).unwrap();
    assert_eq!(content(&mut request.body), format!(r#"["{long}", "a\"b<&"]"#));
}

#[test]
fn errors_are_named() {
    let body = |text: &str| node!({ "request": { "body": text } });
    for (settings, why) in [
        (node!({}), "replaces nothing"),
        (node!({ "request": { "body": "1" }, "types": [] }), "without types"),
        (node!({ "response": { "body": "1", "content_type": "json" } }), "is not a media type"),
        (node!({ "response": { "body": "1", "content_type": "text/*" } }), "is not a media type"),
        (body("{json a}"), "is not a JSON Pointer"),
        (body("{jsn /a}"), "variable"),
        (body("{json/a}"), "is not {json /user/name}"),
        (body("{form}"), "is not {form name}"),
        (body("[{json /a}, {form a}]"), "either JSON or a form"),
        (body("{json /a} {json /b}"), "is not JSON"),
        (body("\"\\{json /a}\""), "is not JSON"),
        (body("{{\"a\": {json /a}"), "is not JSON"),
        (body("{json /a"), "without its }"),
    ] {
        let report = plan(&settings).err().expect("an error");
        assert!(report.contains(why), "{report}\nwanted {why}");
    }
}
