//! Edits of requests and responses, and what cannot be edited.

use std::rc::Rc;

use super::*;
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
    let target = Target::new(Bytes::from_static(b"/?q=a%22b")).unwrap();
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

#[test]
fn the_declaration_is_valid() {
    settings::verify::<JsonBody>().unwrap();
}

#[test]
fn requests_are_edited_in_order() {
    let settings = node!({ "request": [
        { "copy": "/name", "from": "/user/name" },
        { "remove": "/user" },
        { "remove": "/nothing/there" },
        { "add": "/meta", "value": { "q": "{query.q}", "n": 1.50, "list": [null, true, "x{{"] } },
        { "replace": "/big", "value": null },
    ] });
    let filter = filter(&settings);
    let body = r#"{"user": {"name": "Ann"}, "id": 12345678901234567890123, "big": 1}"#;
    let mut request = request(&[JSON, ("content-length", "66")], Body::from(body));
    finished(filter.on_request(&mut request)).unwrap();
    assert_eq!(
        content(&mut request.body),
        concat!(
            r#"{"id":12345678901234567890123,"big":null,"name":"Ann","#,
            r#""meta":{"q":"a\"b","n":1.5,"list":[null,true,"x{"]}}"#
        )
    );
    assert!(!request.headers.contains("content-length"));
}

#[test]
fn a_body_that_turns_out_empty_passes() {
    let filter = filter(&node!({
        "request": [{ "add": "/a", "value": 1 }], "response": [{ "add": "/a", "value": 1 }],
    }));
    let mut request = request(&[JSON], crate::content::tests::no_chunks());
    finished(filter.on_request(&mut request)).unwrap();
    assert!(request.body.is_empty());
    let mut response = Response::json(200, crate::content::tests::no_chunks());
    finished(filter.on_response(&mut request, &mut response)).unwrap();
    assert!(response.body.is_empty());
}

#[test]
fn a_trailer_of_the_client_is_not_a_header_of_the_body() {
    let filter = filter(&node!({ "headers": { "x-tenant": "/tenant/id" } }));
    let body = plugin::testing::body_with_trailers(&["X_Tenant", "x-sum"]);
    let mut request = request(&[("content-type", "text/plain")], body);
    finished(filter.on_request(&mut request)).unwrap();
    assert_eq!(plugin::testing::trailer_names(request.body), ["x-sum"]);
}

#[test]
fn headers_come_from_the_body_and_never_from_the_client() {
    let settings = node!({
        "headers": { "x-tenant": "/tenant/id", "x-tags": "/tags", "x-none": "/none" },
        "request": [{ "remove": "/tenant" }],
    });
    assert_eq!(
        plan(&settings).unwrap().describe(),
        "request -/tenant, headers x-tenant x-tags x-none"
    );
    let filter = filter(&settings);
    const FORGED: [(&str, &str); 3] = [("X_Tenant", "root"), ("x-none", "1"), ("x-tenant", "root")];
    let seen = |media_type: &'static str, body: &'static str| {
        let mut fields = FORGED.to_vec();
        fields.push(("content-type", media_type));
        let mut request = request(&fields, Body::from(body));
        finished(filter.on_request(&mut request)).unwrap();
        let field = |name: &str| request.headers.joined(name).map(|value| value.into_owned());
        let fields = ["x-tenant", "x_tenant", "x-tags", "x-none"].map(field);
        let shown = |value: Option<Vec<u8>>| {
            value.map_or("-".to_owned(), |v| String::from_utf8(v).unwrap())
        };
        (fields.map(shown).join(" "), content(&mut request.body))
    };
    let body = r#"{"tenant":{"id":17},"tags":["a", "b"],"none":null}"#;
    let (fields, rest) = seen(JSON.1, body);
    assert_eq!(fields, r#"17 - ["a","b"] -"#);
    assert_eq!(rest, r#"{"tags":["a", "b"],"none":null}"#.replace(", ", ","));
    for (media_type, body) in [("text/plain", body), (JSON.1, "{}"), (JSON.1, "[1]"), (JSON.1, "")]
    {
        assert_eq!(seen(media_type, body).0, "- - - -", "{body}");
    }
}

#[test]
fn values_that_a_header_cannot_have_are_rejected_and_a_body_without_operations_stays() {
    let filter = filter(&node!({ "headers": { "x-name": "/name" } }));
    let long = format!(r#"{{"name":"{}"}}"#, "x".repeat(4097));
    for body in
        [r#"{"name":"a\r\nb: c"}"#, r#"{"name":"\u0000"}"#, r#"{"name":"\ud800"}"#, "{", &long]
    {
        let mut request = request(&[JSON], Body::from(body.to_owned()));
        let fault = finished(filter.on_request(&mut request)).unwrap_err();
        assert_eq!(fault.status, 400, "{body}");
        assert!(!request.headers.contains("x-name"));
    }
    let spelled = "{ \"name\" : \"J\u{fc}rgen\" }";
    let mut request = request(&[JSON], Body::from(spelled));
    finished(filter.on_request(&mut request)).unwrap();
    assert_eq!(request.headers.get("x-name"), Some("J\u{fc}rgen".as_bytes()));
    assert_eq!(content(&mut request.body), spelled);
}

#[test]
fn a_whole_body_is_a_template() {
    let settings = node!({ "request": [{ "replace": "", "value": { "text": "{query.q}" } }] });
    let mut request = request(&[JSON], Body::from("[1]"));
    finished(filter(&settings).on_request(&mut request)).unwrap();
    assert_eq!(content(&mut request.body), r#"{"text":"a\"b"}"#);
}

#[test]
fn other_types_and_empty_bodies_pass() {
    let filter = filter(&node!({ "request": [{ "remove": "/a" }] }));
    for (media_type, body) in
        [("text/plain", "{\"a\":1}"), ("application/jsonp", "{"), (JSON.1, "")]
    {
        let mut request = request(&[("content-type", media_type)], Body::from(body));
        finished(filter.on_request(&mut request)).unwrap();
        assert_eq!(content(&mut request.body), body);
    }
}

#[test]
fn what_cannot_be_edited_is_rejected() {
    let filter = filter(&node!({ "request": [{ "remove": "/a" }], "max_size": "16B" }));
    let zeros = coding::encode_all(coding::Coding::Gzip, 5, &[b' '; 4096]).unwrap();
    assert!(zeros.len() > 16, "the limit must not meet the compressed form first");
    for (fields, body, status) in [
        (&[JSON][..], Bytes::from_static(b"{\"a\":1"), 400),
        (&[JSON], Bytes::from_static(b"{\"a\":1,\"a\":2}"), 400),
        (&[JSON], Bytes::from_static(b"{\"a\":1,\"b\":22222}"), 413),
        (&[JSON, ("content-type", "text/plain")], Bytes::from_static(b"{}"), 415),
        (&[("content-type", "text/plain"), JSON], Bytes::from_static(b"{}"), 415),
        (&[JSON, ("content-encoding", "deflate")], Bytes::from_static(b"{}"), 415),
        (&[("content-type", "application/json; charset=utf-7")], Bytes::from_static(b"{}"), 415),
        (&[JSON, ("content-encoding", "gzip, br")], Bytes::from_static(b"{}"), 415),
        (&[JSON, ("content-encoding", "gzip")], Bytes::from_static(b"{}"), 400),
        (&[JSON, ("content-encoding", "gzip")], Bytes::from(zeros.clone()), 413),
    ] {
        let mut request = request(fields, Body::from(body));
        let fault = finished(filter.on_request(&mut request)).unwrap_err();
        assert_eq!(fault.status, status, "{fields:?} {fault}");
    }
}

#[test]
fn compressed_bodies_are_decoded() {
    let filter = filter(&node!({
        "request": [{ "remove": "/a" }], "response": [{ "remove": "/a" }],
    }));
    for coding in coding::Coding::ALL {
        let body = coding::encode_all(coding, 3, br#"{"a":1,"b":2}"#).unwrap();
        let encoded = ("content-encoding", coding.token());
        let mut request = request(&[JSON, encoded, ("range", "bytes=0-1")], Body::from("{}"));
        request.body = Body::from(Bytes::from(body.clone()));
        finished(filter.on_request(&mut request)).unwrap();
        assert_eq!(content(&mut request.body), r#"{"b":2}"#);
        assert!(!request.headers.contains("content-encoding"));
        assert!(!request.headers.contains("range"), "a part of a response cannot be edited");
        let mut response = Response::json(200, Bytes::from(body));
        response.headers.append("content-encoding", coding.token());
        response.headers.append("etag", "\"1\"");
        finished(filter.on_response(&mut request, &mut response)).unwrap();
        assert_eq!(content(&mut response.body), r#"{"b":2}"#);
        assert!(!response.headers.contains("content-encoding"));
        assert_eq!(response.headers.get("etag"), Some(&b"W/\"1\""[..]));
    }
}

#[test]
fn copies_do_not_exceed_the_largest_body() {
    // Each operation doubles the body.
    let two = node!({ "max_size": "64B", "request": [
        { "copy": "/a/-", "from": "" },
        { "copy": "/a/-", "from": "" }
    ] });
    let three = node!({
        "max_size": "64B",
        "request": [
            { "copy": "/a/-", "from": "" },
            { "copy": "/a/-", "from": "" },
            { "copy": "/a/-", "from": "" }
        ],
        "response": [
            { "copy": "/a/-", "from": "" },
            { "copy": "/a/-", "from": "" },
            { "copy": "/a/-", "from": "" }
        ]
    });
    let body = || Body::from(Bytes::from_static(b"{\"a\":[]}"));
    finished(filter(&two).on_request(&mut request(&[JSON], body()))).unwrap();
    let filter = filter(&three);
    let fault = finished(filter.on_request(&mut request(&[JSON], body()))).unwrap_err();
    assert_eq!(fault.status, 413, "{fault}");
    let mut response = Response::json(200, "{\"a\":[]}");
    let mut get = request(&[], Body::Empty);
    let fault = finished(filter.on_response(&mut get, &mut response)).unwrap_err();
    assert_eq!(fault.status, 502, "{fault}");
}

#[test]
fn responses_that_cannot_be_edited_are_never_sent_unedited() {
    let filter = filter(&node!({ "response": [{ "remove": "/secret" }], "max_size": "32B" }));
    let mut get = request(&[], Body::Empty);
    for (coding, body) in [
        (None, r#"{"secret":1"#),
        (None, r#"{"secret":1,"more":"0123456789"}  "#),
        (Some("deflate"), r#"{"secret":1}"#),
    ] {
        let mut response = Response::json(200, body);
        coding.inspect(|coding| response.headers.append("content-encoding", *coding));
        let fault = finished(filter.on_response(&mut get, &mut response)).unwrap_err();
        assert_eq!(fault.status, 502, "{fault}");
    }
    let mut response = Response::text(200, r#"{"secret":1}"#);
    finished(filter.on_response(&mut get, &mut response)).unwrap();
    assert_eq!(content(&mut response.body), r#"{"secret":1}"#);
    get.method = Method::Head;
    let mut response = Response::json(200, Body::Empty);
    response.headers.append("content-length", "12");
    finished(filter.on_response(&mut get, &mut response)).unwrap();
    assert!(!response.headers.contains("content-length"));
}

#[test]
fn errors_are_named() {
    for (settings, why) in [
        (node!({}), "edits nothing"),
        (node!({ "headers": { "content-length": "/a" } }), "frames messages"),
        (node!({ "headers": { "x y": "/a" } }), "is not a valid header name"),
        (node!({ "headers": { "x-y": "a" } }), "is not a JSON Pointer"),
        (node!({ "request": [{ "remove": "a" }] }), "is not a JSON Pointer"),
        (node!({ "request": [{ "remove": "" }] }), "cannot be removed"),
        (node!({ "request": [{ "add": "/a" }] }), "have a value"),
        (node!({ "request": [{ "remove": "/a", "value": 1 }] }), "have none"),
        (node!({ "request": [{ "copy": "/a" }] }), "copy has from"),
        (node!({ "request": [{ "add": "/a", "remove": "/b", "value": 1 }] }), "is one of"),
        (node!({ "request": [{ "add": "/a", "value": ["{hots}"] }] }), "variable"),
        (node!({ "request": [{ "remove": "/a" }], "types": [] }), "without types"),
        (node!({ "request": [{ "remove": "/a" }], "max_size": "1GiB" }), "64MiB"),
    ] {
        let report = plan(&settings).err().expect("an error");
        assert!(report.contains(why), "{report}\nwanted {why}");
    }
}
