//! Shared by the tests of the filters: a worker's context, requests, and a filter built from its
//! settings.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use message::{Fault, Headers, Request, Response, Target};
use plugin::{Filter, FilterKind, FilterPlan, MaybeFuture, Stage, Step, WorkerContext};
use settings::{Node, Reader, Report};
use wire::Method;

pub(crate) fn context() -> WorkerContext {
    WorkerContext::default()
}

/// The plan of these settings, or their errors.
pub(crate) fn plan(kind: &FilterKind, node: &Node) -> Result<Arc<dyn FilterPlan>, String> {
    let mut report = Report::new();
    let plan = (kind.read)(node, &mut Reader::new(&mut report));
    match plan {
        Some(plan) if report.is_empty() => Ok(plan),
        _ => Err(report.render()),
    }
}

pub(crate) fn filter_in(kind: &FilterKind, node: &Node, context: &WorkerContext) -> Rc<dyn Filter> {
    match plan(kind, node).unwrap().build(context) {
        Stage::Filter(filter) => filter,
        Stage::Middleware(_) => panic!("not a filter"),
    }
}

pub(crate) fn filter(kind: &FilterKind, node: &Node) -> Rc<dyn Filter> {
    filter_in(kind, node, &context())
}

pub(crate) fn get(target: &str, headers: &[(&str, &str)]) -> Request {
    let mut fields = Headers::new();
    for (name, value) in headers {
        fields.append(*name, *value);
    }
    let target = Target::new(Bytes::copy_from_slice(target.as_bytes())).unwrap();
    Request::made_up(Method::Get, target, fields)
}

/// The result of a hook that may only continue or fail.
pub(crate) fn passed(step: MaybeFuture<'_, Step>) -> Result<(), Fault> {
    let MaybeFuture::Ready(step) = step else { panic!("waits") };
    match step {
        Step::Continue => Ok(()),
        Step::Fail(fault) => Err(fault),
        Step::Respond(response) => panic!("responded {}", response.status),
    }
}

/// The response to a fault.
pub(crate) fn rendered(fault: &Fault) -> Response {
    plugin::problem::render(fault, None, &plugin::problem::ErrorPages::default())
}

/// The errors of invalid settings.
pub(crate) fn errors(kind: &FilterKind, node: &Node) -> String {
    match plan(kind, node) {
        Ok(_) => panic!("accepted"),
        Err(report) => report,
    }
}
