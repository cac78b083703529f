//! The contracts of the house: filters, handlers, and the compiled chain of a route.
//!
//! A filter has two hooks. A hook that need not wait allocates nothing; one that must answers
//! [`Step::Wait`], and its `wait_*` twin is then awaited. Only what must surround the rest of the way
//! (cache, mirror, retry) is a [`Surround`] and takes [`Next`]. Filters see the request in the order
//! the route lists them and the response in the reverse order; a response made by a filter passes
//! the filters before it.

use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use crate::{Fault, Request, Response};

/// A future of this worker.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// What comes of a request: a response or a fault that will become one.
pub type Outcome = Result<Response, Fault>;

/// What a hook says.
pub enum Step {
    /// Go on.
    Continue,
    /// Answer this instead. On the request the rest of the way is skipped; on the response the
    /// former one is replaced.
    Respond(Response),
    /// Fail like this.
    Fail(Fault),
    /// Not without waiting: call the hook's waiting twin.
    Wait,
}

/// A filter: life of one entry of a route's `filters`.
pub trait Filter {
    /// Its name in the configuration.
    fn name(&self) -> &'static str;

    fn on_request(&self, _request: &mut Request) -> Step {
        Step::Continue
    }

    /// Called when [`Filter::on_request`] said [`Step::Wait`]; must not say so again.
    fn wait_request<'a>(&'a self, _request: &'a mut Request) -> LocalFuture<'a, Step> {
        Box::pin(std::future::ready(Step::Continue))
    }

    fn on_response(&self, _request: &mut Request, _response: &mut Response) -> Step {
        Step::Continue
    }

    /// Called when [`Filter::on_response`] said [`Step::Wait`]; must not say so again.
    fn wait_response<'a>(
        &'a self,
        _request: &'a mut Request,
        _response: &'a mut Response,
    ) -> LocalFuture<'a, Step> {
        Box::pin(std::future::ready(Step::Continue))
    }
}

/// A filter that surrounds the rest of the way.
pub trait Surround {
    fn name(&self) -> &'static str;

    fn around(self: Rc<Self>, request: Request, next: Next) -> LocalFuture<'static, Outcome>;
}

/// What a route ends in.
pub trait Handler {
    /// Its name in the configuration.
    fn name(&self) -> &'static str;

    /// The answer, where it needs no waiting. `None` asks for [`Handler::handle`]. A handler that
    /// answers here allocates no future.
    fn answer(&self, _request: &mut Request) -> Option<Outcome> {
        None
    }

    /// The answer.
    fn handle<'a>(&'a self, request: &'a mut Request) -> LocalFuture<'a, Outcome>;
}

/// One entry of a chain.
#[derive(Clone)]
pub enum Stage {
    Filter(Rc<dyn Filter>),
    Surround(Rc<dyn Surround>),
}

/// Bounds of one exchange; a route may have its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Bounds {
    /// Longest request body in bytes.
    pub body: u64,
    /// Longest pause while a request body arrives.
    pub body_pause: Duration,
    /// Longest pause while a response is taken.
    pub write_pause: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            body: 64 * 1024 * 1024,
            body_pause: Duration::from_secs(30),
            write_pause: Duration::from_secs(30),
        }
    }
}

/// A route as one worker runs it.
pub struct Route {
    pub name: Rc<str>,
    pub stages: Vec<Stage>,
    pub handler: Rc<dyn Handler>,
    pub bounds: Bounds,
    pub metrics: std::sync::Arc<telemetry::RouteMetrics>,
}

impl Route {
    /// Runs a request through filters and handler.
    pub async fn run(self: &Rc<Self>, request: &mut Request) -> Outcome {
        self.run_from(0, request).await
    }

    async fn run_from(self: &Rc<Self>, first: usize, request: &mut Request) -> Outcome {
        let mut passed = first;
        let mut outcome = None;
        while let Some(stage) = self.stages.get(passed) {
            match stage {
                Stage::Filter(filter) => {
                    let mut step = filter.on_request(request);
                    if matches!(step, Step::Wait) {
                        step = filter.wait_request(request).await;
                    }
                    match step {
                        Step::Continue => passed += 1,
                        Step::Respond(response) => {
                            outcome = Some(Ok(response));
                            break;
                        }
                        Step::Fail(fault) => {
                            outcome = Some(Err(fault));
                            break;
                        }
                        Step::Wait => return Err(waits_twice(filter.name())),
                    }
                }
                Stage::Surround(surround) => {
                    let next = Next { route: self.clone(), at: passed + 1 };
                    outcome = Some(surround.clone().around(request.take(), next).await);
                    break;
                }
            }
        }
        let mut response = match outcome {
            Some(outcome) => outcome?,
            None => match self.handler.answer(request) {
                Some(outcome) => outcome?,
                None => self.handler.handle(request).await?,
            },
        };
        for stage in self.stages[first..passed].iter().rev() {
            let Stage::Filter(filter) = stage else { continue };
            let mut step = filter.on_response(request, &mut response);
            if matches!(step, Step::Wait) {
                step = filter.wait_response(request, &mut response).await;
            }
            match step {
                Step::Continue => {}
                Step::Respond(other) => response = other,
                Step::Fail(fault) => return Err(fault),
                Step::Wait => return Err(waits_twice(filter.name())),
            }
        }
        Ok(response)
    }
}

fn waits_twice(name: &'static str) -> Fault {
    Fault::internal(format!("the filter {name} asked to wait while it was waited for"))
}

/// The rest of the way behind a [`Surround`] (seam 6): an owned handle that may run apart from its
/// client, more than once, with a made-up request and a deadline. Dropping the future it gives
/// cancels it.
#[derive(Clone)]
pub struct Next {
    route: Rc<Route>,
    at: usize,
}

impl Next {
    pub fn run(self, mut request: Request) -> LocalFuture<'static, Outcome> {
        Box::pin(async move { self.route.run_from(self.at, &mut request).await })
    }

    /// [`Next::run`] with a bound on the time to the response's head: 504 afterwards.
    pub fn run_within(self, span: Duration, request: Request) -> LocalFuture<'static, Outcome> {
        Box::pin(async move {
            net::timer::within(span, self.run(request)).await.unwrap_or_else(|| {
                Err(Fault::new(crate::Side::Us, 504, "deadline", "the exchange took too long"))
            })
        })
    }
}
