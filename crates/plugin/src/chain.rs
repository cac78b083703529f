//! The extension points of a route: filters, middlewares and handlers, and the chain that runs
//! them.
//!
//! A hook returns a [`MaybeFuture`]: its result where that is known without waiting, which
//! allocates nothing, or a future of it. Filters see the request in the order the route lists them
//! and the response in the reverse order; a response made by a filter passes the filters before it.
//! Only what must surround the rest of the route (cache, mirror, retry) is a [`Middleware`] and
//! takes [`Next`].

mod spans;

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use telemetry::RouteMetrics;

use message::{
    Fault, HandlerResult, LocalFuture, Recorder, Request, RequestTrace, Response, RouteBounds,
    RouteInfo,
};

use crate::{KeyOwners, MaybeFuture};
use spans::{begin_span, end_span, enter_handler, enter_span, record_step};

/// [`MaybeFuture::resolve`] for a request's own path. Inlined like this, the future around it holds
/// what has to be waited for and no room for a second result: it is copied less.
macro_rules! resolve {
    ($result:expr) => {{
        let value = match $result {
            MaybeFuture::Ready(value) => value,
            MaybeFuture::Future(future) => future.await,
        };
        value
    }};
}

/// [`resolve`] for a filter's hook: a hook that has to be waited for is a span of the request's
/// trace, another one a step.
macro_rules! resolve_hook {
    ($filter:expr, $request:expr, $message:literal, $hook:expr) => {{
        let recorder = $request.trace.as_ref().and_then(RequestTrace::recorder);
        let began_us = recorder.as_ref().and_then(Recorder::begin_step);
        let value = match $hook {
            MaybeFuture::Ready(value) => {
                if let (Some(recorder), Some(began_us)) = (&recorder, began_us) {
                    record_step(recorder, $filter.name(), $message, began_us, &value);
                }
                value
            }
            MaybeFuture::Future(future) => {
                let span = recorder.map(|recorder| begin_span(recorder, $filter.name()));
                let value = future.await;
                if let Some(span) = span {
                    span.end(&mut None, matches!(value, Step::Fail(_)));
                }
                value
            }
        };
        value
    }};
}

/// The decision of a filter's hook.
pub enum Step {
    /// The request or the response continues on its path.
    Continue,
    /// Responds with this instead. On the request the rest of the route is skipped; on the response
    /// the former one is replaced.
    Respond(Response),
    /// Fails with this fault.
    Fail(Fault),
}

/// One entry of a route's `filters`, as one worker runs it.
pub trait Filter {
    /// Returns the filter's name in the configuration.
    fn name(&self) -> &'static str;

    /// True if both hooks are cheaper than reading the clock and never wait: see
    /// [`Handler::is_instant`].
    fn is_instant(&self) -> bool {
        false
    }

    /// Called once for each request that gets to this filter.
    fn on_request<'a>(&'a self, _request: &'a mut Request) -> MaybeFuture<'a, Step> {
        MaybeFuture::Ready(Step::Continue)
    }

    /// Called once for each response that reaches this filter.
    fn on_response<'a>(
        &'a self,
        _request: &'a mut Request,
        _response: &'a mut Response,
    ) -> MaybeFuture<'a, Step> {
        MaybeFuture::Ready(Step::Continue)
    }

    /// Called instead of [`Filter::on_response`] for a fault: a filter may add fields to the
    /// response it becomes ([`Fault::with_field`]).
    fn on_fault(&self, _request: &mut Request, _fault: &mut Fault) {}

    /// Called for a response that the server generated itself and that does not pass
    /// [`Filter::on_response`] of this filter: an error from anywhere, or the response of a filter
    /// before this one. See [`crate::FilterPlan::changes_generated`].
    fn on_generated(&self, _request: &Request, _response: &mut Response) {}
}

/// A filter that surrounds the rest of the route.
///
/// ```
/// use std::rc::Rc;
/// use std::time::Duration;
///
/// use message::{HandlerResult, Request};
/// use plugin::{MaybeFuture, Middleware, Next};
///
/// /// Responds 504 unless the rest of the route responds in time.
/// struct Deadline(Duration);
///
/// impl Middleware for Deadline {
///     fn name(&self) -> &'static str {
///         "deadline"
///     }
///
///     fn call<'a>(
///         self: Rc<Self>,
///         request: &'a mut Request,
///         next: Next,
///     ) -> MaybeFuture<'a, HandlerResult> {
///         MaybeFuture::Future(next.run_within(self.0, request))
///     }
/// }
/// ```
pub trait Middleware {
    /// Returns the middleware's name in the configuration.
    fn name(&self) -> &'static str;

    /// True if [`Middleware::call`] takes hardly any time before it first waits or runs the rest:
    /// see [`Handler::is_instant`].
    fn is_instant(&self) -> bool {
        false
    }

    /// True if [`Middleware::enters`] may be.
    fn has_entrance(&self) -> bool {
        false
    }

    /// True if a request comes directly to this middleware: another server of the fleet has passed
    /// it through the filters before.
    fn enters(&self, _request: &mut Request) -> bool {
        false
    }

    /// Responds, by running the rest of the route or without it. A response that the middleware
    /// makes itself goes through [`Next::skip`].
    fn call<'a>(
        self: Rc<Self>,
        request: &'a mut Request,
        next: Next,
    ) -> MaybeFuture<'a, HandlerResult>;
}

/// The end of a route, which responds to its requests.
///
/// ```
/// use message::{HandlerResult, Request, Response};
/// use plugin::{Handler, MaybeFuture};
///
/// /// Responds with the size of the body it receives.
/// struct Count;
///
/// impl Handler for Count {
///     fn name(&self) -> &'static str {
///         "count"
///     }
///
///     fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
///         MaybeFuture::of(async move {
///             let body = request.collect_body(64 * 1024).await?;
///             Ok(Response::text(200, format!("{} bytes", body.len())))
///         })
///     }
/// }
///
/// # let target = message::Target::new("/".into()).unwrap();
/// # let mut request = Request::made_up(wire::Method::Post, target, Default::default());
/// # request.body = "four".into();
/// # let response = net::worker::block_on_local(Count.handle(&mut request).resolve()).unwrap();
/// # let message::Body::Bytes(body) = response.body else { panic!("a body") };
/// # assert_eq!(body, "4 bytes");
/// ```
pub trait Handler {
    /// Returns the handler's name in the configuration.
    fn name(&self) -> &'static str;

    /// True if [`Handler::handle`] takes very little time before it first waits. Then responses to
    /// other connections may wait until it has run, the end of the exchange is timed with a clock
    /// that was read a few exchanges earlier, and a trace has no span of it.
    fn is_instant(&self) -> bool {
        false
    }

    /// False if [`Handler::handle`] reads no field of the request. Then `traceparent` is not set
    /// for it, which would cost more than a response that is fixed.
    fn reads_fields(&self) -> bool {
        true
    }

    /// Responds to the request.
    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult>;

    /// The servers that it forwards to, as owners of keys.
    fn key_owners(&self) -> Option<&dyn KeyOwners> {
        None
    }
}

/// One entry of a chain.
#[derive(Clone)]
pub enum Stage {
    Filter(Rc<dyn Filter>),
    Middleware(Rc<dyn Middleware>),
}

impl Stage {
    /// Calls [`Filter::on_generated`].
    pub fn on_generated(&self, request: &Request, response: &mut Response) {
        if let Stage::Filter(filter) = self {
            filter.on_generated(request, response);
        }
    }
}

/// A route as one worker runs it.
pub struct Route {
    pub info: Rc<RouteInfo>,
    stages: Vec<Stage>,
    handler: Rc<dyn Handler>,
    instant: bool,
    /// The middleware that requests of other servers may come to directly.
    entrance: Option<usize>,
    /// The handler or a filter may read the position in the trace from the request's fields.
    passes_trace: bool,
}

impl Route {
    pub fn new(
        name: impl Into<Box<str>>,
        bounds: RouteBounds,
        metrics: Arc<RouteMetrics>,
        stages: Vec<Stage>,
        handler: Rc<dyn Handler>,
    ) -> Route {
        let info = RouteInfo { name: name.into(), bounds: bounds.boxed(), metrics, log: None };
        Route::from_info(info, stages, handler)
    }

    /// A route with its own way to log requests, if `info` has one.
    pub fn from_info(info: RouteInfo, stages: Vec<Stage>, handler: Rc<dyn Handler>) -> Route {
        let instant = is_instant(&stages, &*handler);
        let passes_trace = !stages.is_empty() || handler.reads_fields();
        let has_entrance =
            |stage: &Stage| matches!(stage, Stage::Middleware(one) if one.has_entrance());
        let entrance = stages.iter().position(has_entrance);
        Route { info: Rc::new(info), stages, handler, instant, entrance, passes_trace }
    }

    /// The first stage for a request.
    fn first_stage(&self, request: &mut Request) -> usize {
        let entrance = self.entrance.and_then(|at| Some((at, self.stages.get(at)?)));
        match entrance {
            Some((at, Stage::Middleware(middleware))) if middleware.enters(request) => at,
            _ => 0,
        }
    }

    /// True if a request takes hardly any time on this route before it first waits.
    #[inline]
    pub fn is_instant(&self) -> bool {
        self.instant
    }

    /// Runs a request through filters and handler, a gRPC call until its deadline.
    pub async fn run(self: &Rc<Self>, request: &mut Request) -> HandlerResult {
        let first = self.first_stage(request);
        let Some(span) = request.notes.grpc.as_ref().and_then(|call| call.remaining()) else {
            return self.run_from(first, request).await;
        };
        let outcome = Box::pin(net::timer::within(span, self.run_from(first, request))).await;
        // No filter has seen the end of the call.
        outcome.unwrap_or_else(|| Err(self.on_early_fault(request, Fault::deadline())))
    }

    /// Runs a request through the stages from `first` on, and the handler.
    async fn run_from(self: &Rc<Self>, first: usize, request: &mut Request) -> HandlerResult {
        let mut passed = first;
        let outcome = loop {
            match self.stages.get(passed) {
                Some(Stage::Filter(filter)) => {
                    match resolve_hook!(filter, request, "request", filter.on_request(request)) {
                        Step::Continue => passed += 1,
                        Step::Respond(mut response) => {
                            self.on_generated_from(passed + 1, request, &mut response);
                            break Ok(response);
                        }
                        Step::Fail(fault) => break Err(fault),
                    }
                }
                Some(Stage::Middleware(middleware)) => {
                    let span = enter_span(request, middleware.name());
                    let next = Next { route: self.clone(), at: passed + 1 };
                    let outcome = resolve!(middleware.clone().call(request, next));
                    end_span(span, request, &outcome);
                    break outcome;
                }
                None => {
                    let span = enter_handler(request, &*self.handler);
                    if let Some(trace) = &request.trace
                        && self.passes_trace
                    {
                        trace.propagate(&mut request.headers);
                    }
                    let outcome = resolve!(self.handler.handle(request));
                    end_span(span, request, &outcome);
                    break outcome;
                }
            }
        };
        let mut response = match outcome {
            Ok(response) => response,
            Err(fault) => return Err(show_fault(&self.stages[first..passed], request, fault)),
        };
        while passed > first {
            if let Stage::Filter(filter) = &self.stages[passed - 1] {
                match resolve_hook!(
                    filter,
                    request,
                    "response",
                    filter.on_response(request, &mut response)
                ) {
                    Step::Continue => {}
                    Step::Respond(other) => response = other,
                    Step::Fail(fault) => {
                        return Err(show_fault(&self.stages[first..passed], request, fault));
                    }
                }
            }
            passed -= 1;
        }
        Ok(response)
    }

    /// Passes all filters a fault that occurred before any of them saw the request.
    pub fn on_early_fault(&self, request: &mut Request, fault: Fault) -> Fault {
        show_fault(&self.stages, request, fault)
    }

    /// Lets the filters change a response that was made from a fault.
    pub fn on_generated(&self, request: &Request, response: &mut Response) {
        self.on_generated_from(0, request, response);
    }

    /// The same for the stages from `first` on.
    fn on_generated_from(&self, first: usize, request: &Request, response: &mut Response) {
        for stage in self.stages[first..].iter().rev() {
            stage.on_generated(request, response);
        }
    }
}

/// Chooses the route of a request; implemented by `server` over the router of the current plan.
pub trait Dispatch {
    /// The route, with `request.params` filled in; or the fault (404, 405) to answer.
    fn dispatch(&self, request: &mut Request) -> Result<Rc<Route>, Fault>;

    /// Changes a response that the server generates for a request without a route.
    fn on_generated(&self, _request: &Request, _response: &mut Response) {}
}

/// A middleware decides by itself when the rest of the chain runs, in [`Next::run`]: filters after
/// the first middleware do not count.
fn is_instant(stages: &[Stage], handler: &dyn Handler) -> bool {
    for stage in stages {
        match stage {
            Stage::Filter(filter) if filter.is_instant() => {}
            Stage::Filter(_) => return false,
            Stage::Middleware(middleware) => return middleware.is_instant(),
        }
    }
    handler.is_instant()
}

/// Shows a fault to the filters that the request has passed, from the last to the first.
fn show_fault(passed: &[Stage], request: &mut Request, mut fault: Fault) -> Fault {
    for stage in passed.iter().rev() {
        if let Stage::Filter(filter) = stage {
            filter.on_fault(request, &mut fault);
        }
    }
    fault
}

/// The rest of the route behind a [`Middleware`] (extension point 6): an owned handle that may run
/// in the background (as a task of its own: [`crate::BackgroundPermit`]), more than once, with
/// another request ([`Request::for_background`]) and a deadline. Dropping the future it gives
/// cancels it.
#[derive(Clone)]
pub struct Next {
    route: Rc<Route>,
    at: usize,
}

impl Next {
    /// Runs a request through the rest of the route.
    pub fn run(self, request: &mut Request) -> LocalFuture<'_, HandlerResult> {
        // Responses to other connections must not wait for a step that may take long.
        net::task::send_deferred();
        Box::pin(async move { self.route.run_from(self.at, request).await })
    }

    /// Ends a request without running the rest of the route: its filters may change the response
    /// that the middleware has made, as they change one of a filter before them.
    pub fn skip(self, request: &Request, mut outcome: HandlerResult) -> HandlerResult {
        if let Ok(response) = &mut outcome {
            self.route.on_generated_from(self.at, request, response);
        }
        outcome
    }

    /// [`Next::run`] with a bound on the time to the response's head: 504 afterwards.
    pub fn run_within(
        self,
        span: Duration,
        request: &mut Request,
    ) -> LocalFuture<'_, HandlerResult> {
        Box::pin(async move {
            net::timer::within(span, self.run(request))
                .await
                .unwrap_or_else(|| Err(Fault::deadline()))
        })
    }
}

#[cfg(test)]
mod tests;
