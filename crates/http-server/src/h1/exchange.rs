//! One exchange, from a request to a settled connection.
//!
//! The steps, in order: [`Exchange::dispatch`] finds the route ▶ [`Http1Exchange::outcome`] runs
//! filters and handler, while the client is watched ▶ [`Http1Exchange::queue`] queues the head of
//! the response and what is there of its body ▶ [`Http1Exchange::send`] sends the rest ▶
//! [`Http1Exchange::conclude`] logs, and decides what the connection does next. A fault at any step
//! becomes a response in `problem`.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use telemetry::CloseReason;
use wire::h1::Framing;
use wire::{Method, Version};

use super::body;
use super::drain_body;
use super::head::Persistence;
use super::next_step::NextStep;
use super::read::ReceivedRequest;
use super::respond::{self, SendOptions, Streaming};
use crate::connection::Connection;
use crate::exchange::{CLIENT_GONE, Conclusion, Exchange};
use crate::listener_snapshot::ListenerSnapshot;
use crate::sending::SendError;
use message::{Body, HandlerResult, Takeover};

/// Responses that may gather for a client that sends its requests in one go before they are sent.
const GATHER_BYTES_MAX: u64 = 64 * 1024;

/// A request that is being served on its connection.
pub(super) struct Http1Exchange<'c> {
    connection: &'c Connection,
    exchange: Exchange,
    /// How the request's body is delimited, and whether the client waits for 100 Continue.
    framing: Framing,
    expects_continue: bool,
    keep_alive: bool,
}

/// A response that is queued, in full or up to a body that has to be waited for.
struct QueuedResponse {
    status: u16,
    persistence: Persistence,
    /// The reason why the connection closes after this response, if a fault requires it.
    close: Option<CloseReason>,
    /// The rest of the request's body does not allow another request.
    unread: bool,
    body_bytes: u64,
    options: SendOptions,
    stream: Option<Box<Streaming>>,
    takeover: Option<Takeover>,
}

impl<'c> Http1Exchange<'c> {
    pub(super) fn new(
        connection: &'c Connection,
        snapshot: Rc<ListenerSnapshot>,
        received: ReceivedRequest,
    ) -> Http1Exchange<'c> {
        Http1Exchange {
            connection,
            exchange: Exchange::new(snapshot, received.request, &connection.io.metrics),
            framing: received.framing,
            expects_continue: received.expects_continue,
            keep_alive: received.keep_alive,
        }
    }

    /// Serves the request.
    pub(super) async fn serve(&mut self) -> NextStep {
        let io = &self.connection.io;
        io.answering.set(false);
        io.body_bytes.set(0);
        // A block of its own, so that the outcome takes no space in the future later.
        let mut queued = {
            let outcome = match self.dispatch() {
                None => self.outcome().await,
                Some(early) => Some(*early),
            };
            let Some(outcome) = outcome else {
                self.exchange.log(&io.metrics, CLIENT_GONE, 0);
                return NextStep::close(CloseReason::ClientGone);
            };
            self.queue(outcome)
        };
        let sent = self.send(&mut queued).await;
        if sent.is_ok()
            && let Some(takeover) = queued.takeover.take()
        {
            let entry = self.exchange.begin_tunnel(&io.metrics, queued.status);
            return NextStep::Tunnel(takeover, entry);
        }
        match self.conclude(&queued, sent) {
            Some(step) => step,
            None => {
                let service = &self.connection.service;
                Box::pin(drain_body::rest_of_body(io, &self.exchange.bounds, service)).await
            }
        }
    }

    /// Ends the exchange. The request's memory serves the worker's next one.
    pub(super) fn retire(self) {
        self.exchange.request.retire();
    }

    /// As [`Exchange::dispatch`].
    fn dispatch(&mut self) -> Option<Box<HandlerResult>> {
        let io = &self.connection.io;
        io.interim.set(self.exchange.request.version == Version::Http11);
        let (framing, expects) = (self.framing, self.expects_continue);
        let trailers_max = self.exchange.snapshot.head_limits.headers;
        self.exchange.dispatch(io, |request, bounds| {
            body::attach(request, io, framing, expects, bounds, trailers_max)
        })
    }

    /// Runs the request on its route; `None` if the client disconnected before there was a
    /// response.
    async fn outcome(&mut self) -> Option<HandlerResult> {
        let exchange = &mut self.exchange;
        let route = exchange.route.as_ref()?;
        exchange.instant = route.is_instant();
        if !exchange.instant {
            // Responses to other connections must not wait for a handler that may be slow.
            net::task::send_deferred();
        }
        let io = &self.connection.io;
        let (instant, half_close) = (&mut exchange.instant, exchange.snapshot.half_close);
        let mut run = pin!(route.run(&mut exchange.request));
        let mut failed = pin!(io.stream.failed());
        poll_fn(|cx| {
            if let Poll::Ready(outcome) = run.as_mut().poll(cx) {
                return Poll::Ready(Some(outcome));
            }
            if std::mem::take(instant) {
                // Nor for what may happen before this one continues.
                net::task::send_deferred();
            }
            // Responses to earlier requests must not wait for this one.
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
        let Conclusion { mut response, close, is_unanswered } =
            self.exchange.conclude(outcome, &io.metrics);
        let Exchange { request, bounds, snapshot, instant, .. } = &mut self.exchange;
        let takeover = response.takeover.take();
        if takeover.is_none() {
            // A body that was not taken is dropped now, so that its rest is known.
            request.body = Body::Empty;
        }
        let unread = !drain_body::may_continue(io, bounds.body);
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
            timeout: bounds.write_timeout,
            half_close: snapshot.half_close,
            at_once: takeover.is_none() && io.input.borrow().is_empty(),
            deferrable: *instant,
        };
        io.answering.set(true);
        let status = response.status;
        let queued = match is_unanswered {
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

    /// Sends what is queued, unless more responses are about to be queued behind it.
    async fn send(&mut self, queued: &mut QueuedResponse) -> Result<(), SendError> {
        let io = &self.connection.io;
        if let Some(mut stream) = queued.stream.take() {
            let sent = Box::pin(stream.run(io, &queued.options)).await;
            queued.body_bytes = stream.body_bytes();
            // Dropped now: it may hold the request's body, or an upstream's connection.
            drop(stream);
            sent?;
        }
        // Sent at once if the connection ends, because nothing is sent later; and if the client's
        // body is still to be discarded, because the client may wait for the response before it
        // sends more.
        let now = queued.takeover.is_some()
            || queued.persistence == Persistence::Close
            || !drain_body::is_settled(io);
        let is_waiting = || !io.out.borrow().is_empty();
        if is_waiting() && (now || must_flush(self.connection)) {
            // Reading the rest may take long.
            net::task::send_deferred();
            io.push_out();
            if is_waiting() {
                Box::pin(respond::flush(io, queued.options.timeout)).await?;
            }
        }
        Ok(())
    }

    /// Logs, and decides what is next; `None` if the rest of a body has to be read away first.
    fn conclude(
        &mut self,
        queued: &QueuedResponse,
        sent: Result<(), SendError>,
    ) -> Option<NextStep> {
        if let Err(SendError::Body { fault, .. }) = &sent {
            self.exchange.aborted(fault);
        }
        let metrics = &self.connection.io.metrics;
        self.exchange.log(metrics, queued.status, queued.body_bytes);
        if let Err(broken) = sent {
            return Some(NextStep::End(broken.end()));
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
                true => NextStep::linger(reason),
                false => NextStep::close(reason),
            });
        }
        drain_body::is_settled(io).then_some(NextStep::Continue)
    }
}

/// Returns true if the queue has to be sent now: no further request is in the buffer, or enough has
/// accumulated.
fn must_flush(connection: &Connection) -> bool {
    let waiting = connection.io.out.borrow().length();
    waiting > GATHER_BYTES_MAX || connection.io.input.borrow().is_empty()
}
