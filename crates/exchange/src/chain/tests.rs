//! Hooks are asked once, and faults are shown to the filters they pass.

use std::cell::Cell;

use super::*;
use crate::{Headers, Target};

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

    fn on_request(&self, _: &mut Request) -> Step {
        Step::Fail(Fault::not_found())
    }
}

struct Failing;

impl Handler for Failing {
    fn name(&self) -> &'static str {
        "failing"
    }

    fn handle<'a>(&'a self, _: &'a mut Request) -> LocalFuture<'a, Outcome> {
        Box::pin(std::future::ready(Err(Fault::internal("on purpose"))))
    }
}

fn route(stages: Vec<Rc<dyn Filter>>, handler: Rc<dyn Handler>) -> Route {
    Route {
        name: "test".into(),
        stages: stages.into_iter().map(Stage::Filter).collect(),
        handler,
        bounds: RouteBounds::default(),
        metrics: Default::default(),
        pace: crate::Pace::default(),
    }
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

/// Waits in both hooks, or as a handler, and counts how often each was asked.
#[derive(Default)]
struct Slow(Cell<[u32; 4]>);

impl Slow {
    fn count(&self, hook: usize) {
        let mut counts = self.0.get();
        counts[hook] += 1;
        self.0.set(counts);
    }
}

impl Filter for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn on_request(&self, _: &mut Request) -> Step {
        self.count(0);
        Step::Wait
    }

    fn wait_request<'a>(&'a self, _: &'a mut Request) -> LocalFuture<'a, Step> {
        self.count(1);
        Box::pin(std::future::ready(Step::Continue))
    }

    fn on_response(&self, _: &mut Request, _: &mut Response) -> Step {
        self.count(2);
        Step::Wait
    }

    fn wait_response<'a>(
        &'a self,
        _: &'a mut Request,
        _: &'a mut Response,
    ) -> LocalFuture<'a, Step> {
        self.count(3);
        Box::pin(std::future::ready(Step::Continue))
    }
}

impl Handler for Slow {
    fn name(&self) -> &'static str {
        "slow"
    }

    fn answer(&self, _: &mut Request) -> Option<Outcome> {
        self.count(0);
        None
    }

    fn handle<'a>(&'a self, _: &'a mut Request) -> LocalFuture<'a, Outcome> {
        self.count(1);
        Box::pin(std::future::ready(Ok(Response::new(200))))
    }
}

#[test]
fn who_has_to_wait_is_asked_once_and_waited_for_once() {
    let (filter, handler) = (Rc::new(Slow::default()), Rc::new(Slow::default()));
    let route = Rc::new(route(vec![filter.clone()], handler.clone()));
    let mut progress = Progress::default();
    let mut request = made_up();
    // As an exchange does: as far as it goes, then in a future.
    assert!(matches!(route.advance(&mut request, &mut progress), Stand::Waits));
    let outcome = net::worker::block_on_local(route.run_on(&mut request, &mut progress));
    assert!(outcome.is_ok());
    assert_eq!(filter.0.get(), [1, 1, 1, 1]);
    assert_eq!(handler.0.get(), [1, 1, 0, 0]);
}

#[test]
fn a_fault_is_shown_to_the_filters_it_passes_on_its_way_back() {
    let (one, two) = (|| Rc::new(Named("one")), || Rc::new(Named("two")));
    assert_eq!(passed(vec![one(), two()]), ["two", "one"]);
    assert_eq!(passed(vec![one(), Rc::new(Refusing), two()]), ["one"]);
}

#[test]
fn a_route_is_expected_to_be_brief_after_a_run_of_brief_exchanges() {
    let pace = Pace::default();
    let run = || (0..BRIEF_RUN).for_each(|_| pace.took(BRIEF_US));
    assert!(!pace.is_brief());
    (1..BRIEF_RUN).for_each(|_| pace.took(0));
    assert!(!pace.is_brief());
    pace.took(0);
    assert!(pace.is_brief());
    run();
    assert!(pace.is_brief());
    pace.took(BRIEF_US + 1);
    assert!(!pace.is_brief());
    run();
    pace.waited();
    assert!(!pace.is_brief());
}
