//! For the tests of filters: a worker's context, requests, and a filter built from its settings.
//! Exists in builds with debug assertions only.
//!
//! # Panics
//!
//! Every function panics if its expectation does not hold: the test fails.

use std::rc::Rc;
use std::sync::Arc;

use crate::{
    Filter, FilterKind, FilterPlan, HandlerPlan, MaybeFuture, Route, Stage, Step, WorkerContext,
    problem,
};
use bytes::Bytes;
use message::{
    Body, Fault, Field, Frame, HandlerResult, Headers, Request, Response, RouteBounds, Target,
};
use settings::{Node, Reader, Report};
use wire::Method;

pub fn context() -> WorkerContext {
    WorkerContext::default()
}

/// The plan of these settings, or their errors.
pub fn plan(kind: &FilterKind, node: &Node) -> Result<Arc<dyn FilterPlan>, String> {
    let mut report = Report::new();
    let plan = (kind.read)(node, &mut Reader::new(&mut report));
    match plan {
        Some(plan) if report.is_empty() => Ok(plan),
        _ => Err(report.render()),
    }
}

pub fn filter_in(kind: &FilterKind, node: &Node, context: &WorkerContext) -> Rc<dyn Filter> {
    let plan = plan(kind, node).unwrap_or_else(|report| panic!("{report}"));
    match plan.build(context) {
        Stage::Filter(filter) => filter,
        Stage::Middleware(_) => panic!("not a filter"),
    }
}

pub fn filter(kind: &FilterKind, node: &Node) -> Rc<dyn Filter> {
    filter_in(kind, node, &context())
}

pub fn get(target: &str, headers: &[(&str, &str)]) -> Request {
    let mut fields = Headers::new();
    for (name, value) in headers {
        fields.append(*name, *value);
    }
    let target = Target::new(Bytes::copy_from_slice(target.as_bytes())).expect("a valid target");
    Request::made_up(Method::Get, target, fields)
}

/// A body with trailers of these names.
pub fn body_with_trailers(names: &[&str]) -> Body {
    let (mut writer, pieces) = message::shared_body(1 << 10, None);
    assert!(writer.push(Bytes::from_static(b"x")).is_ok(), "a short body");
    let mut trailers = Headers::new();
    names.iter().for_each(|name| trailers.append(*name, "1"));
    writer.finish(Some(trailers));
    pieces.body()
}

/// The names of the trailers of a body.
pub fn trailer_names(mut body: Body) -> Vec<String> {
    net::worker::block_on_local(async {
        let mut names = Vec::new();
        while let Some(frame) = body.frame().await {
            if let Ok(Frame::Trailers(trailers)) = frame {
                let text = |field: Field<'_>| String::from_utf8_lossy(field.name).into_owned();
                names.extend(trailers.iter().map(text));
            }
        }
        names
    })
}

/// The result of a hook that may only continue or fail.
pub fn passed(step: MaybeFuture<'_, Step>) -> Result<(), Fault> {
    let MaybeFuture::Ready(step) = step else { panic!("waits") };
    match step {
        Step::Continue => Ok(()),
        Step::Fail(fault) => Err(fault),
        Step::Respond(response) => panic!("responded {}", response.status),
    }
}

/// The response to a fault.
pub fn rendered(fault: &Fault) -> Response {
    problem::render(fault, None, &problem::ErrorPages::default())
}

/// The errors of invalid settings.
pub fn errors(kind: &FilterKind, node: &Node) -> String {
    match plan(kind, node) {
        Ok(_) => panic!("accepted"),
        Err(report) => report,
    }
}

/// A handler that runs a function.
pub struct HandlerFn<F>(pub F);

impl<F> crate::Handler for HandlerFn<F>
where
    F: for<'a> Fn(&'a mut Request) -> MaybeFuture<'a, HandlerResult>,
{
    fn name(&self) -> &'static str {
        "function"
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        self.0(request)
    }
}

/// The plan of one handler for all workers of a test: its only worker is this thread.
struct HandlerFnPlan(fn(&mut Request) -> MaybeFuture<'_, HandlerResult>);

impl HandlerPlan for HandlerFnPlan {
    fn name(&self) -> &'static str {
        "function"
    }

    fn build(&self, _: &WorkerContext) -> Rc<dyn crate::Handler> {
        Rc::new(HandlerFn(self.0))
    }
}

/// The only stage of a route that ends in a handler, with the handlers among the filter's settings
/// replaced by `other`.
pub fn route_with(
    kind: &FilterKind,
    node: &Node,
    context: &WorkerContext,
    handler: fn(&mut Request) -> MaybeFuture<'_, HandlerResult>,
    other: fn(&mut Request) -> MaybeFuture<'_, HandlerResult>,
) -> Rc<Route> {
    let plan = plan(kind, node).unwrap_or_else(|report| panic!("{report}"));
    for entry in plan.handlers() {
        entry.resolve(Arc::new(HandlerFnPlan(other)));
    }
    let stages = vec![plan.build_on("test".into(), context)];
    let handler = Rc::new(HandlerFn(handler));
    Rc::new(Route::new("test", RouteBounds::default(), Arc::default(), stages, handler))
}
