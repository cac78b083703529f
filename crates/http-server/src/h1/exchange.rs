//! One exchange, from a request to a settled connection.
//!
//! The steps, in order: [`Exchange::dispatch`] finds the route ▶ [`Exchange::outcome`] runs filters
//! and handler, while the client is watched ▶ [`Exchange::queue`] queues the response's head and
//! what is there of its body ▶ [`Exchange::send`] sends the rest ▶ [`Exchange::conclude`] logs, and
//! decides what the connection does next. A fault at any step becomes a response in `problem`.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use telemetry::CloseReason;
use wire::h1::Framing;
use wire::{Known, Method, Version};

use super::body::BodyBounds;
use super::build_request;
use super::drain_body;
use super::head::Persistence;
use super::next_step::{Connection, NextStep};
use super::read::ReceivedRequest;
use super::respond::{self, Broken, SendOptions, Streaming};
use crate::fault_log;
use crate::listener_snapshot::ListenerSnapshot;
use crate::secure;
use message::{Body, Bounds, Fault, HandlerResult, Request, Response, Takeover};
use plugin::{Route, problem};

/// Responses that may gather for a client that sends its requests in one go before they are sent.
const GATHER_BYTES_MAX: u64 = 64 * 1024;

/// nginx's status for a client that left without a response. It is logged and never sent.
const CLIENT_GONE: u16 = 499;

/// A request that is being served.
pub(super) struct Exchange<'c> {
    connection: &'c Connection,
    snapshot: Rc<ListenerSnapshot>,
    request: Box<Request>,
    route: Option<Rc<Route>>,
    bounds: Bounds,
    /// How the request's body is delimited, and whether the client waits for 100 Continue.
    framing: Framing,
    expects_continue: bool,
    keep_alive: bool,
    /// The response was there without waiting, after hardly any time.
    instant: bool,
}

/// A response that is queued, in full or up to a body that has to be waited for.
struct QueuedResponse {
    status: u16,
    persistence: Persistence,
    /// Why the connection ends with this response, if a fault says so.
    close: Option<CloseReason>,
    /// The rest of the request's body does not allow another request.
    unread: bool,
    body_bytes: u64,
    options: SendOptions,
    stream: Option<Box<Streaming>>,
    takeover: Option<Takeover>,
}

impl<'c> Exchange<'c> {
    pub(super) fn new(
        connection: &'c Connection,
        snapshot: Rc<ListenerSnapshot>,
        received: ReceivedRequest,
    ) -> Exchange<'c> {
        Exchange {
            connection,
            bounds: snapshot.bounds,
            snapshot,
            request: received.request,
            route: None,
            framing: received.framing,
            expects_continue: received.expects_continue,
            keep_alive: received.keep_alive,
            instant: false,
        }
    }

    /// Serves the request.
    pub(super) async fn serve(&mut self) -> NextStep {
        let io = &self.connection.io;
        io.answering.set(false);
        io.metrics.requests_in_flight.add(1);
        let outcome = match self.dispatch() {
            None => self.outcome().await,
            Some(early) => Some(*early),
        };
        let Some(outcome) = outcome else {
            self.log(CLIENT_GONE, 0);
            return NextStep::Close(CloseReason::ClientGone);
        };
        let mut queued = self.queue(outcome);
        let sent = self.send(&mut queued).await;
        if sent.is_ok()
            && let Some(takeover) = queued.takeover.take()
        {
            self.log(queued.status, queued.body_bytes);
            return NextStep::Tunnel(takeover);
        }
        match self.conclude(&queued, sent) {
            Some(step) => step,
            None => {
                let service = &self.connection.service;
                Box::pin(drain_body::rest_of_body(io, &self.bounds, service)).await
            }
        }
    }

    /// Ends the exchange. The request's memory serves the worker's next one.
    pub(super) fn retire(self) {
        self.request.retire();
    }

    /// Finds the route and puts the request's body in place, or gives what comes of the request
    /// before any filter sees it: no route, `OPTIONS *`, a body above the limit.
    fn dispatch(&mut self) -> Option<Box<HandlerResult>> {
        let (request, connection) = (&mut self.request, self.connection);
        let tls = self.snapshot.tls.as_ref();
        let early = tls.and_then(|tls| secure::unsuitable(request, tls));
        let found = if early.is_some() || request.target.is_asterisk() {
            None
        } else {
            Some(self.snapshot.dispatch.dispatch(request))
        };
        if let Some(Ok(route)) = &found {
            let info = &route.info;
            self.bounds = info.bounds.over(self.bounds);
            info.metrics.in_flight.add(1);
            connection.io.interim.set(request.version == Version::Http11);
            request.informer = Some(connection.io.clone());
            request.route = Some(info.clone());
        }
        // Even a request without a route has its body put in place: its rest must be known.
        let attached = build_request::attach_body(
            request,
            &connection.io,
            self.framing,
            self.expects_continue,
            BodyBounds {
                bytes_max: self.bounds.body,
                patience: self.bounds.body_patience,
                total: self.bounds.body_total,
            },
            self.snapshot.head_limits.headers,
        );
        match (found, attached) {
            (Some(Ok(route)), attached) => {
                let route = self.route.insert(route);
                let early = attached.err()?;
                Some(Box::new(Err(route.on_early_fault(request, early))))
            }
            (_, Err(fault)) | (Some(Err(fault)), _) => Some(Box::new(Err(fault))),
            (None, Ok(())) => {
                let mut outcome = early.unwrap_or_else(|| Box::new(Ok(options_asterisk())));
                if let Ok(response) = &mut *outcome {
                    self.snapshot.dispatch.on_generated(request, response);
                }
                Some(outcome)
            }
        }
    }

    /// Runs the request on its route; `None` if the client has gone before there was a response.
    async fn outcome(&mut self) -> Option<HandlerResult> {
        let route = self.route.as_ref()?;
        self.instant = route.is_instant();
        if !self.instant {
            // Responses to other connections must not wait for what may take its time.
            net::task::send_deferred();
        }
        let io = &self.connection.io;
        let (instant, half_close) = (&mut self.instant, self.snapshot.half_close);
        let mut run = pin!(route.run(&mut self.request));
        let mut failed = pin!(io.stream.failed());
        poll_fn(|cx| {
            if let Poll::Ready(outcome) = run.as_mut().poll(cx) {
                return Poll::Ready(Some(outcome));
            }
            if std::mem::take(instant) {
                // Nor for what may happen before this one continues.
                net::task::send_deferred();
            }
            // Responses to requests ahead of this one must not wait for it.
            if !io.out.borrow().is_empty() && matches!(io.poll_flush(cx), Poll::Ready(Err(_))) {
                return Poll::Ready(None);
            }
            // While a body is being read, its reader finds the end of the stream; where it reads no
            // further, because its content is not taken, a reset is all that can be known.
            if io.is_reading_body() {
                return failed.as_mut().poll(cx).map(|()| None);
            }
            io.poll_gone(cx, half_close).map(|()| None)
        })
        .await
    }

    /// Queues the response, or what a fault becomes.
    fn queue(&mut self, outcome: HandlerResult) -> QueuedResponse {
        let connection = self.connection;
        let io = &connection.io;
        let (mut response, close, silent) = match outcome {
            // RFC 9110 15.2: an interim response ends no exchange; only a switch of protocols does.
            Ok(response) if response.status < 200 && response.takeover.is_none() => {
                self.failed(&Fault::internal("a handler answered with an interim status"))
            }
            Ok(response) => (response, None, false),
            Err(fault) => self.failed(&fault),
        };
        let request = &mut self.request;
        let takeover = response.takeover.take();
        if takeover.is_none() {
            // A body that was not taken is dropped now, so that its rest is known.
            request.body = Body::Empty;
        }
        let unread = !drain_body::may_continue(io, self.bounds.body);
        let persistence = if takeover.is_some() {
            Persistence::Upgrade
        } else if !self.keep_alive
            || response.close
            || close.is_some()
            || unread
            || connection.service.is_draining()
        {
            Persistence::Close
        } else if request.version == Version::Http10 {
            Persistence::KeepAloud
        } else {
            Persistence::Keep
        };
        let options = SendOptions {
            to_head: request.method == Method::Head,
            version: request.version,
            persistence,
            patience: self.bounds.write_patience,
            half_close: self.snapshot.half_close,
            at_once: takeover.is_none() && io.input.borrow().is_empty(),
            deferrable: self.instant,
        };
        io.answering.set(true);
        let status = response.status;
        let queued = match silent {
            true => respond::Queued { persistence, body_bytes: 0, stream: None },
            false => respond::queue(io, response, &options),
        };
        QueuedResponse {
            status,
            persistence: queued.persistence,
            close,
            unread,
            body_bytes: queued.body_bytes,
            options,
            stream: queued.stream,
            takeover,
        }
    }

    /// The response that a fault becomes, why the connection ends with it, if it does, and whether
    /// nothing is sent.
    #[cold]
    fn failed(&mut self, fault: &Fault) -> (Response, Option<CloseReason>, bool) {
        let request = &mut self.request;
        request.notes.fault = Some(fault.slug());
        fault_log::answered(request, fault);
        let snapshot = &self.snapshot;
        let (route, pages) = (self.route.as_deref(), &snapshot.pages);
        let response = problem::respond(fault, request, route, pages, &*snapshot.dispatch);
        let close = fault.close.then(|| close_reason(fault, &self.connection.io.metrics));
        (response, close, fault.is_unanswered())
    }

    /// Sends what is queued, unless more responses are about to be queued behind it.
    async fn send(&mut self, queued: &mut QueuedResponse) -> Result<(), Broken> {
        let io = &self.connection.io;
        if let Some(mut stream) = queued.stream.take() {
            let sent = Box::pin(stream.run(io, &queued.options)).await;
            queued.body_bytes = stream.body_bytes();
            // Dropped now: it may hold the request's body, or an upstream's connection.
            drop(stream);
            sent?;
        }
        // Nothing is sent later on a connection that ends; and a client whose body is still to be
        // read away may wait for the response before it sends more.
        let now = queued.takeover.is_some()
            || queued.persistence == Persistence::Close
            || !drain_body::is_settled(io);
        let is_waiting = || !io.out.borrow().is_empty();
        if is_waiting() && (now || must_flush(self.connection)) {
            // It may be long.
            net::task::send_deferred();
            io.push_out();
            if is_waiting() {
                Box::pin(respond::flush(io, queued.options.patience)).await?;
            }
        }
        Ok(())
    }

    /// Logs, and decides what is next; `None` if the rest of a body has to be read away first.
    fn conclude(&mut self, queued: &QueuedResponse, sent: Result<(), Broken>) -> Option<NextStep> {
        if let Err(Broken::Body { fault, .. }) = &sent {
            self.request.notes.fault = Some(fault.slug());
            fault_log::broke_off(&self.request, fault);
        }
        self.log(queued.status, queued.body_bytes);
        if let Err(broken) = sent {
            return Some(broken.next_step());
        }
        let connection = self.connection;
        let io = &connection.io;
        if queued.persistence == Persistence::Close {
            let draining = connection.service.is_draining();
            let reason = match queued.close {
                Some(reason) => reason,
                None if queued.unread => CloseReason::BodyUnread,
                None if draining => CloseReason::Drain,
                None if self.keep_alive => CloseReason::CloseByAnswer,
                None => CloseReason::CloseRequested,
            };
            // A client that may still be sending must be able to read the response.
            let sending = queued.close.is_some()
                || queued.unread
                || draining
                || !io.input.borrow().is_empty();
            return Some(match sending {
                true => NextStep::Linger(reason),
                false => NextStep::Close(reason),
            });
        }
        drain_body::is_settled(io).then_some(NextStep::Continue)
    }

    fn log(&mut self, status: u16, body_bytes: u64) {
        let metrics = &self.connection.io.metrics;
        metrics.requests_in_flight.add(-1);
        metrics.count_response(status);
        let now_us = match self.instant {
            true => net::clock::recent_us(),
            false => net::clock::precise_us(),
        };
        let duration_us = now_us.saturating_sub(self.request.began_us);
        if let Some(route) = &self.request.route {
            route.metrics.in_flight.add(-1);
            route.metrics.finished(status, duration_us);
        }
        if let Some(access) = &self.snapshot.access {
            access.answered(&self.request, status, body_bytes, duration_us);
        }
    }
}

/// Whether the queue has to be sent now: nothing else is in the buffer to be answered first, or
/// enough has gathered.
fn must_flush(connection: &Connection) -> bool {
    let waiting = connection.io.out.borrow().length();
    waiting > GATHER_BYTES_MAX || connection.io.input.borrow().is_empty()
}

/// `OPTIONS *` asks what the server can do, not any resource (RFC 9110 9.3.7).
fn options_asterisk() -> Response {
    let mut response = Response::new(204);
    response.headers.append(Known::Allow, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    response
}

/// The close reason of a fault; counts its limit.
pub(super) fn close_reason(fault: &Fault, metrics: &telemetry::WorkerMetrics) -> CloseReason {
    if let Some(limit) = fault.kind.limit() {
        metrics.hit(limit);
    }
    fault.kind.close_reason()
}
