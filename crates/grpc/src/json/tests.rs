//! `grpc_json` in both directions, with the service of `examples/grpc`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use message::{Body, BodyStream, Fault, Frame, Headers, Request, Response, Target};
use plugin::{Filter, Step};
use prost_reflect::prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor, Value};
use settings::{Node, node};
use std::collections::VecDeque;
use std::task::{Context, Poll};
use wire::grpc::{self, Code};
use wire::{Known, Method};

use super::*;

mod contents;

const SHOP: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/grpc/shop.pb");

fn plan(node: &Node) -> Result<Arc<dyn FilterPlan>, String> {
    let mut report = settings::Report::new();
    match (KIND.read)(node, &mut Reader::new(&mut report)) {
        Some(plan) if report.is_empty() => Ok(plan),
        _ => Err(report.render()),
    }
}

fn filter(node: &Node) -> Rc<dyn Filter> {
    match plan(node).unwrap().build(&WorkerContext::default()) {
        Stage::Filter(filter) => filter,
        Stage::Middleware(_) => panic!("not a filter"),
    }
}

fn shop() -> Rc<dyn Filter> {
    filter(&node!({ "descriptors": SHOP }))
}

fn request(line: &str, body: &str) -> Request {
    let (verb, target) = line.split_once(' ').unwrap();
    let target = Target::new(Bytes::copy_from_slice(target.as_bytes())).unwrap();
    let mut headers = Headers::new();
    headers.append(Known::ContentType, "application/json");
    headers.append(Known::AcceptEncoding, "gzip");
    let mut request = Request::made_up(Method::from_bytes(verb.as_bytes()), target, headers);
    request.body = Body::from(body.to_owned());
    request
}

fn descriptor(name: &str) -> MessageDescriptor {
    let pool = DescriptorPool::decode(&*std::fs::read(SHOP).unwrap()).unwrap();
    pool.get_message_by_name(&format!("shop.v1.{name}")).unwrap()
}

/// The messages of a body as JSON, in lines.
fn messages(kind: &str, body: &[u8]) -> String {
    let mut reader = grpc::MessageReader::new(1 << 20);
    reader.push(body);
    let mut lines = Vec::new();
    while let Some((flags, message)) = reader.next_message().unwrap() {
        assert_eq!(flags, 0);
        let message = DynamicMessage::decode(descriptor(kind), message).unwrap();
        lines.push(serde_json::to_value(&message).unwrap().to_string());
    }
    assert!(!reader.is_partial());
    lines.join("\n")
}

/// A message from its JSON, with its prefix.
fn framed(kind: &str, json: &str) -> Vec<u8> {
    let mut json = serde_json::Deserializer::from_str(json);
    let message = DynamicMessage::deserialize(descriptor(kind), &mut json).unwrap();
    let message = message.encode_to_vec();
    [&grpc::prefix(0, message.len() as u32)[..], &message].concat()
}

/// The path and the messages of the call that a request becomes, or the status it gets.
fn translated(filter: &dyn Filter, kind: &str, line: &str, body: &str) -> Result<String, String> {
    let mut request = request(line, body);
    net::worker::block_on_local(async {
        match filter.on_request(&mut request).resolve().await {
            Step::Continue => {}
            Step::Fail(fault) => return Err(fault.status.to_string()),
            Step::Respond(mut response) => {
                let body = response.body.collect(1 << 20).await.unwrap();
                return Err(format!("{} {}", response.status, String::from_utf8_lossy(&body)));
            }
        }
        assert_eq!(request.method, Method::Post);
        assert_eq!(request.headers.get_str(Known::ContentType), Some("application/grpc"));
        assert_eq!(request.headers.get_str(Known::Te), Some("trailers"));
        assert!(!request.headers.contains(Known::AcceptEncoding));
        let body = request.body.collect(1 << 20).await.map_err(|it| it.status.to_string())?;
        let path = String::from_utf8_lossy(request.target.raw()).into_owned();
        Ok(format!("{path} {}", messages(kind, &body)))
    })
}

#[test]
fn requests_become_messages() {
    let shop = shop();
    for (kind, line, body, call) in [
        ("GetRequest", "GET /v1/orders/a%2F7", "", r#"Get {"orderId":"a/7"}"#),
        (
            "GetRequest",
            "GET /v1/orders/7?revision=3&with_lines=true&kind=EXPRESS&tags=a&tags=b%20c",
            "",
            concat!(
                r#"Get {"orderId":"7","revision":"3","withLines":true,"#,
                r#""kind":"EXPRESS","tags":["a","b c"]}"#,
            ),
        ),
        (
            "GetRequest",
            "GET /v1/orders/7?like.orderId=8&like.lines=x&kind=1",
            "",
            r#"Get {"orderId":"7","kind":"EXPRESS","like":{"orderId":"8","lines":["x"]}}"#,
        ),
        (
            "GetRequest",
            "GET /v1/customers/3/orders/9",
            "",
            r#"Get {"name":"customers/3/orders/9"}"#,
        ),
        (
            "CreateRequest",
            "POST /v1/orders?dry_run=true",
            r#"{"order_id":"1","totalCents":"5"}"#,
            r#"Create {"order":{"orderId":"1","totalCents":"5"},"dryRun":true}"#,
        ),
        // The path holds, under whatever name the content has the field.
        ("Order", "PUT /v1/orders/7", r#"{"order_id":"8"}"#, r#"Replace {"orderId":"7"}"#),
        (
            "Order",
            "PUT /v1/orders/7",
            r#"{"orderId":"8","total_cents":2}"#,
            r#"Replace {"orderId":"7","totalCents":"2"}"#,
        ),
        ("Order", "POST /v1/orders/7:note", "", r#"Note {"orderId":"7"}"#),
        (
            "Order",
            "POST /v1/import",
            "{\"orderId\":\"1\"}\n\n {\"orderId\":\"2\"}\r\n{\"orderId\":\"3\"}",
            "Import {\"orderId\":\"1\"}\n{\"orderId\":\"2\"}\n{\"orderId\":\"3\"}",
        ),
    ] {
        let expected = format!("/shop.v1.Orders/{call}");
        assert_eq!(translated(&*shop, kind, line, body), Ok(expected), "{line}");
    }
}

#[test]
fn requests_that_fit_no_message_are_rejected() {
    let shop = shop();
    for (line, body, status) in [
        ("GET /v1/nothing", "", "404"),
        ("DELETE /v1/orders/7", "", "405"),
        ("GET /v1/orders/7", "{}", "400 {\"code\":3,"),
        ("GET /v1/orders/7?color=red", "", "400 "),
        ("GET /v1/orders/7?with_lines=1", "", "400 "),
        ("GET /v1/orders/7?revision=x", "", "400 "),
        ("GET /v1/orders/7?like=x", "", "400 "),
        ("GET /v1/orders/7?order_id=8", "", "400 "),
        ("GET /v1/orders/7?orderId=8", "", "400 "),
        ("POST /v1/orders?order.order_id=8", "{}", "400 "),
        ("PUT /v1/orders/7", "[]", "400 "),
        ("PUT /v1/orders/7", "{", "400 "),
        ("PUT /v1/orders/7", r#"{"color":1}"#, "400 "),
        ("PUT /v1/orders/7", r#"{"kind":"SLOW"}"#, "400 "),
        ("POST /v1/orders", r#"1,"dry_run":true"#, "400 "),
        ("POST /v1/import", "{\"color\":1}", "400"),
    ] {
        let out = translated(&*shop, "Order", line, body).expect_err(line);
        assert!(out.starts_with(status), "{line} {body}: {out}");
    }
    let nested = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(translated(&*shop, "Order", "PUT /v1/orders/7", &nested).is_err());
}

#[test]
fn settings_change_what_is_accepted() {
    let small = filter(&node!({ "descriptors": SHOP, "message": "1KiB" }));
    let long = format!(r#"{{"order_id":"{}"}}"#, "x".repeat(1024));
    for line in ["PUT /v1/orders/7", "POST /v1/import"] {
        assert_eq!(translated(&*small, "Order", line, &long), Err("413".to_owned()));
    }
    let lenient = filter(&node!({ "descriptors": SHOP, "unknown_fields": "ignore" }));
    let order = translated(&*lenient, "Order", "PUT /v1/orders/7?x=1", r#"{"color":1}"#);
    assert_eq!(order.unwrap(), r#"/shop.v1.Orders/Replace {"orderId":"7"}"#);
    let get = translated(&*lenient, "GetRequest", "GET /v1/orders/7?x=1", "");
    assert_eq!(get.unwrap(), r#"/shop.v1.Orders/Get {"orderId":"7"}"#);
    let named = filter(&node!({ "descriptors": SHOP, "by_name": true }));
    let get = translated(&*named, "GetRequest", "POST /shop.v1.Orders/Get", r#"{"name":"n"}"#);
    assert_eq!(get.unwrap(), r#"/shop.v1.Orders/Get {"name":"n"}"#);
}

#[test]
fn a_grpc_request_passes_unchanged() {
    let mut request = request("POST /shop.v1.Orders/Get", "x");
    request.headers.set(Known::ContentType, "application/grpc");
    message::GrpcCall::note(&mut request).unwrap();
    net::worker::block_on_local(async {
        let shop = shop();
        assert!(matches!(shop.on_request(&mut request).resolve().await, Step::Continue));
        let mut response = Response::with_body(200, "application/grpc", "x");
        let step = shop.on_response(&mut request, &mut response).resolve().await;
        assert!(matches!(step, Step::Continue));
        assert_eq!(response.headers.get_str(Known::ContentType), Some("application/grpc"));
    });
}

/// Frames in order, then the end.
struct Frames(VecDeque<Result<Frame, Fault>>);

impl BodyStream for Frames {
    fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        Poll::Ready(self.0.pop_front())
    }

    fn length(&self) -> Option<u64> {
        None
    }
}

fn trailers(fields: &[(&str, &str)]) -> Headers {
    let mut trailers = Headers::new();
    for (name, value) in fields {
        trailers.append(*name, *value);
    }
    trailers
}

/// What a client gets for a response of these bytes, in pieces of three, and these trailers.
fn received(line: &str, node: &Node, bytes: &[u8], fields: &[(&str, &str)]) -> String {
    let pieces = bytes.chunks(3).map(|piece| Ok(Frame::Data(Bytes::copy_from_slice(piece))));
    let end = Ok(Frame::Trailers(trailers(fields)));
    let body = Body::stream(Frames(pieces.chain([end]).collect()));
    answered(line, node, Response::with_body(200, "application/grpc+proto", body))
}

fn answered(line: &str, node: &Node, mut response: Response) -> String {
    let filter = filter(node);
    let mut request = request(line, "");
    net::worker::block_on_local(async {
        assert!(matches!(filter.on_request(&mut request).resolve().await, Step::Continue));
        match filter.on_response(&mut request, &mut response).resolve().await {
            Step::Continue => {}
            Step::Respond(other) => response = other,
            Step::Fail(fault) => return fault.to_string(),
        }
        let content_type = response.headers.get_str(Known::ContentType).unwrap().to_owned();
        let body = response.body.collect(1 << 20).await;
        let body = body.unwrap_or_else(|fault| fault.to_string().into());
        format!("{} {content_type} {}", response.status, String::from_utf8_lossy(&body))
    })
}

#[test]
fn responses_become_json() {
    let plain = node!({ "descriptors": SHOP });
    let full = node!({
        "descriptors": SHOP,
        "print": { "defaults": true, "proto_names": true, "enum_numbers": true }
    });
    let order = framed("Order", r#"{"orderId":"7","totalCents":"12","kind":"EXPRESS"}"#);
    let ok = [("grpc-status", "0")];
    for (line, settings, json) in [
        (
            "GET /v1/orders/7",
            &plain,
            r#"200 application/json {"orderId":"7","totalCents":"12","kind":"EXPRESS"}"#,
        ),
        (
            "GET /v1/orders/7",
            &full,
            r#"200 application/json {"order_id":"7","total_cents":"12","kind":1,"lines":[]}"#,
        ),
        ("POST /v1/orders/7:note", &plain, "200 application/json []"),
    ] {
        assert_eq!(received(line, settings, &order, &ok), json);
    }
    let two = [order.clone(), framed("Order", "{}")].concat();
    assert_eq!(
        received("GET /v1/orders/7/changes", &plain, &two, &ok),
        "200 application/x-ndjson \
         {\"orderId\":\"7\",\"totalCents\":\"12\",\"kind\":\"EXPRESS\"}\n{}\n"
    );
    for (bytes, why) in [
        (&b""[..], "no message"),
        (&two, "more than one message"),
        (&order[..order.len() - 1], "incomplete"),
        (b"\x01\0\0\0\x01x", "compression"),
        (b"\0\xff\0\0\0", "too large"),
        (b"\0\0\0\0\x01\x08", "not of the type"),
    ] {
        let out = received("GET /v1/orders/7", &plain, bytes, &ok);
        assert!(out.starts_with("502 http_protocol_error") && out.contains(why), "{out}");
    }
}

#[test]
fn failed_calls_become_http_errors() {
    let plain = node!({ "descriptors": SHOP });
    let failed = [("grpc-status", "5"), ("grpc-message", "no order%20%22%37%22")];
    let json = r#"{"code":5,"message":"no order \"7\"","details":[]}"#;
    let out = received("GET /v1/orders/7", &plain, b"", &failed);
    assert_eq!(out, format!("404 application/json {json}"));
    let mut only = Response::new(200);
    only.headers = trailers(&failed);
    only.headers.append(Known::ContentType, "application/grpc");
    assert_eq!(answered("GET /v1/orders/7", &plain, only), format!("404 application/json {json}"));
    let order = framed("Order", r#"{"orderId":"7"}"#);
    assert_eq!(
        received("GET /v1/orders/7/changes", &plain, &order, &failed),
        format!("200 application/x-ndjson {{\"orderId\":\"7\"}}\n{{\"error\":{json}}}\n")
    );
    // A server that does not speak gRPC.
    let page = Response::text(503, "busy");
    let out = answered("GET /v1/orders/7", &plain, page);
    assert_eq!(out, "503 text/plain; charset=utf-8 busy");
    let out = answered("GET /v1/orders/7", &plain, Response::text(200, "hello"));
    assert!(out.starts_with("502 http_protocol_error"), "{out}");
}

#[test]
fn details_of_known_types_are_shown() {
    let mut pool = DescriptorPool::decode(&*std::fs::read(SHOP).unwrap()).unwrap();
    let errors = ErrorWriter::new(&mut pool).unwrap();
    let detail = |name: &str| {
        let any = pool.get_message_by_name("google.protobuf.Any").unwrap();
        let mut detail = DynamicMessage::new(any);
        let url = format!("type.googleapis.com/{name}");
        detail.set_field_by_name("type_url", Value::String(url));
        let order = framed("Order", r#"{"orderId":"7"}"#).split_off(grpc::PREFIX_BYTES);
        detail.set_field_by_name("value", Value::Bytes(order.into()));
        Value::Message(detail)
    };
    let mut status = DynamicMessage::new(pool.get_message_by_name("google.rpc.Status").unwrap());
    status.set_field_by_name("code", Value::I32(3));
    status.set_field_by_name("message", Value::String("twice".to_owned()));
    let details = vec![detail("shop.v1.Order"), detail("shop.v1.Unknown")];
    status.set_field_by_name("details", Value::List(details));
    let encoded = STANDARD_NO_PAD.encode(status.encode_to_vec());
    let json = |code: Code, encoded: &str| {
        let fields = [("grpc-message", "plain"), ("grpc-status-details-bin", encoded)];
        String::from_utf8(errors.of_trailers(code, &trailers(&fields))).unwrap()
    };
    assert_eq!(
        json(Code::InvalidArgument, &encoded),
        concat!(
            r#"{"code":3,"message":"twice","details":["#,
            r#"{"@type":"type.googleapis.com/shop.v1.Order","#,
            r#""orderId":"7","totalCents":"0","kind":"UNKNOWN","lines":[]}]}"#,
        )
    );
    // What contradicts the trailer or is malformed says nothing.
    let plain = r#"{"code":5,"message":"plain","details":[]}"#;
    assert_eq!(json(Code::NotFound, &encoded), plain);
    assert_eq!(json(Code::NotFound, "!"), plain);
}

#[test]
fn errors_in_the_configuration_are_found() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (broken, empty) = (file("broken.pb", b"text"), file("empty.pb", b""));
    for (settings, why) in [
        (node!({}), "descriptors"),
        (node!({ "descriptors": "/does/not/exist.pb" }), "cannot read /does/not/exist.pb"),
        (node!({ "descriptors": (broken.as_str()) }), "cannot be used"),
        (node!({ "descriptors": (empty.as_str()) }), "protoc needs --include_imports"),
        (
            node!({ "descriptors": SHOP, "services": ["shop.v1.Order"] }),
            "did you mean \"shop.v1.Orders\"?",
        ),
        (node!({ "descriptors": SHOP, "message": "1B" }), "between"),
    ] {
        let out = plan(&settings).err().expect("an error");
        assert!(out.contains(why), "{out}\nwanted {why}");
    }
    assert_eq!(plan(&node!({ "descriptors": SHOP })).unwrap().describe(), "12 paths");
}
