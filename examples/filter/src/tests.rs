//! The filter in front of a handler, built from its settings as a worker builds it.

use std::rc::Rc;

use message::{HandlerResult, Headers, Request, Response, RouteBounds, Target};
use plugin::problem::{ErrorPages, render};
use plugin::{Handler, MaybeFuture, Route, WorkerContext};
use settings::{Node, Reader, Report, node};
use wire::{Known, Method};

struct Hello;

impl Handler for Hello {
    fn name(&self) -> &'static str {
        "hello"
    }

    fn handle<'a>(&'a self, _: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        Ok(Response::text(200, "hello")).into()
    }
}

/// A route with the filter, or the errors in its settings.
fn route(settings: &Node) -> Result<Rc<Route>, String> {
    let mut report = Report::new();
    let plan = (crate::KIND.read)(settings, &mut Reader::new(&mut report));
    let Some(plan) = plan.filter(|_| report.is_empty()) else { return Err(report.render()) };
    let stages = vec![plan.build(&WorkerContext::default())];
    let handler = Rc::new(Hello);
    Ok(Rc::new(Route::new("hello", RouteBounds::default(), Default::default(), stages, handler)))
}

/// What a client with this address gets.
fn get(route: &Rc<Route>, client_ip: &str) -> Response {
    let target = Target::new("/".into()).unwrap();
    let mut request = Request::made_up(Method::Get, target, Headers::new());
    request.client_ip = client_ip.parse().unwrap();
    let outcome = net::worker::block_on_local(route.run(&mut request));
    outcome.unwrap_or_else(|fault| render(&fault, Some(&request.headers), &ErrorPages::default()))
}

#[test]
fn other_clients_get_503_with_retry_after() {
    let settings = node!({ "allow": ["10.0.0.0/8"], "retry_after": "10m" });
    let response = get(&route(&settings).unwrap(), "192.0.2.1");
    assert_eq!(response.status, 503);
    assert_eq!(response.headers.get(Known::RetryAfter), Some(&b"600"[..]));
    assert_eq!(response.headers.get("x-maintenance"), None);
}

#[test]
fn clients_of_allowed_networks_are_served_and_marked() {
    let response = get(&route(&node!({ "allow": ["10.0.0.0/8"] })).unwrap(), "10.1.2.3");
    assert_eq!(response.status, 200);
    assert_eq!(response.headers.get("x-maintenance"), Some(&b"on"[..]));
}

#[test]
fn without_settings_all_clients_wait_five_minutes() {
    let response = get(&route(&node!({})).unwrap(), "10.1.2.3");
    assert_eq!(response.headers.get(Known::RetryAfter), Some(&b"300"[..]));
}

#[test]
fn settings_that_make_no_sense_are_reported() {
    let report = route(&node!({ "allow": ["10.0.0.0/33"] })).err().unwrap();
    assert!(report.contains("10.0.0.0/33"), "{report}");
    let report = route(&node!({ "retry_after": "0s" })).err().unwrap();
    assert!(report.contains("1s"), "{report}");
    let report = route(&node!({ "allowed": [] })).err().unwrap();
    assert!(report.contains("allowed"), "{report}");
}
