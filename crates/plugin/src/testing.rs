//! For the tests of filters: a worker's context, requests, and a filter built from its settings.
//! Exists in builds with debug assertions only.
//!
//! # Panics
//!
//! Every function panics where what it is called for does not hold: the test fails.

use std::rc::Rc;
use std::sync::Arc;

use crate::{Filter, FilterKind, FilterPlan, MaybeFuture, Stage, Step, WorkerContext, problem};
use bytes::Bytes;
use message::{Fault, Headers, Request, Response, Target};
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
