//! Bodies and parameters against schemas, and what the responses say.

use super::*;
use message::{Headers, Target};
use settings::{Report, node};
use wire::Method;

fn plan(settings: &Node) -> Result<Arc<dyn FilterPlan>, String> {
    let mut report = Report::new();
    let plan = read(settings, &mut Reader::new(&mut report));
    match plan {
        Some(plan) if report.is_empty() => Ok(plan),
        _ => Err(report.render()),
    }
}

fn request(target: &str, fields: &[(&str, &str)], body: &str) -> Request {
    let mut headers = Headers::new();
    fields.iter().for_each(|(name, value)| headers.append(*name, *value));
    let target = Target::new(Bytes::copy_from_slice(target.as_bytes())).unwrap();
    let mut request = Request::made_up(Method::Post, target, headers);
    request.body = Body::from(body.to_owned());
    request
}

/// The status, and the problem's errors as `in pointer keyword`.
fn checked(settings: &Node, request: &mut Request) -> (u16, Vec<String>) {
    let Stage::Filter(filter) = plan(settings).unwrap().build(&WorkerContext::default()) else {
        panic!("not a filter")
    };
    let mut response = match net::worker::block_on_local(filter.on_request(request).resolve()) {
        Step::Continue => return (200, Vec::new()),
        Step::Fail(fault) => return (fault.status, Vec::new()),
        Step::Respond(response) => response,
    };
    let content = net::worker::block_on_local(response.body.collect(1 << 20)).unwrap();
    let problem: serde_json::Value = serde_json::from_slice(&content).unwrap();
    assert_eq!(problem["status"], response.status);
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let errors = problem["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|error| ["in", "pointer", "keyword"].map(|key| text(&error[key])).join(" "));
    (response.status, errors.collect())
}

fn user() -> Node {
    node!({ "body": {
        "type": "object",
        "required": ["name"],
        "properties": {
            "name": { "type": "string", "maxLength": 8, "pattern": "^[a-z]+$" },
            "age": { "type": "integer", "minimum": 0 },
            "mail": { "type": "string", "format": "email" },
            "next": { "$ref": "#" },
        },
        "additionalProperties": false,
    } })
}

const JSON: (&str, &str) = ("content-type", "application/json");

#[test]
fn the_declaration_is_valid() {
    settings::verify::<Validate>().unwrap();
}

#[test]
fn bodies_are_checked_and_errors_name_places_only() {
    for (body, status, errors) in [
        (r#"{"name":"ann","age":3}"#, 200, &[][..]),
        (r#"{"name":"ann","next":{"name":"bob"}}"#, 200, &[]),
        (r#"{"age":3}"#, 400, &["body  required"]),
        (r#"{"name":"SECRET","age":-1}"#, 400, &["body /name pattern", "body /age minimum"]),
        (r#"{"name":"ann","next":{"name":5}}"#, 400, &["body /next/name type"]),
        (r#"{"name":"ann","SECRET":5}"#, 400, &["body  additionalProperties"]),
        (r#"{"name":"ann","mail":"SECRET"}"#, 400, &["body /mail format"]),
        (r#"{"name":"ann""#, 400, &["body  not JSON at byte 13"]),
        (
            r#"{"name":"ann","name":"SECRET"}"#,
            400,
            &["body  an object has two members of one name"],
        ),
        (r#"{"name":"ann","age":1e999}"#, 400, &["body  unsupported number"]),
        ("", 400, &["body  required"]),
    ] {
        let mut request = request("/", &[JSON], body);
        let (found, found_errors) = checked(&user(), &mut request);
        assert_eq!((found, found_errors), (status, errors.iter().map(|e| (*e).into()).collect()));
        if status == 200 {
            let forwarded = net::worker::block_on_local(request.body.collect(1 << 20)).unwrap();
            assert_eq!(forwarded, body, "what was checked is forwarded");
        }
    }
}

#[test]
fn large_and_compressed_bodies_are_checked() {
    let settings = node!({ "body": { "type": "array", "maxItems": 40000 }, "max_size": "200KiB" });
    let list = |items: usize| format!("[{}0]", "0,".repeat(items - 1));
    for (items, status) in [(40_000, 200), (40_001, 400), (120_000, 413)] {
        assert_eq!(checked(&settings, &mut request("/", &[JSON], &list(items))).0, status);
        let gzip = coding::encode_all(coding::Coding::Gzip, 5, list(items).as_bytes()).unwrap();
        let mut request = request("/", &[JSON, ("content-encoding", "gzip")], "");
        request.body = Body::from(Bytes::from(gzip));
        assert_eq!(checked(&settings, &mut request).0, status);
        assert_eq!(request.headers.contains("content-encoding"), status == 413);
    }
}

#[test]
fn other_media_types_are_rejected() {
    for (fields, status) in [
        (&[][..], 415),
        (&[("content-type", "text/plain")], 415),
        (&[("content-type", "application/merge-patch+json; x=y")], 200),
        (&[("content-type", "text/json")], 200),
        (&[JSON, ("content-type", "text/plain")], 415),
        (&[("content-type", "text/plain"), JSON], 415),
        (&[JSON, ("content-encoding", "deflate")], 415),
        (&[("content-type", "application/json; charset=UTF-8")], 200),
        (&[("content-type", "application/json; charset=\"us-ascii\"")], 200),
        (&[("content-type", "application/json; charset=utf8; x=y")], 200),
        // The recipient would decode other members than those that were checked.
        (&[("content-type", "application/json; charset=utf-7")], 415),
        (&[("content-type", "application/json; charset=utf-8; charset=utf-7")], 415),
        (&[("content-type", "application/json; charset*=us-ascii''ibm037")], 415),
        (&[("content-type", "application/json; charset*0=ibm; charset*1=037")], 415),
        (&[("content-type", "application/json; x=\"\\\"; charset=utf-7; \\\"\"")], 415),
    ] {
        let mut request = request("/", fields, r#"{"name":"ann"}"#);
        assert_eq!(checked(&user(), &mut request).0, status, "{fields:?}");
    }
}

#[test]
fn an_empty_body_may_be_allowed() {
    let settings = node!({ "body": { "type": "object" }, "body_required": false });
    assert_eq!(checked(&settings, &mut request("/", &[], "")).0, 200);
    for fields in [&[][..], &[JSON], &[JSON, ("content-encoding", "gzip")]] {
        let mut chunked = request("/", fields, "");
        chunked.body = crate::content::tests::no_chunks();
        assert_eq!(checked(&settings, &mut chunked).0, 200, "{fields:?}");
        assert!(chunked.body.is_empty());
        chunked.body = crate::content::tests::no_chunks();
        assert_eq!(checked(&user(), &mut chunked), (400, vec!["body  required".to_owned()]));
    }
    let mut chunked = request("/", &[], "");
    chunked.body = plugin::testing::body_with_trailers(&[]);
    assert_eq!(checked(&settings, &mut chunked).0, 415, "it has a byte");
}

#[test]
fn parameters_have_the_types_of_their_schema() {
    let settings = node!({
        "query": {
            "required": ["page"],
            "properties": {
                "page": { "type": "integer", "minimum": 1 },
                "all": { "type": "boolean" },
                "tag": { "type": "array", "items": { "$ref": "#/$defs/word" }, "maxItems": 2 },
                "id": { "$ref": "#/$defs/word" },
            },
            "additionalProperties": false,
            "$defs": { "word": { "type": "string", "maxLength": 3 } },
        },
        "headers": {
            "required": ["x-id"],
            "properties": { "X-Count": { "type": "number", "maximum": 5 } },
            "additionalProperties": true,
        },
    });
    let id = ("x-id", "1");
    for (target, fields, error) in [
        ("/?page=2&all=true&tag=a&tag=b&id=5", &[id, ("x-count", "4.5")][..], None),
        ("/?page=2&tag=a", &[id], None),
        ("/?tag=a", &[id], Some("query  required")),
        ("/?page=0", &[id], Some("query /page minimum")),
        ("/?page=x", &[id], Some("query /page type")),
        ("/?page=%205", &[id], Some("query /page type")),
        ("/?page=5%0a", &[id], Some("query /page type")),
        ("/?page=1&page=2", &[id], Some("query /page type")),
        ("/?page=1&all=yes", &[id], Some("query /all type")),
        ("/?page=1&tag=a&tag=b&tag=c", &[id], Some("query /tag maxItems")),
        ("/?page=1&id=long", &[id], Some("query /id maxLength")),
        ("/?page=1&x=1", &[id], Some("query  additionalProperties")),
        (&("/?".to_owned() + &"id=a&".repeat(2000)), &[id], Some("query /id type")),
        ("/?page=1", &[], Some("headers  required")),
        ("/?page=1", &[id, ("x-count", "6")], Some("headers /X-Count maximum")),
        ("/?page=1", &[id, ("X_Count", "6")], Some("headers /X-Count maximum")),
        ("/?page=1", &[id, ("x-count", "5"), ("X_Count", "6")], Some("headers /X-Count type")),
    ] {
        let (status, errors) = checked(&settings, &mut request(target, fields, ""));
        assert_eq!(errors.first().map(String::as_str), error, "{target}");
        assert_eq!(status, if error.is_some() { 400 } else { 200 }, "{target}");
    }
}

#[test]
fn path_parameters_are_checked() {
    let settings = node!({ "path": { "properties": { "id": { "type": "integer" } } } });
    for (path, status) in [("/users/42", 200), ("/users/me", 400)] {
        let mut request = request(path, &[], "");
        let names: Arc<[Box<str>]> = Arc::from(vec![Box::from("id")]);
        request.params = message::Params::new(names, &[(7, path.len() as u16)]);
        assert_eq!(checked(&settings, &mut request).0, status);
    }
}

#[test]
fn log_only_forwards_and_the_status_is_a_setting() {
    let query = node!({ "query": { "required": ["a"] }, "status": 422 });
    assert_eq!(checked(&query, &mut request("/", &[], "")).0, 422);
    let logged = node!({ "query": { "required": ["a"] }, "log_only": true });
    assert_eq!(checked(&logged, &mut request("/", &[], "")).0, 200);
}

#[test]
fn errors_are_named() {
    for (settings, why) in [
        (node!({}), "checks nothing"),
        (node!({ "body": { "type": "objekt" } }), "not a valid JSON Schema"),
        (node!({ "body": { "pattern": "(?=x)" } }), "not a valid JSON Schema"),
        (node!({ "body": { "$ref": "https://example.com/schema" } }), "not a valid JSON Schema"),
        (
            node!({ "body": { "properties": { "age": { "maximun": 5 } } } }),
            "unknown keyword \"maximun\" in /properties/age, did you mean \"maximum\"?",
        ),
        (node!({ "query": { "schema": {} } }), "unknown keyword \"schema\" in the schema"),
        (node!({ "body": "schema.json" }), "a JSON Schema, or { file: schema.json }"),
        (node!({ "body": { "file": "/nonexistent/schema.json" } }), "cannot read"),
        (node!({ "query": {}, "status": 200 }), "400"),
    ] {
        let report = plan(&settings).err().expect("an error");
        assert!(report.contains(why), "{report}\nwanted {why}");
    }
}
