//! The contracts of the house: filters, handlers, and the compiled chain of a route.
//!
//! A filter has two hooks. A hook that need not wait allocates nothing; one that must answers
//! [`Step::Wait`], and its `wait_*` twin is then awaited. Only what must surround the rest of the
//! way (cache, mirror, retry) is a [`Middleware`] and takes [`Next`]. Filters see the request in the
//! order the route lists them and the response in the reverse order; a response made by a filter
//! passes the filters before it.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use crate::serve::Patience;
use crate::{Fault, Notes, Request, Response};

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

    /// Whether both hooks do hardly anything: see [`Handler::is_instant`].
    fn is_instant(&self) -> bool {
        false
    }

    /// Called once for each request that comes this far.
    fn on_request(&self, _request: &mut Request) -> Step {
        Step::Continue
    }

    /// Called when [`Filter::on_request`] said [`Step::Wait`]; must not say so again.
    fn wait_request<'a>(&'a self, _request: &'a mut Request) -> LocalFuture<'a, Step> {
        Box::pin(std::future::ready(Step::Continue))
    }

    /// Called once for each response that comes back to here.
    fn on_response(&self, _request: &mut Request, _response: &mut Response) -> Step {
        Step::Continue
    }

    /// Called instead of [`Filter::on_response`] when what comes back is a fault: a filter may add
    /// fields to the response it becomes ([`Fault::with_field`]).
    fn on_fault(&self, _request: &mut Request, _fault: &mut Fault) {}

    /// Called for a response that the server generated itself and that does not pass
    /// [`Filter::on_response`] of this filter: an error, wherever it came from, or the response of
    /// a filter that stands before this one. See [`crate::FilterPlan::changes_generated`].
    fn on_generated(&self, _request: &Request, _response: &mut Response) {}

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
pub trait Middleware {
    fn name(&self) -> &'static str;

    /// The answer, where it is known without waiting and without the rest of the way: it passes the
    /// filters before this one, and [`Middleware::call`] is not called. `None` asks for that, which
    /// follows at once, and leaves the request as it was. Must do hardly anything: see
    /// [`Handler::is_instant`].
    fn answer(&self, _request: &mut Request) -> Option<Outcome> {
        None
    }

    fn call(self: Rc<Self>, request: Request, next: Next) -> LocalFuture<'static, Outcome>;
}

/// What a route ends in.
pub trait Handler {
    /// Its name in the configuration.
    fn name(&self) -> &'static str;

    /// Whether [`Handler::answer`] does hardly anything: then the end of an exchange is told by a
    /// clock that was read a few exchanges ago.
    fn is_instant(&self) -> bool {
        false
    }

    /// The answer, where it needs no waiting. `None` asks for [`Handler::handle`], which follows at
    /// once: neither is asked twice. A handler that answers here allocates no future.
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
    Middleware(Rc<dyn Middleware>),
}

impl Stage {
    /// Calls [`Filter::on_generated`].
    pub fn on_generated(&self, request: &Request, response: &mut Response) {
        if let Stage::Filter(filter) = self {
            filter.on_generated(request, response);
        }
    }

    fn is_instant(&self) -> bool {
        match self {
            Stage::Filter(filter) => filter.is_instant(),
            // Only where it answers at once, which nobody knows before.
            Stage::Middleware(_) => false,
        }
    }
}

/// Bounds of one exchange: its listener's, unless its route has its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Longest request body in bytes.
    pub body: u64,
    /// How slowly a request body may arrive.
    pub body_patience: Patience,
    /// Longest time from the end of a request's head to the end of its body.
    pub body_total: Option<Duration>,
    /// How slowly a response may be taken.
    pub write_patience: Patience,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            body: 64 * 1024 * 1024,
            body_patience: Patience { pause: Duration::from_secs(30), rate: 240 },
            body_total: None,
            write_patience: Patience { pause: Duration::from_secs(30), rate: 240 },
        }
    }
}

/// What a route bounds otherwise than its listener does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RouteBounds {
    pub body: Option<u64>,
    pub body_pause: Option<Duration>,
    pub body_rate: Option<u64>,
    pub body_total: Option<Duration>,
    pub write_pause: Option<Duration>,
    pub write_rate: Option<u64>,
}

impl RouteBounds {
    /// These bounds where the listener's say something else.
    pub fn over(self, listener: Bounds) -> Bounds {
        Bounds {
            body: self.body.unwrap_or(listener.body),
            body_patience: listener.body_patience.with(self.body_pause, self.body_rate),
            body_total: self.body_total.or(listener.body_total),
            write_patience: listener.write_patience.with(self.write_pause, self.write_rate),
        }
    }
}

/// A route as one worker runs it.
pub struct Route {
    pub name: Rc<str>,
    pub stages: Vec<Stage>,
    pub handler: Rc<dyn Handler>,
    pub bounds: RouteBounds,
    pub metrics: std::sync::Arc<telemetry::RouteMetrics>,
    pub pace: Pace,
}

/// How long the exchanges of a route took of late that needed no waiting: what its next one may be
/// expected to take, where nobody knows.
#[derive(Default)]
pub struct Pace {
    /// How many in a row were brief, up to [`BRIEF_RUN`].
    brief: Cell<u8>,
}

const BRIEF_US: u64 = 30;
const BRIEF_RUN: u8 = 16;

impl Pace {
    #[inline]
    pub(crate) fn is_brief(&self) -> bool {
        self.brief.get() == BRIEF_RUN
    }

    /// One took so long.
    #[inline]
    pub(crate) fn took(&self, us: u64) {
        let brief = if us <= BRIEF_US { self.brief.get() + 1 } else { 0 };
        self.brief.set(brief.min(BRIEF_RUN));
    }

    /// One had to wait, for its answer or for its client: that is not brief.
    #[inline]
    pub(crate) fn waited(&self) {
        self.brief.set(0);
    }
}

/// How far a request has come on its route.
#[derive(Default)]
pub(crate) struct Progress {
    /// Stages that the request was given to first: earlier ones are not this run's.
    first: usize,
    /// Stages that the request has passed.
    passed: usize,
    /// The stage ahead has said that it has to be waited for, and is not asked again.
    waits: bool,
    /// A surround has answered at once, and who was asked before it does hardly anything.
    instant: bool,
    /// The response, once there is one, on its way back through the stages passed.
    response: Option<Response>,
}

/// Where a request stands.
pub(crate) enum Stand {
    Done(Outcome),
    /// The next stage has to be waited for, on the way there or back.
    Waits,
}

impl Progress {
    fn from(first: usize) -> Progress {
        Progress { first, passed: first, ..Progress::default() }
    }

    /// Whether the exchange was over in hardly any time, whatever its route may take.
    pub(crate) fn is_instant(&self) -> bool {
        self.instant
    }

    /// Takes what the stage ahead said on the request.
    fn on_request(&mut self, step: Step) -> Option<Result<(), Fault>> {
        match step {
            Step::Continue => self.passed += 1,
            Step::Respond(response) => self.response = Some(response),
            Step::Fail(fault) => return Some(Err(fault)),
            Step::Wait => return None,
        }
        Some(Ok(()))
    }

    /// Takes what the last stage passed said on the response.
    fn on_response(&mut self, step: Step) -> Option<Result<(), Fault>> {
        match step {
            Step::Continue => {}
            Step::Respond(response) => self.response = Some(response),
            Step::Fail(fault) => return Some(Err(fault)),
            Step::Wait => return None,
        }
        self.passed -= 1;
        Some(Ok(()))
    }
}

impl Route {
    /// Whether an exchange on this route is over in hardly any time.
    pub(crate) fn is_instant(&self) -> bool {
        self.handler.is_instant() && self.stages.iter().all(Stage::is_instant)
    }

    /// Runs a request through filters and handler.
    pub async fn run(self: &Rc<Self>, request: &mut Request) -> Outcome {
        self.run_on(request, &mut Progress::default()).await
    }

    /// Lets the filters change a response that was made from a fault.
    pub(crate) fn on_generated(&self, request: &Request, response: &mut Response) {
        for stage in self.stages.iter().rev() {
            stage.on_generated(request, response);
        }
    }

    /// Lets the filters behind the one ahead change the response it has just made.
    fn pass_over(&self, request: &Request, progress: &mut Progress) {
        let Some(response) = &mut progress.response else { return };
        for stage in self.stages[progress.passed + 1..].iter().rev() {
            stage.on_generated(request, response);
        }
    }

    /// Goes as far as is possible without waiting.
    pub(crate) fn advance(&self, request: &mut Request, progress: &mut Progress) -> Stand {
        let stand = self.go(request, progress);
        progress.waits = matches!(stand, Stand::Waits);
        stand
    }

    fn go(&self, request: &mut Request, progress: &mut Progress) -> Stand {
        while progress.response.is_none() {
            let answered = match self.stages.get(progress.passed) {
                Some(Stage::Filter(filter)) => {
                    match progress.on_request(filter.on_request(request)) {
                        Some(Ok(())) => {
                            self.pass_over(request, progress);
                            continue;
                        }
                        Some(Err(fault)) => Some(Err(fault)),
                        None => None,
                    }
                }
                Some(Stage::Middleware(surround)) => {
                    let answered = surround.answer(request);
                    progress.instant = answered.is_some()
                        && self.stages[..progress.passed].iter().all(Stage::is_instant);
                    answered
                }
                None => self.handler.answer(request),
            };
            match answered {
                // Nobody is on the way back.
                Some(Ok(response)) if progress.passed == progress.first => {
                    return Stand::Done(Ok(response));
                }
                Some(Ok(response)) => progress.response = Some(response),
                Some(Err(fault)) => return Stand::Done(Err(self.failed(request, progress, fault))),
                None => return Stand::Waits,
            }
        }
        while progress.passed > progress.first {
            if let (Stage::Filter(filter), Some(response)) =
                (&self.stages[progress.passed - 1], &mut progress.response)
            {
                let step = filter.on_response(request, response);
                match progress.on_response(step) {
                    Some(Ok(())) => {}
                    Some(Err(fault)) => {
                        return Stand::Done(Err(self.failed(request, progress, fault)));
                    }
                    None => return Stand::Waits,
                }
            } else {
                progress.passed -= 1;
            }
        }
        Stand::Done(progress.response.take().ok_or_else(|| Fault::internal("no response was made")))
    }

    /// Shows a fault to the filters passed, from the last to the first.
    fn failed(&self, request: &mut Request, progress: &Progress, mut fault: Fault) -> Fault {
        for stage in self.stages[progress.first..progress.passed].iter().rev() {
            if let Stage::Filter(filter) = stage {
                filter.on_fault(request, &mut fault);
            }
        }
        fault
    }

    /// Goes on from where [`Route::advance`] had to wait, to the end.
    pub(crate) async fn run_on(
        self: &Rc<Self>,
        request: &mut Request,
        progress: &mut Progress,
    ) -> Outcome {
        loop {
            if !progress.waits
                && let Stand::Done(outcome) = self.advance(request, progress)
            {
                return outcome;
            }
            progress.waits = false;
            if let Err(fault) = self.wait(request, progress).await {
                return Err(self.failed(request, progress, fault));
            }
        }
    }

    /// Waits for the one stage that [`Route::advance`] stopped at.
    async fn wait(
        self: &Rc<Self>,
        request: &mut Request,
        progress: &mut Progress,
    ) -> Result<(), Fault> {
        if let Some(response) = &mut progress.response {
            let Stage::Filter(filter) = &self.stages[progress.passed - 1] else {
                return Err(Fault::internal("only a filter can hold a response up"));
            };
            let step = filter.wait_response(request, response).await;
            return progress.on_response(step).unwrap_or_else(|| Err(waits_twice(filter.name())));
        }
        match self.stages.get(progress.passed) {
            Some(Stage::Filter(filter)) => {
                let step = filter.wait_request(request).await;
                let taken = progress.on_request(step);
                self.pass_over(request, progress);
                taken.unwrap_or_else(|| Err(waits_twice(filter.name())))
            }
            Some(Stage::Middleware(surround)) => {
                let noted = Rc::new(Cell::new(None));
                let next =
                    Next { route: self.clone(), at: progress.passed + 1, noted: noted.clone() };
                let outcome = surround.clone().call(request.take(), next).await;
                if let Some(notes) = noted.take() {
                    request.notes = notes;
                }
                progress.response = Some(outcome?);
                Ok(())
            }
            None => {
                progress.response = Some(self.handler.handle(request).await?);
                Ok(())
            }
        }
    }
}

fn waits_twice(name: &'static str) -> Fault {
    Fault::internal(format!("the filter {name} asked to wait while it was waited for"))
}

/// The rest of the way behind a [`Middleware`] (seam 6): an owned handle that may run apart from its
/// client (as a task of its own: [`crate::BackgroundPermit`]), more than once, with a made-up request
/// ([`Request::apart`]) and a deadline. Dropping the future it gives cancels it.
#[derive(Clone)]
pub struct Next {
    route: Rc<Route>,
    at: usize,
    /// What the last run of the client's own request noted, for the log.
    noted: Rc<Cell<Option<Notes>>>,
}

impl Next {
    pub fn run(self, mut request: Request) -> LocalFuture<'static, Outcome> {
        Box::pin(async move {
            let mut progress = Progress::from(self.at);
            let outcome = self.route.run_on(&mut request, &mut progress).await;
            if request.facts.protocol.is_client() {
                self.noted.set(Some(request.notes));
            }
            outcome
        })
    }

    /// [`Next::run`] for a run apart, with what it noted: whoever answers the client with what
    /// comes of it may [`Next::note`] that.
    pub fn run_noting(self, mut request: Request) -> LocalFuture<'static, (Outcome, Notes)> {
        Box::pin(async move {
            let mut progress = Progress::from(self.at);
            let outcome = self.route.run_on(&mut request, &mut progress).await;
            (outcome, std::mem::take(&mut request.notes))
        })
    }

    /// Leaves notes for the log in the client's own request.
    pub fn note(&self, notes: Notes) {
        self.noted.set(Some(notes));
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

#[cfg(test)]
mod tests;
