//! The filter in front of an upstream, with a scripted server that decides.

use bytes::Bytes;
use message::{HandlerResult, Headers};
use net::manual_time;
use plugin::testing::{errors, get, plan, route_with};
use settings::node;

use super::*;
use crate::registry::Registry;

type Handled<'a> = MaybeFuture<'a, HandlerResult>;

/// Responds with what the request says.
fn upstream(request: &mut Request) -> Handled<'_> {
    MaybeFuture::of(async move {
        let field = |name: &str| request.headers.get_str(name).unwrap_or("-").to_owned();
        let users: Vec<_> = request.headers.get_all("remote-user").collect();
        let seen = [
            String::from_utf8(users.join(&b'+')).unwrap(),
            field("remote_user"),
            field("remote-groups"),
            request.consumer_name().unwrap_or("-").to_owned(),
            String::from_utf8(request.collect_body(100).await?.to_vec()).unwrap(),
        ];
        Ok(Response::text(200, seen.join(" ")))
    })
}

/// Decides by the path of the request in question, and reports the request that it received.
fn decide(question: &mut Request) -> Handled<'_> {
    MaybeFuture::of(async move {
        let uri = question.headers.get_str("x-forwarded-uri").unwrap_or_default().to_owned();
        if uri.starts_with("/slow") {
            std::future::pending::<()>().await;
        }
        if uri.starts_with("/fail") {
            return Err(Fault::new(FaultKind::ConnectionRefused, "refused"));
        }
        let field = |name: &str| question.headers.get_str(name).unwrap_or("-").to_owned();
        let asked = [
            String::from_utf8_lossy(question.method.as_bytes()).into_owned(),
            String::from_utf8_lossy(question.target.raw()).into_owned(),
            field("x-forwarded-method"),
            field("x-forwarded-proto"),
            field("x-forwarded-host"),
            field("cookie"),
            field("range"),
            field("x-other"),
        ];
        let content = question.body.collect(100).await?;
        let mut response = Response::new(if uri.starts_with("/deny") { 302 } else { 204 });
        response.headers.append("remote-user", "ann");
        response.headers.append("remote-user", "lee");
        response.headers.append("x-name", "ann");
        if uri.starts_with("/two") {
            response.headers.append("x-name", "ann");
        }
        response.headers.append("x-asked", asked.join("|"));
        response.headers.append("location", "https://login.test/");
        response.body = Body::from(content);
        Ok(response)
    })
}

fn settings(more: &[(&str, settings::Node)]) -> settings::Node {
    let mut settings = node!({
        "to": { "upstream": "auth" }, "path": "/verify?app=shop",
        "copy": ["remote-user", "remote-groups", "x-asked"], "consumer": "x-name"
    });
    if let settings::Value::Map(entries) = &mut settings.value {
        for (name, value) in more {
            let key = settings::MapKey { name: (*name).to_owned(), span: value.span };
            entries.push((key, value.clone()));
        }
    }
    settings
}

const FORGED: [(&str, &str); 6] = [
    ("remote-user", "root"),
    ("remote_user", "root"),
    ("Remote-Groups", "admin"),
    ("x-forwarded-uri", "/deny"),
    ("cookie", "s=1"),
    ("range", "bytes=0-1"),
];

async fn run(
    context: &WorkerContext,
    settings: &settings::Node,
    request: &mut Request,
) -> Result<(u16, Headers, String), Fault> {
    let route = route_with(&KIND, settings, context, upstream, decide);
    let mut response = route.run(request).await?;
    let body = response.body.collect(1000).await?;
    Ok((response.status, response.headers, String::from_utf8(body.to_vec()).unwrap()))
}

#[test]
fn the_declaration_is_valid() {
    settings::verify::<ForwardAuth>().unwrap();
    let described = plan(&KIND, &node!({ "url": "https://a.test/x?key=1" })).unwrap().describe();
    assert_eq!(described, "by a.test");
}

#[test]
fn listed_headers_come_from_the_server_and_never_from_the_client() {
    manual_time::block_on(async {
        let context = WorkerContext::default();
        let mut request = get("/a?b=c", &FORGED);
        request.headers.append("host", "shop.test");
        let (status, _, seen) = run(&context, &settings(&[]), &mut request).await.unwrap();
        assert_eq!((status, seen.as_str()), (200, "ann+lee - - ann "));
        let asked = request.headers.get_str("x-asked").unwrap();
        assert_eq!(asked, "GET|/verify?app=shop|GET|http|shop.test|s=1|-|-");
        // Only the listed headers are sent, and those that the filter adds.
        let mut request = get("/a", &[("cookie", "s=1"), ("x-other", "1"), ("host", "shop.test")]);
        let listed = settings(&[("send", node!(["x-other"]))]);
        run(&context, &listed, &mut request).await.unwrap();
        let asked = request.headers.get_str("x-asked").unwrap();
        assert_eq!(asked, "GET|/verify?app=shop|GET|http|shop.test|-|-|1");
    });
}

#[test]
fn listed_headers_of_the_server_go_to_the_client() {
    manual_time::block_on(async {
        let context = WorkerContext::default();
        let settings = settings(&[("to_client", node!(["x-asked", "remote-user"]))]);
        let (status, headers, _) = run(&context, &settings, &mut get("/a", &[])).await.unwrap();
        let users: Vec<_> = headers.get_all("remote-user").collect();
        assert_eq!((status, users), (200, vec![&b"ann"[..], b"lee"]));
        assert!(headers.contains("x-asked") && !headers.contains("x-name"));
        // Also if the upstream fails, and not twice if the server denies the request.
        let mut long = get("/a", &[]);
        long.body = Body::from(Bytes::from(vec![b'x'; 101]));
        let fault = run(&context, &settings, &mut long).await.unwrap_err();
        assert!(fault.fields.unwrap().contains("x-asked"));
        let (_, headers, _) = run(&context, &settings, &mut get("/deny", &[])).await.unwrap();
        assert_eq!(headers.get_all("x-asked").count(), 1);
    });
}

#[test]
fn another_response_goes_to_the_client() {
    manual_time::block_on(async {
        let context = WorkerContext::default();
        let mut request = get("/deny", &FORGED[4..]);
        let (status, headers, _) = run(&context, &settings(&[]), &mut request).await.unwrap();
        assert_eq!((status, headers.get_str("location")), (302, Some("https://login.test/")));
        assert!(request.consumer.is_none());
        let count = |reason| context.policy_rejections(KIND.name, reason).get();
        assert_eq!((count("denied"), count("failed")), (1, 0));
    });
}

#[test]
fn a_consumer_without_an_entry_can_be_rejected() {
    manual_time::block_on(async {
        let context = WorkerContext::default();
        let registry = context.shared.get((), Registry::default);
        let strict = settings(&[("consumers_only", node!(true))]);
        let outcome = async |settings: &settings::Node| {
            let mut request = get("/a", &[]);
            let outcome = run(&context, settings, &mut request).await;
            outcome.map(|(status, ..)| status).unwrap_or_else(|fault| fault.status)
        };
        // The name is remembered, and has no entry all the same.
        assert_eq!(outcome(&settings(&[])).await, 200);
        assert_eq!(outcome(&strict).await, 403);
        assert_eq!(context.policy_rejections(KIND.name, "unknown_consumer").get(), 1);
        let entry = settings::read(&node!({ "name": "ann" })).unwrap();
        registry.put(entry, |_| true).unwrap();
        assert_eq!(outcome(&strict).await, 200);
    });
    let report = errors(&KIND, &node!({ "url": "https://a.test/", "consumers_only": true }));
    assert!(report.contains("needs `consumer`"), "{report}");
}

#[test]
fn a_response_that_names_several_consumers_rejects_the_request() {
    manual_time::block_on(async {
        let context = WorkerContext::default();
        for more in [&[][..], &[("consumers_only", node!(true))]] {
            let mut request = get("/two", &[("remote-user", "root")]);
            let fault = run(&context, &settings(more), &mut request).await.unwrap_err();
            assert_eq!((fault.kind, fault.status), (FaultKind::Unavailable, 503));
            assert!(fault.detail.contains("several headers x-name"), "{}", fault.detail);
            assert!(request.consumer.is_none());
        }
        assert_eq!(context.policy_rejections(KIND.name, "failed").get(), 2);
    });
}

#[test]
fn a_server_that_fails_or_is_late_rejects_the_request() {
    manual_time::block_on(async {
        let context = WorkerContext::default();
        let settings = settings(&[("timeout", node!("2s"))]);
        let mut request = get("/fail", &[]);
        let fault = run(&context, &settings, &mut request).await.unwrap_err();
        assert_eq!((fault.kind, fault.status), (FaultKind::Unavailable, 503));
        let mut request = get("/slow", &[]);
        let advance = manual_time::advance(std::time::Duration::from_secs(2));
        let (result, ()) = tokio::join!(run(&context, &settings, &mut request), advance);
        let fault = result.unwrap_err();
        assert_eq!((fault.kind, fault.status), (FaultKind::Deadline, 504));
        assert_eq!(context.policy_rejections(KIND.name, "failed").get(), 2);
    });
}

#[test]
fn the_body_is_sent_to_both_and_is_bounded() {
    manual_time::block_on(async {
        let context = WorkerContext::default();
        let with_body = settings(&[("body", node!("5B"))]);
        let mut request = get("/a", &[]);
        request.method = Method::Put;
        request.body = Body::from(Bytes::from_static(b"hello"));
        let (_, _, seen) = run(&context, &with_body, &mut request).await.unwrap();
        assert_eq!(seen, "ann+lee - - ann hello");
        let asked = request.headers.get_str("x-asked").unwrap();
        assert!(asked.starts_with("POST|/verify?app=shop|PUT|"), "{asked}");
        let mut denied = get("/deny", &[]);
        denied.body = Body::from(Bytes::from_static(b"hello"));
        let (_, _, echoed) = run(&context, &with_body, &mut denied).await.unwrap();
        assert_eq!(echoed, "hello");
        let mut long = get("/a", &[]);
        long.body = Body::from(Bytes::from_static(b"hello!"));
        assert_eq!(run(&context, &with_body, &mut long).await.unwrap_err().status, 413);
    });
}

#[test]
fn errors_are_named() {
    for (settings, why) in [
        (node!({}), "either url or to"),
        (node!({ "url": "http://a/", "to": { "upstream": "auth" } }), "either url or to"),
        (node!({ "url": "a.test" }), "is not a URL"),
        (node!({ "url": "http://a/", "path": "/x" }), "`path` is for `to`"),
        (node!({ "url": "http://a/", "tls": {} }), "`tls` has no effect"),
        (node!({ "to": { "upstream": "auth" }, "path": "x" }), "begins with a slash"),
        (node!({ "to": { "upstream": "auth" }, "copy": ["content-length"] }), "cannot be copied"),
        (node!({ "to": { "upstream": "auth" }, "copy": ["a b"] }), "is not a valid header name"),
        (node!({ "to": { "upstream": "auth" }, "to_client": ["te", "content-length"] }), "frames"),
        (node!({ "to": { "upstream": "auth" }, "timeout": "1h" }), "timeout"),
        (node!({ "to": { "upstream": "auth" }, "headers": [] }), "unknown key"),
    ] {
        let report = errors(&KIND, &settings);
        assert!(report.contains(why), "{report}\nwanted {why}");
    }
}
