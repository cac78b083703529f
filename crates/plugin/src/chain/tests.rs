//! Faults are shown to the filters they pass.

use super::*;
use message::{Headers, Target};

/// Says on a fault what it is called.
struct Named(&'static str);

impl Filter for Named {
    fn name(&self) -> &'static str {
        self.0
    }

    fn on_fault(&self, _: &mut Request, fault: &mut Fault) {
        fault.fields.get_or_insert_default().append("x-passed", self.0);
    }
}

struct Refusing;

impl Filter for Refusing {
    fn name(&self) -> &'static str {
        "refusing"
    }

    fn on_request<'a>(&'a self, _: &'a mut Request) -> MaybeFuture<'a, Step> {
        Step::Fail(Fault::not_found()).into()
    }
}

struct Failing;

impl Handler for Failing {
    fn name(&self) -> &'static str {
        "failing"
    }

    fn handle<'a>(&'a self, _: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        Err(Fault::internal("on purpose")).into()
    }
}

fn route(stages: Vec<Rc<dyn Filter>>, handler: Rc<dyn Handler>) -> Route {
    Route::new(
        "test",
        RouteBounds::default(),
        Default::default(),
        stages.into_iter().map(Stage::Filter).collect(),
        handler,
    )
}

fn made_up() -> Request {
    let target = Target::new(bytes::Bytes::from_static(b"/")).unwrap();
    Request::made_up(wire::Method::Get, target, Headers::new())
}

fn passed(stages: Vec<Rc<dyn Filter>>) -> Vec<String> {
    let route = Rc::new(route(stages, Rc::new(Failing)));
    let mut request = made_up();
    let outcome = net::worker::block_on_local(route.run(&mut request));
    let fields = outcome.err().unwrap().fields.unwrap_or_default();
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    fields.get_all("x-passed").map(text).collect()
}

#[test]
fn a_fault_is_shown_to_the_filters_it_passes_on_its_way_back() {
    let (one, two) = (|| Rc::new(Named("one")), || Rc::new(Named("two")));
    assert_eq!(passed(vec![one(), two()]), ["two", "one"]);
    assert_eq!(passed(vec![one(), Rc::new(Refusing), two()]), ["one"]);
}

/// A handler that responds at once.
struct Instant;

impl Handler for Instant {
    fn name(&self) -> &'static str {
        "instant"
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn handle<'a>(&'a self, _: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        Ok(Response::new(200)).into()
    }
}

/// What a route records of a request: the names of spans and steps.
fn recorded(handler: Rc<dyn Handler>, recording: message::Recording) -> Vec<String> {
    let context = wire::trace_context::TraceContext::new([1; 16], [2; 8], true);
    let position = message::RequestTrace::begin(context, None, None, recording);
    let mut request = made_up();
    request.trace = Some(position.clone());
    let stages: Vec<Rc<dyn Filter>> = vec![Rc::new(Named("one")), Rc::new(Named("two"))];
    let route = Rc::new(route(stages, handler));
    let _ = net::worker::block_on_local(route.run(&mut request));
    let spans = position.take().spans;
    spans.into_iter().map(|span| span.name.into_owned()).collect()
}

#[test]
fn what_responds_at_once_is_a_step() {
    use message::Recording::{Spans, Steps};
    assert_eq!(recorded(Rc::new(Failing), Spans), ["failing"]);
    assert_eq!(recorded(Rc::new(Failing), Steps), ["one", "two", "failing"]);
    assert!(recorded(Rc::new(Instant), Spans).is_empty());
    assert_eq!(recorded(Rc::new(Instant), Steps), ["one", "two", "instant", "two", "one"]);
}
