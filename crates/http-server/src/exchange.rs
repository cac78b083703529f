//! One request and its response, over any version of HTTP.
//!
//! Has everything that does not depend on the version: the route, the response, the counters and
//! the access log. `h1` and `h2` receive the request, watch the client and send the response.

use std::rc::Rc;

use telemetry::{CloseReason, WorkerMetrics};
use wire::grpc::{Code, Form};
use wire::{Known, Method};

use crate::access_log::TunnelEntry;
use crate::fault_log;
use crate::listener_snapshot::ListenerSnapshot;
use crate::secure;
use crate::tracer::RequestEnd;
use message::{
    Bounds, ConnectionFacts, Fault, FaultKind, GrpcCall, HandlerResult, Inform, Recorder, Request,
    RequestTrace, Response,
};
use plugin::{Route, problem};

/// nginx's status for a client that left without a response. It is logged and never sent.
pub(crate) const CLIENT_GONE: u16 = 499;

/// Fields of a response that the live log shows: they say why it is as it is.
const RECORDED_FIELDS: [(&str, &str); 3] = [
    ("cache-status", "http.response.header.cache-status"),
    ("proxy-status", "http.response.header.proxy-status"),
    ("content-type", "http.response.header.content-type"),
];

/// A request that is being served.
pub(crate) struct Exchange {
    pub(crate) snapshot: Rc<ListenerSnapshot>,
    pub(crate) request: Box<Request>,
    pub(crate) route: Option<Rc<Route>>,
    pub(crate) bounds: Bounds,
    /// The response was there without waiting, after hardly any time.
    pub(crate) instant: bool,
}

/// The result of a request.
pub(crate) struct Conclusion {
    pub(crate) response: Response,
    /// The reason why the connection closes after the response, if a fault requires it.
    pub(crate) close: Option<CloseReason>,
    /// True if nothing is sent.
    pub(crate) is_unanswered: bool,
}

impl Exchange {
    pub(crate) fn new(
        snapshot: Rc<ListenerSnapshot>,
        request: Box<Request>,
        metrics: &WorkerMetrics,
    ) -> Exchange {
        metrics.requests_in_flight.add(1);
        let bounds = snapshot.bounds;
        Exchange { snapshot, request, route: None, bounds, instant: false }
    }

    /// Finds the route and lets `attach` add the request's body, or returns the response to a
    /// request that reaches no filter: no route, `OPTIONS *`, a body above the limit.
    pub(crate) fn dispatch(
        &mut self,
        informer: &Rc<impl Inform + 'static>,
        attach: impl FnOnce(&mut Request, &Bounds) -> Result<(), Fault>,
    ) -> Option<Box<HandlerResult>> {
        let request = &mut self.request;
        if let Some(tracer) = &self.snapshot.tracer {
            tracer.begin(request);
        }
        let early = match GrpcCall::note(request) {
            Ok(()) => {
                let tls = self.snapshot.tls.as_ref();
                tls.and_then(|tls| secure::unsuitable(request, tls))
            }
            Err(fault) => Some(Box::new(Err(fault))),
        };
        let found = if early.is_some() || request.target.names_no_resource() {
            None
        } else {
            Some(self.snapshot.dispatch.dispatch(request))
        };
        if let Some(Ok(route)) = &found {
            let info = &route.info;
            if let Some(bounds) = &info.bounds {
                self.bounds = bounds.over(self.bounds);
            }
            info.metrics.in_flight.add(1);
            request.informer = Some(informer.clone());
            request.route = Some(info.clone());
            GrpcCall::bound(request);
        }
        // Even a request without a route has its body put in place: its rest must be known.
        let attached = attach(request, &self.bounds);
        match (found, attached) {
            (Some(Ok(route)), attached) => {
                let route = self.route.insert(route);
                let early = attached.err()?;
                Some(Box::new(Err(route.on_early_fault(request, early))))
            }
            (_, Err(fault)) | (Some(Err(fault)), _) => Some(Box::new(Err(fault))),
            (None, Ok(())) => {
                let mut outcome = early.unwrap_or_else(|| Box::new(without_resource(request)));
                if let Ok(response) = &mut *outcome {
                    self.snapshot.dispatch.on_generated(request, response);
                }
                Some(outcome)
            }
        }
    }

    /// The response, or the one that a fault becomes.
    pub(crate) fn conclude(
        &mut self,
        outcome: HandlerResult,
        metrics: &WorkerMetrics,
    ) -> Conclusion {
        let mut conclusion = match outcome {
            // RFC 9110 15.2: an interim response ends no exchange; only a switch of protocols does.
            Ok(response) if response.status < 200 && response.takeover.is_none() => {
                let fault = Fault::internal("a handler responded with an interim status");
                self.failed(&fault, metrics)
            }
            Ok(mut response) => {
                if let Some(call) = &self.request.notes.grpc {
                    // A filter that has made the call of another request has translated the status.
                    if call.form.is_some() || call.status().is_none() {
                        call.note_head(&response);
                    }
                    // The other forms have their trailers in a message: the filter that writes it
                    // protects the body.
                    if call.form == Some(Form::Grpc) {
                        response.body = call.guard(response.body);
                    }
                }
                Conclusion { response, close: None, is_unanswered: false }
            }
            Err(fault) => self.failed(&fault, metrics),
        };
        if let Some(tls) = &self.snapshot.tls {
            secure::add_hsts(&self.request, tls, &mut conclusion.response);
        }
        if let Some(recorder) = self.request.trace.as_ref().and_then(RequestTrace::recorder) {
            record_response(&recorder, &conclusion.response);
        }
        conclusion
    }

    #[cold]
    fn failed(&mut self, fault: &Fault, metrics: &WorkerMetrics) -> Conclusion {
        let request = &mut self.request;
        request.notes.fault = Some(fault.slug());
        fault_log::answered(request, fault);
        let snapshot = &self.snapshot;
        let (route, pages) = (self.route.as_deref(), &snapshot.pages);
        let response = problem::respond(fault, request, route, pages, &*snapshot.dispatch);
        let close = fault.close.then(|| close_reason(fault, metrics));
        Conclusion { response, close, is_unanswered: fault.is_unanswered() }
    }

    /// The body of the response failed after the head was sent.
    pub(crate) fn aborted(&mut self, fault: &Fault) {
        self.request.notes.fault = Some(fault.slug());
        fault_log::aborted(&self.request, fault);
    }

    /// Counts and logs the end of the exchange.
    pub(crate) fn log(&mut self, metrics: &WorkerMetrics, status: u16, body_bytes: u64) {
        let duration_us = self.count(metrics, status, Some(body_bytes));
        if let Some(access) = &self.snapshot.access {
            access.answered(&self.request, status, body_bytes, duration_us);
        }
    }

    /// Counts the end of an exchange whose connection becomes a tunnel. Returns its line of the
    /// access log, which is written when the tunnel ends.
    pub(crate) fn begin_tunnel(
        &mut self,
        metrics: &WorkerMetrics,
        status: u16,
    ) -> Option<Box<TunnelEntry>> {
        self.count(metrics, status, None);
        self.snapshot.access.as_ref()?.tunnel(&self.request, status)
    }

    /// Counts the end of the exchange and returns its duration.
    fn count(&mut self, metrics: &WorkerMetrics, status: u16, body_bytes: Option<u64>) -> u64 {
        metrics.requests_in_flight.add(-1);
        metrics.count_response(status);
        if self.request.notes.grpc.is_some() {
            self.end_call(status);
        }
        let trace = self.request.trace.as_ref();
        let now_us = match self.instant && !trace.is_some_and(RequestTrace::needs_precise_end) {
            true => net::clock::recent_us(),
            false => net::clock::precise_us(),
        };
        let duration_us = now_us.saturating_sub(self.request.began_us);
        if let Some(route) = &self.request.route {
            route.metrics.in_flight.add(-1);
            route.metrics.finished(status, duration_us);
        }
        if let Some(tracer) = &self.snapshot.tracer {
            tracer.end(&self.request, &RequestEnd { status, duration_us, body_bytes });
        }
        duration_us
    }

    /// Counts the status of a gRPC call and logs what ended its response.
    #[cold]
    fn end_call(&mut self, status: u16) {
        let Some(call) = self.request.notes.grpc.clone() else { return };
        if let Some(fault) = call.take_fault() {
            self.aborted(&fault);
        }
        if status == CLIENT_GONE {
            call.set_status(Code::Cancelled);
        }
        if let (Some(route), Some(code)) = (&self.request.route, call.status()) {
            route.metrics.count_grpc(code);
        }
    }
}

/// Records for the live log when the head of the response was ready, and what it says about the
/// path of the request.
#[cold]
fn record_response(recorder: &Recorder, response: &Response) {
    let Some(now_us) = recorder.begin_step() else { return };
    recorder.end_step("response", now_us, |span| {
        span.set("http.response.status_code", u64::from(response.status));
        for (name, attribute) in RECORDED_FIELDS {
            if let Some(value) = response.headers.get(name) {
                span.set_bytes(attribute, value);
            }
        }
    });
}

/// Logs a malformed request, and its response if there is one.
pub(crate) fn refused(
    facts: &ConnectionFacts,
    snapshot: &ListenerSnapshot,
    fault: &Fault,
    response: Option<&Response>,
) {
    if let Some(access) = &snapshot.access {
        let body_bytes = response.and_then(|response| response.body.length());
        access.refused(facts, fault, body_bytes.unwrap_or(0));
    }
    fault_log::refused(facts, fault);
}

/// The response to a malformed request.
pub(crate) fn rejection(snapshot: &ListenerSnapshot, fault: &Fault) -> Response {
    let mut response = problem::render(fault, None, &snapshot.pages);
    let unknown = Request::blank();
    snapshot.dispatch.on_generated(&unknown, &mut response);
    unknown.retire();
    response
}

/// The response to a request for no resource: `OPTIONS *` asks what the server can do (RFC 9110
/// 9.3.7); CONNECT is not supported, and bytes behind it may be meant for the tunnel.
#[cold]
fn without_resource(request: &Request) -> HandlerResult {
    if request.method == Method::Connect {
        let fault = Fault::new(FaultKind::ConnectRefused, "CONNECT is not supported");
        return Err(fault.closing());
    }
    let mut response = Response::new(204);
    response.headers.append(Known::Allow, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    Ok(response)
}

/// The close reason of a fault; counts its limit.
pub(crate) fn close_reason(fault: &Fault, metrics: &WorkerMetrics) -> CloseReason {
    if let Some(limit) = fault.kind.limit() {
        metrics.hit(limit);
    }
    fault.kind.close_reason()
}
