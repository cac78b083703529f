//! One exchange, from a request to a settled connection.
//!
//! The steps, in order: [`Exchange::begin`] dispatches ▶ filters and handler, while the client is
//! watched ▶ `queue`: the response's head and what is there of its body ▶ the rest of the body, the
//! socket ▶ `conclude`: log, and what follows on the connection. Each step is one method, used by
//! [`Exchange::at_once`], which gives up where it would have to wait, and by [`Exchange::go_on`],
//! which waits. A fault at any step becomes a response in `problem`.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use telemetry::CloseReason;
use wire::h1::Framing;
use wire::{Known, Method, Version};

use super::active::close_reason;
use super::body::BodyBounds;
use super::build_request;
use super::connection::{After, Connection};
use super::drain_body;
use super::fault_log;
use super::head::Persistence;
use super::listener_snapshot::ListenerSnapshot;
use super::respond::{self, Broken, Streaming};
use super::tunnel::ClientDuplex;
use crate::chain::{Bounds, Progress, Route, RouteBounds, Stand};
use crate::{Body, Ending, Fault, Outcome, Request, Response, Takeover, problem};

/// Answers that may gather for a client that sends its requests in one go before they are sent.
const GATHER_BYTES_MAX: u64 = 64 * 1024;

/// An exchange under way.
pub(super) struct Exchange {
    edge: Rc<ListenerSnapshot>,
    request: Box<Request>,
    /// What came of it before any filter saw it: no route, `OPTIONS *`, a body above the limit.
    early: Option<Box<Outcome>>,
    progress: Progress,
    /// The route does hardly anything.
    instant: bool,
    /// Or it was brief of late: the answer may wait a little for those of others.
    brief: bool,
    /// When the answer was there, if somebody looked at the clock.
    answered_us: Option<u64>,
    keep_alive: bool,
    answer: Option<Answer>,
}

/// A response that is queued, in full or up to a body that has to be waited for.
struct Answer {
    status: u16,
    persistence: Persistence,
    /// Why the connection ends with this response, if a fault says so.
    close: Option<CloseReason>,
    /// What is left of the request's body forbids another request.
    unread: bool,
    body_bytes: u64,
    plan: respond::Plan,
    stream: Option<Streaming>,
    takeover: Option<Takeover>,
}

impl Exchange {
    /// Takes a request in: finds its route and puts its body in place.
    pub(super) fn begin(
        connection: &Connection,
        edge: Rc<ListenerSnapshot>,
        request: Box<Request>,
        (framing, expects, keep_alive): (Framing, bool, bool),
    ) -> Exchange {
        let wire = &connection.wire;
        wire.answering.set(false);
        wire.metrics.requests_in_flight.add(1);
        let progress = Progress::default();
        let mut exchange = Exchange {
            edge,
            request,
            early: None,
            progress,
            instant: false,
            brief: false,
            answered_us: None,
            keep_alive,
            answer: None,
        };
        exchange.early = exchange
            .dispatch(connection, framing, expects)
            .map_or_else(|fault| Some(Box::new(Err(fault))), |early| early.map(Ok).map(Box::new));
        if let Some(route) = &exchange.request.route {
            route.metrics.in_flight.add(1);
        }
        exchange
    }

    fn dispatch(
        &mut self,
        connection: &Connection,
        framing: Framing,
        expects: bool,
    ) -> Result<Option<Response>, Fault> {
        let request = &mut self.request;
        let asterisk = request.target.is_asterisk();
        let found = if asterisk { None } else { Some(self.edge.dispatch.dispatch(request)) };
        let bounds = match &found {
            Some(Ok(route)) => route.bounds.over(self.edge.bounds),
            _ => self.edge.bounds,
        };
        // Even a request without a route has its body put in place: what is left of it must be
        // known.
        build_request::attach_body(
            request,
            &connection.wire,
            framing,
            expects,
            BodyBounds {
                bytes_max: bounds.body,
                patience: bounds.body_patience,
                total: bounds.body_total,
            },
            self.edge.head_limits.headers,
        )?;
        match found {
            None => {
                let mut response = options_asterisk();
                self.edge.dispatch.on_generated(request, &mut response);
                Ok(Some(response))
            }
            Some(Err(fault)) => Err(fault),
            Some(Ok(route)) => {
                connection.wire.interim.set(request.version == Version::Http11);
                request.informer = Some(connection.wire.clone());
                request.route = Some(route);
                Ok(None)
            }
        }
    }

    /// Goes as far as is possible without waiting; `None` where it has to.
    pub(super) fn at_once(&mut self, connection: &Connection) -> Option<After> {
        let after = self.try_at_once(connection);
        if after.is_none() {
            self.brief = false;
            if let Some(route) = &self.request.route {
                route.pace.waited();
            }
        }
        after
    }

    fn try_at_once(&mut self, connection: &Connection) -> Option<After> {
        let outcome = match self.early.take() {
            Some(outcome) => *outcome,
            None => match self.request.route.clone() {
                None => Err(Fault::internal("a request without a route went on")),
                Some(route) => self.advance(&route)?,
            },
        };
        let wire = &connection.wire;
        let answer = self.queue(connection, outcome);
        let closes = answer.persistence == Persistence::Close;
        if answer.stream.is_some()
            || answer.takeover.is_some()
            || !(closes || drain_body::is_settled(wire))
        {
            return None;
        }
        let waits = || !wire.out.borrow().is_empty();
        if waits() && (closes || must_flush(connection)) {
            // It may be long.
            net::task::send_deferred();
            wire.push_out();
            if waits() {
                return None;
            }
        }
        self.conclude(connection, Ok(()))
    }

    /// Runs the request on its route; `None` where that has to wait.
    fn advance(&mut self, route: &Rc<Route>) -> Option<Outcome> {
        self.instant = route.is_instant();
        self.brief = self.instant || route.pace.is_brief();
        if !self.brief {
            // Answers to others must not wait for what may take its time.
            net::task::send_deferred();
        }
        let Stand::Done(outcome) = route.advance(&mut self.request, &mut self.progress) else {
            // Nor for what may happen before this one does.
            net::task::send_deferred();
            return None;
        };
        if self.progress.is_instant() {
            route.pace.took(0);
        } else if !self.instant {
            let (now_us, took_us) = net::clock::lap_us();
            route.pace.took(took_us);
            net::task::charge_deferral(took_us);
            self.answered_us = Some(now_us);
        }
        Some(outcome)
    }

    /// Goes on from where [`Exchange::at_once`] had to wait, to the end.
    pub(super) async fn go_on(mut self: Box<Self>, connection: &Connection) -> After {
        if self.answer.is_none() {
            match self.outcome(connection).await {
                Some(outcome) => {
                    self.queue(connection, outcome);
                }
                None => return self.gone(connection),
            }
        }
        let sent = self.send(connection).await;
        if sent.is_ok()
            && let Some(takeover) = self.answer.as_mut().and_then(|answer| answer.takeover.take())
        {
            return self.hand_over(connection, takeover).await;
        }
        let after = self.conclude(connection, sent);
        let bounds = self.bounds();
        drop(self.retire());
        match after {
            Some(after) => after,
            None => drain_body::rest_of_body(&connection.wire, &bounds, &connection.service).await,
        }
    }

    /// The bounds of the route, or of the listener where there is none.
    fn bounds(&self) -> Bounds {
        let own = self.request.route.as_ref().map_or(RouteBounds::default(), |route| route.bounds);
        own.over(self.edge.bounds)
    }

    /// Leaves the request's memory to the next one of the worker.
    pub(super) fn retire(self) -> Rc<ListenerSnapshot> {
        self.request.retire();
        self.edge
    }

    /// What comes of the request; `None` if the client has gone and nobody is left to answer.
    async fn outcome(&mut self, connection: &Connection) -> Option<Outcome> {
        if let Some(early) = self.early.take() {
            return Some(*early);
        }
        let wire = &connection.wire;
        let half_close = self.edge.half_close;
        let route = self.request.route.clone()?;
        let mut run = pin!(route.run_on(&mut self.request, &mut self.progress));
        let mut failed = pin!(wire.stream.failed());
        poll_fn(|cx| {
            if let Poll::Ready(outcome) = run.as_mut().poll(cx) {
                return Poll::Ready(Some(outcome));
            }
            // Answers to requests ahead of this one must not wait for it.
            if !wire.out.borrow().is_empty() && matches!(wire.poll_flush(cx), Poll::Ready(Err(_))) {
                return Poll::Ready(None);
            }
            // While a body is being read, its reader finds the end of the stream; where it reads no
            // further, because nobody takes what it has, a reset is all that can be known.
            if wire.is_reading_body() {
                return failed.as_mut().poll(cx).map(|()| None);
            }
            wire.poll_gone(cx, half_close).map(|()| None)
        })
        .await
    }

    /// Queues the response, or what a fault becomes.
    fn queue(&mut self, connection: &Connection, outcome: Outcome) -> &Answer {
        let wire = &connection.wire;
        let bounds = self.bounds();
        let request = &mut self.request;
        let outcome = match outcome {
            // RFC 9110 15.2: an interim response ends no exchange; only a switch of protocols does.
            Ok(response) if response.status < 200 && response.takeover.is_none() => {
                Err(Fault::internal("a handler answered with an interim status"))
            }
            outcome => outcome,
        };
        let (mut response, close, silent) = match outcome {
            Ok(response) => (response, None, false),
            Err(fault) => {
                request.notes.fault = Some(fault.slug);
                fault_log::answered(request, &fault);
                let edge = &self.edge;
                let response = problem::respond(&fault, request, &edge.pages, &*edge.dispatch);
                let close = fault.close.then(|| close_reason(&fault, &wire.metrics));
                (response, close, fault.is_unanswered())
            }
        };
        let takeover = response.takeover.take();
        if takeover.is_none() {
            // A body nobody took is dropped now, so that it is known what is left of it.
            request.body = Body::Empty;
        }
        let unread = !drain_body::may_continue(wire, bounds.body);
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
        let plan = respond::Plan {
            to_head: request.method == Method::Head,
            version: request.version,
            persistence,
            patience: bounds.write_patience,
            half_close: self.edge.half_close,
            at_once: takeover.is_none() && wire.input.borrow().is_empty(),
            deferrable: self.brief,
        };
        wire.answering.set(true);
        let status = response.status;
        let queued = match silent {
            true => respond::Queued { persistence, body_bytes: 0, stream: None },
            false => respond::queue(wire, response, &plan),
        };
        self.answer.insert(Answer {
            status,
            persistence: queued.persistence,
            close,
            unread,
            body_bytes: queued.body_bytes,
            plan,
            stream: queued.stream,
            takeover,
        })
    }

    /// Sends what has to be waited for.
    async fn send(&mut self, connection: &Connection) -> Result<(), Broken> {
        let wire = &connection.wire;
        let Some(answer) = &mut self.answer else { return Ok(()) };
        if let Some(stream) = &mut answer.stream {
            let sent = stream.run(wire, &answer.plan).await;
            answer.body_bytes = stream.body_bytes();
            // Dropped now: it may hold the request's body, or an upstream's connection.
            answer.stream = None;
            sent?;
        }
        // Of a connection that ends nobody will send later; and a client whose body is still to be
        // read away may wait for the answer before it sends on.
        let now = answer.takeover.is_some()
            || answer.persistence == Persistence::Close
            || !drain_body::is_settled(wire);
        if now || must_flush(connection) {
            respond::flush(wire, answer.plan.patience).await?;
        }
        Ok(())
    }

    /// Logs, and says what follows; `None` if the rest of a body has to be read away first.
    fn conclude(&mut self, connection: &Connection, sent: Result<(), Broken>) -> Option<After> {
        if let Err(Broken::Body { fault, .. }) = &sent {
            self.request.notes.fault = Some(fault.slug);
            fault_log::broke_off(&self.request, fault);
        }
        self.log(connection);
        if let Err(broken) = sent {
            return Some(broken.after());
        }
        let wire = &connection.wire;
        let answer = self.answer.as_ref()?;
        if answer.persistence == Persistence::Close {
            let draining = connection.service.is_draining();
            let reason = match answer.close {
                Some(reason) => reason,
                None if answer.unread => CloseReason::BodyUnread,
                None if draining => CloseReason::Drain,
                None if self.keep_alive => CloseReason::CloseByAnswer,
                None => CloseReason::CloseRequested,
            };
            // Whoever may still be sending must be able to read what we said.
            let sending = answer.close.is_some()
                || answer.unread
                || draining
                || !wire.input.borrow().is_empty();
            return Some(if sending { After::Linger(reason) } else { After::Close(reason) });
        }
        drain_body::is_settled(wire).then_some(After::Idle)
    }

    /// Hands the connection to whoever asked for it; its 101 is out.
    async fn hand_over(mut self: Box<Self>, connection: &Connection, takeover: Takeover) -> After {
        self.log(connection);
        let wire = connection.wire.clone();
        // From here on the tunnel holds neither route nor Plan.
        drop(self);
        let service = connection.service.clone();
        let duplex = ClientDuplex { wire: wire.clone(), service };
        wire.metrics.tunnels_active.add(1);
        let ending = takeover(Box::new(duplex)).await;
        wire.metrics.tunnels_active.add(-1);
        After::Close(match ending {
            Ending::Finished | Ending::OtherGone => CloseReason::UpgradeFinished,
            Ending::ClientGone => CloseReason::ClientGone,
            Ending::Idle => CloseReason::TunnelIdle,
        })
    }

    /// A client that left without an answer is logged with nginx's 499, which is never sent.
    fn gone(mut self: Box<Self>, connection: &Connection) -> After {
        self.log(connection);
        After::Close(CloseReason::ClientGone)
    }

    fn log(&mut self, connection: &Connection) {
        let (status, body_bytes) =
            self.answer.as_ref().map_or((499, 0), |answer| (answer.status, answer.body_bytes));
        let metrics = &connection.wire.metrics;
        metrics.requests_in_flight.add(-1);
        metrics.answered(status);
        let now_us = match self.answered_us {
            Some(answered_us) if self.brief => answered_us,
            None if self.instant || self.progress.is_instant() => net::clock::recent_us(),
            _ => net::clock::precise_us(),
        };
        let duration_us = now_us.saturating_sub(self.request.began_us);
        if let Some(route) = &self.request.route {
            route.metrics.in_flight.add(-1);
            route.metrics.finished(status, duration_us);
        }
        if let Some(access) = &self.edge.access {
            access.answered(&self.request, status, body_bytes, duration_us);
        }
    }
}

/// Whether the queue has to be sent now: nothing else is in the buffer to be answered first, or
/// enough has gathered.
fn must_flush(connection: &Connection) -> bool {
    let waiting = connection.wire.out.borrow().length();
    waiting > GATHER_BYTES_MAX || connection.wire.input.borrow().is_empty()
}

/// `OPTIONS *` asks what the server can do, not any resource (RFC 9110 9.3.7).
fn options_asterisk() -> Response {
    let mut response = Response::new(204);
    response.headers.append(Known::Allow, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    response
}
