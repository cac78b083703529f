//! A filter's hooks: in order, backwards, and waited for.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use message::{Fault, FaultKind, Request, Response};
use net::worker::block_on_local;
use plugin::{Filter, MaybeFuture, Step};

use crate::client::{Answers, Client, filter, serve};

/// Writes down when it was asked; waits if it is told to.
struct Noting {
    name: &'static str,
    waits: bool,
    notes: Rc<RefCell<Vec<String>>>,
}

impl Noting {
    fn note(&self, hook: &str) {
        self.notes.borrow_mut().push(format!("{} {hook}", self.name));
    }

    async fn pause(&self) {
        net::timer::sleep(Duration::from_millis(1)).await;
    }
}

impl Filter for Noting {
    fn name(&self) -> &'static str {
        self.name
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        if !self.waits {
            self.note("request");
            return Step::Continue.into();
        }
        MaybeFuture::of(async move {
            self.pause().await;
            self.note("request");
            match request.target.path() {
                "/refused" => Step::Fail(Fault::new(FaultKind::Forbidden, "")),
                "/answered" => Step::Respond(Response::text(200, "from the filter")),
                _ => Step::Continue,
            }
        })
    }

    fn on_response<'a>(
        &'a self,
        request: &'a mut Request,
        response: &'a mut Response,
    ) -> MaybeFuture<'a, Step> {
        if !self.waits {
            self.note("response");
            return Step::Continue.into();
        }
        MaybeFuture::of(async move {
            self.pause().await;
            self.note("response");
            response.headers.append("x-late", self.name);
            if request.target.path() == "/replaced" {
                return Step::Respond(Response::text(202, "instead"));
            }
            Step::Continue
        })
    }

    fn on_fault(&self, _: &mut Request, _: &mut Fault) {
        self.note("fault");
    }
}

/// Sends a request through three filters of which the second waits on both hooks.
fn through(path: &str) -> (String, Vec<String>) {
    block_on_local(async {
        let notes = Rc::new(RefCell::new(Vec::new()));
        let stage = |name, waits| filter(Noting { name, waits, notes: notes.clone() });
        let stages = vec![stage("one", false), stage("two", true), stage("three", false)];
        let handler = Answers(|_: &mut Request| Ok(Response::text(200, "from the handler")));
        let client = Client::connect(serve(stages, handler)).await;
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")).await;
        let answer = client.rest().await;
        (answer, notes.take())
    })
}

#[test]
fn both_hooks_may_wait_and_keep_their_order() {
    let (answer, notes) = through("/");
    assert!(answer.contains("x-late: two\r\n") && answer.ends_with("from the handler"), "{answer}");
    assert_eq!(
        notes,
        [
            "one request",
            "two request",
            "three request",
            "three response",
            "two response",
            "one response"
        ]
    );
}

#[test]
fn a_filter_that_waited_may_respond_and_those_behind_it_see_nothing() {
    let (answer, notes) = through("/answered");
    assert!(answer.ends_with("from the filter") && !answer.contains("x-late"), "{answer}");
    assert_eq!(notes, ["one request", "two request", "one response"]);
}

#[test]
fn a_filter_that_waited_may_fail() {
    let (answer, notes) = through("/refused");
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    assert_eq!(notes, ["one request", "two request", "one fault"]);
}

#[test]
fn a_filter_that_waited_may_replace_the_response() {
    let (answer, notes) = through("/replaced");
    assert!(answer.starts_with("HTTP/1.1 202 ") && answer.ends_with("instead"), "{answer}");
    assert_eq!(notes.last().unwrap(), "one response");
}
