//! Each setting of `mirror`: what is copied, and that the request notices nothing.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use message::{Fault, HandlerResult, Request, Response, shared_body};
use net::manual_time;
use plugin::testing::{context, errors, get, plan, route_with};
use plugin::{MaybeFuture, Route, WorkerContext};
use settings::{Node, node};
use telemetry::families;

use super::KIND;

#[test]
fn the_declaration_is_valid() {
    settings::verify::<super::Mirror>().unwrap();
}

thread_local! {
    /// The requests that the mirror received.
    static COPIES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn copies() -> Vec<String> {
    COPIES.take()
}

/// Responds with the body of the request.
fn echo(request: &mut Request) -> MaybeFuture<'_, HandlerResult> {
    MaybeFuture::of(async move {
        let body = request.collect_body(1 << 20).await?;
        Ok(Response::text(200, body))
    })
}

/// Notes the copy; hangs on `/hang`, fails on `/fail`.
fn mirror(request: &mut Request) -> MaybeFuture<'_, HandlerResult> {
    MaybeFuture::of(async move {
        let body = request.collect_body(1 << 20).await?;
        let text = String::from_utf8_lossy(&body).into_owned();
        let (method, path) = (request.method.as_bytes(), request.target.path().to_owned());
        let method = String::from_utf8_lossy(method).into_owned();
        COPIES.with_borrow_mut(|copies| copies.push(format!("{method} {path} {text}")));
        match &*path {
            "/hang" => std::future::pending().await,
            "/fail" => Err(Fault::internal("on purpose")),
            _ => Ok(Response::new(200)),
        }
    })
}

fn route(node: &Node, context: &WorkerContext) -> Rc<Route> {
    route_with(&KIND, node, context, echo, mirror)
}

fn settings() -> Node {
    node!({
        "to": { "upstream": "next" },
        "name": "next",
        "concurrent": 2,
        "body": "1KiB",
        "timeout": "5s",
    })
}

fn counted(context: &WorkerContext, result: &str) -> u64 {
    context.telemetry.worker_counter(0, &families::MIRRORED, &["next", result]).get()
}

/// Sends a body of these pieces; returns what the route's handler received.
async fn post(route: &Rc<Route>, path: &str, pieces: &[&str]) -> String {
    let (mut writer, body) = shared_body(1 << 20, None);
    for piece in pieces {
        writer.push(Bytes::copy_from_slice(piece.as_bytes())).unwrap();
    }
    writer.finish(None);
    let mut request = get(path, &[]);
    request.method = wire::Method::Post;
    request.body = body.body();
    let mut response = route.run(&mut request).await.unwrap();
    String::from_utf8(response.body.collect(1 << 20).await.unwrap().to_vec()).unwrap()
}

#[test]
fn copies_have_the_body_and_the_request_is_unchanged() {
    manual_time::block_on(async {
        let context = context();
        let route = route(&settings(), &context);
        assert_eq!(post(&route, "/a", &["one", "two"]).await, "onetwo");
        assert_eq!(post(&route, "/b", &[]).await, "");
        manual_time::idle().await;
        assert_eq!(copies(), ["POST /a onetwo", "POST /b "]);
        // A body that is there as a whole.
        let mut request = get("/c", &[]);
        request.body = "whole".into();
        route.run(&mut request).await.unwrap();
        route.run(&mut get("/fail", &[])).await.unwrap();
        manual_time::idle().await;
        assert_eq!(copies(), ["GET /c whole", "GET /fail "]);
        assert_eq!((counted(&context, "ok"), counted(&context, "failed")), (3, 1));
    });
}

#[test]
fn longer_bodies_are_not_copied() {
    manual_time::block_on(async {
        let context = context();
        let route = route(&settings(), &context);
        let long = "x".repeat(700);
        assert_eq!(post(&route, "/a", &[&long, &long]).await.len(), 1400);
        let mut request = get("/b", &[]);
        request.body = "x".repeat(1025).into();
        route.run(&mut request).await.unwrap();
        manual_time::idle().await;
        assert_eq!(copies(), [""; 0]);
        assert_eq!(counted(&context, "body_too_large"), 2);
        // A body that the handler does not read to its end.
        let (writer, body) = shared_body(1 << 20, None);
        request = get("/c", &[]);
        request.body = body.body();
        drop(writer);
        assert!(route.run(&mut request).await.is_err());
        assert_eq!(counted(&context, "body_incomplete"), 1);
        let in_flight = context.telemetry.worker_gauge(0, &families::MIRROR_IN_FLIGHT, &["next"]);
        assert_eq!(in_flight.get(), 0);
    });
}

#[test]
fn a_hanging_mirror_holds_up_to_its_budget_and_delays_nothing() {
    manual_time::block_on(async {
        let context = context();
        let route = route(&settings(), &context);
        let in_flight = context.telemetry.worker_gauge(0, &families::MIRROR_IN_FLIGHT, &["next"]);
        // The clock does not advance: a request that waited for a copy would never end.
        for _ in 0..1000 {
            assert_eq!(post(&route, "/hang", &["x"]).await, "x");
        }
        manual_time::idle().await;
        assert_eq!((copies().len(), in_flight.get()), (2, 2));
        assert_eq!(counted(&context, "over_budget"), 998);
        // A reload forgets no copy in flight.
        let reloaded = route_with(&KIND, &settings(), &context, echo, mirror);
        assert_eq!(post(&reloaded, "/a", &[]).await, "");
        assert_eq!(counted(&context, "over_budget"), 999);
        manual_time::advance(Duration::from_secs(6)).await;
        assert_eq!((counted(&context, "timeout"), in_flight.get()), (2, 0));
        post(&reloaded, "/a", &[]).await;
        manual_time::idle().await;
        assert_eq!(copies().len(), 1);
    });
}

#[test]
fn share_and_condition() {
    manual_time::block_on(async {
        let settings = node!({
            "to": { "upstream": "next" }, "share": "10%", "concurrent": 1000,
            "when": { "not": { "header": "x-private" } },
        });
        let route = route(&settings, &context());
        for _ in 0..1000 {
            for _ in 0..100 {
                route.run(&mut get("/", &[])).await.unwrap();
                route.run(&mut get("/private", &[("x-private", "1")])).await.unwrap();
            }
            manual_time::idle().await;
        }
        let copies = copies();
        assert!((9_990..=10_010).contains(&copies.len()), "{}", copies.len());
        assert!(copies.iter().all(|copy| copy == "GET / "));
        // An upgrade has no copy.
        for _ in 0..100 {
            let mut request = get("/", &[]);
            request.upgrade = true;
            route.run(&mut request).await.unwrap();
        }
        manual_time::idle().await;
        assert_eq!(self::copies(), [""; 0]);
    });
}

#[test]
fn errors_are_named() {
    for (settings, why) in [
        (node!({}), "\"to\" is missing"),
        (node!({ "to": { "respond": {} }, "concurrent": 0 }), "between 1 and"),
        (node!({ "to": { "respond": {} }, "body": "1GiB" }), "between 0B and 16MiB"),
        (node!({ "to": { "respond": {} }, "shaer": "1%" }), "did you mean \"share\"?"),
    ] {
        let report = errors(&KIND, &settings);
        assert!(report.contains(why), "{report}\nwanted {why}");
    }
    let shown = plan(&KIND, &settings()).unwrap().describe();
    assert_eq!(shown, "100% to upstream");
}
