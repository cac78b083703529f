//! The active period of a connection: one exchange after the other, until nothing is buffered.
//!
//! The steps of an exchange, in order: `read_head` ▶ `arrive::request` ▶ dispatch ▶ filters and
//! handler, while the client is watched ▶ `respond` ▶ settle what is left of the request's body.
//! A fault at any step becomes a response in `problem`.

use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use telemetry::{CloseReason, LimitHit};
use wire::h1::{FieldSpan, Framing, RequestHead, parse_request};
use wire::{Known, Method, Reject, Version};

use super::arrive;
use super::body::BodyBounds;
use super::connection::{After, Connection};
use super::edge::Edge;
use super::head::{self, Persistence};
use super::respond::{self, Broken};
use super::settle;
use super::tunnel::ClientDuplex;
use crate::{Bounds, Ending, Fault, Outcome, Request, Response, problem};

/// Answers that may gather for a client that sends its requests in one go before they are sent.
const GATHER_BYTES_MAX: u64 = 64 * 1024;

/// What reading a head came to.
enum Head {
    Whole(RequestHead, Bytes),
    /// Nothing is there: the connection is idle.
    None,
    Malformed(Reject),
    TimedOut,
    Gone(CloseReason),
}

/// Serves what is there, until nothing is.
pub(super) async fn serve_buffered(connection: &Connection) -> After {
    loop {
        let edge = connection.service.edge();
        let mut fields = Vec::with_capacity(16);
        let after = match read_head(connection, &edge, &mut fields).await {
            Head::Whole(head, bytes) => exchange(connection, &edge, head, bytes, fields).await,
            Head::None => match flush(connection, &edge).await {
                Ok(()) => return After::Idle,
                Err(broken) => return broken.after(),
            },
            Head::Malformed(reject) => refuse(connection, &edge, Fault::rejected(reject)).await,
            Head::TimedOut => {
                connection.wire.metrics.hit(LimitHit::SlowHead);
                let fault = Fault::client(408, "head_timeout", "the head was not whole in time");
                refuse(connection, &edge, fault.closing()).await
            }
            Head::Gone(reason) => return After::Close(reason),
        };
        match after {
            After::Idle => {}
            ended => return ended,
        }
    }
}

async fn flush(connection: &Connection, edge: &Edge) -> Result<(), Broken> {
    if connection.wire.out.borrow().is_empty() {
        return Ok(());
    }
    respond::flush(&connection.wire, edge.bounds.write_pause).await
}

/// Takes a whole head from the input. Answers that have gathered are sent before it waits.
async fn read_head(connection: &Connection, edge: &Edge, fields: &mut Vec<FieldSpan>) -> Head {
    let wire = &connection.wire;
    let mut input = wire.input.take();
    if input.is_empty() {
        match wire.try_input() {
            Ok(chunk) if chunk.is_empty() => return Head::Gone(CloseReason::ClientClosed),
            Ok(chunk) => input = chunk,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Head::None,
            Err(_) => return Head::Gone(CloseReason::ClientReset),
        }
    }
    match parse_request(&input, &edge.head_limits, fields) {
        Ok(Some(head)) => return take_head(connection, input, head),
        Err(reject) => return Head::Malformed(reject),
        Ok(None) => {}
    }
    // The rest has to be waited for. The part is copied, so that a slow client costs what it sent.
    let mut partial = net::detach(&input);
    drop(input);
    if let Err(broken) = flush(connection, edge).await {
        return Head::Gone(broken.reason());
    }
    wire.read_timer.set(edge.timeouts.head);
    loop {
        let received = poll_fn(|cx| match wire.stream.poll_receive(cx) {
            Poll::Ready(received) => Poll::Ready(Some(received)),
            Poll::Pending => wire.read_timer.poll(cx).map(|()| None),
        })
        .await;
        let chunk = match received {
            None if partial.iter().all(|byte| matches!(byte, b'\r' | b'\n')) => {
                return Head::Gone(CloseReason::HeadTimeout);
            }
            None => return Head::TimedOut,
            Some(Err(_)) => return Head::Gone(CloseReason::ClientReset),
            Some(Ok(chunk)) if chunk.is_empty() => return Head::Gone(CloseReason::ClientGone),
            Some(Ok(chunk)) => chunk,
        };
        wire.metrics.bytes_received.add(chunk.len() as u64);
        partial.extend_from_slice(&chunk);
        // A head ends with a line: without one in the news there is nothing to parse again, unless
        // it has outgrown what it may be. That keeps a client that sends byte by byte cheap.
        if !chunk.contains(&b'\n') && partial.len() <= edge.head_limits.request_line {
            continue;
        }
        match parse_request(&partial, &edge.head_limits, fields) {
            Ok(Some(head)) => return take_head(connection, partial.freeze(), head),
            Err(reject) => return Head::Malformed(reject),
            Ok(None) => {}
        }
    }
}

fn take_head(connection: &Connection, mut input: Bytes, head: RequestHead) -> Head {
    let bytes = input.split_to(head.len);
    connection.wire.unread(input);
    Head::Whole(head, bytes)
}

/// Answers what was no request; the connection cannot go on.
async fn refuse(connection: &Connection, edge: &Edge, fault: Fault) -> After {
    let wire = &connection.wire;
    let reason = close_reason(&fault, &wire.metrics);
    wire.metrics.answered(fault.status);
    if let Some(access) = &edge.access {
        access.refused(&connection.facts, &fault);
    }
    let response = problem::render(&fault, None, &edge.pages);
    wire.answering.set(true);
    let sent = respond::send(
        wire,
        response,
        respond::Plan {
            to_head: false,
            version: Version::Http11,
            persistence: Persistence::Close,
            write_pause: edge.bounds.write_pause,
            half_close: true,
        },
    )
    .await;
    match sent {
        Ok(_) => After::Linger(reason),
        Err(_) => After::Close(reason),
    }
}

/// Which close a fault of the client leads to, with its limit counted.
fn close_reason(fault: &Fault, metrics: &telemetry::WorkerMetrics) -> CloseReason {
    let (reason, limit) = match fault.slug {
        "request_line_too_long" => (CloseReason::RequestLineTooLong, Some(LimitHit::RequestLine)),
        "headers_too_large" | "field_name_too_long" => {
            (CloseReason::HeadersTooLarge, Some(LimitHit::Headers))
        }
        "too_many_fields" => (CloseReason::HeadersTooLarge, Some(LimitHit::HeaderCount)),
        "trailers_too_large" => (CloseReason::HeadersTooLarge, Some(LimitHit::Trailers)),
        "head_timeout" => (CloseReason::HeadTimeout, None),
        "body_timeout" => (CloseReason::BodyTimeout, None),
        "body_too_large" => (CloseReason::BodyTooLarge, None),
        "client_gone" => (CloseReason::ClientGone, None),
        _ if fault.side == crate::Side::Client => (CloseReason::Malformed, None),
        _ => (CloseReason::InternalError, None),
    };
    if let Some(limit) = limit {
        metrics.hit(limit);
    }
    reason
}

/// One exchange, from a parsed head to a settled connection.
async fn exchange(
    connection: &Connection,
    edge: &Rc<Edge>,
    head: RequestHead,
    bytes: Bytes,
    fields: Vec<FieldSpan>,
) -> After {
    let wire = &connection.wire;
    let (framing, expects, keep_alive) = (head.framing, head.expect_continue, head.keep_alive);
    let mut request = match arrive::request(bytes, head, fields, &connection.facts, edge) {
        Ok(request) => request,
        Err(fault) => return refuse(connection, edge, fault).await,
    };
    wire.answering.set(false);
    wire.metrics.requests_in_flight.add(1);
    let running = Running { connection, edge };
    let outcome = running.outcome(&mut request, framing, expects).await;
    let after = match outcome {
        None => After::Close(CloseReason::ClientGone),
        Some(outcome) => running.answer(&mut request, outcome, keep_alive).await,
    };
    wire.metrics.requests_in_flight.add(-1);
    after
}

struct Running<'a> {
    connection: &'a Connection,
    edge: &'a Rc<Edge>,
}

impl Running<'_> {
    /// What comes of the request; `None` if the client has gone and nobody is left to answer.
    async fn outcome(
        &self,
        request: &mut Request,
        framing: Framing,
        expects: bool,
    ) -> Option<Outcome> {
        let wire = &self.connection.wire;
        if request.target.is_asterisk() {
            return Some(Ok(options_asterisk()));
        }
        let route = match self.edge.dispatch.dispatch(request) {
            Ok(route) => route,
            Err(fault) => {
                let bounds = body_bounds(&self.edge.bounds);
                let trailers_max = self.edge.head_limits.headers;
                // The body is put in place for what is left of it to be known.
                let attached =
                    arrive::attach_body(request, wire, framing, expects, bounds, trailers_max);
                return Some(Err(attached.err().unwrap_or(fault)));
            }
        };
        let bounds = body_bounds(&route.bounds);
        let trailers_max = self.edge.head_limits.headers;
        if let Err(fault) =
            arrive::attach_body(request, wire, framing, expects, bounds, trailers_max)
        {
            request.route = Some(route);
            return Some(Err(fault));
        }
        if request.version == Version::Http11 {
            request.informer = Some(wire.clone());
        }
        route.metrics.in_flight.add(1);
        request.route = Some(route.clone());
        let ran = {
            let mut run = pin!(route.run(request));
            let half_close = self.edge.half_close;
            poll_fn(|cx| {
                if let Poll::Ready(outcome) = run.as_mut().poll(cx) {
                    return Poll::Ready(Some(outcome));
                }
                // While a body is being read, its reader finds the end of the stream.
                if wire.is_reading_body() {
                    return Poll::Pending;
                }
                wire.poll_gone(cx, half_close).map(|()| None)
            })
            .await
        };
        route.metrics.in_flight.add(-1);
        if ran.is_none() {
            self.log_gone(request);
        }
        ran
    }

    /// Sends the response, logs, and leaves the connection ready for the next request or not at all.
    async fn answer(&self, request: &mut Request, outcome: Outcome, keep_alive: bool) -> After {
        let wire = &self.connection.wire;
        let (mut response, fault) = match outcome {
            Ok(response) => (response, None),
            Err(fault) => {
                request.notes.fault = Some(fault.slug);
                let response = problem::render(&fault, Some(&request.headers), &self.edge.pages);
                (response, Some(fault))
            }
        };
        if fault.as_ref().is_some_and(|fault| fault.slug == "client_gone") {
            self.log_gone(request);
            return After::Close(CloseReason::ClientGone);
        }
        if let Some(takeover) = response.takeover.take() {
            return self.upgrade(request, response, takeover).await;
        }
        // A body nobody took is dropped now, so that it is known what is left of it.
        request.body = crate::Body::Empty;
        let must_close = fault.as_ref().is_some_and(|fault| fault.close)
            || !settle::may_continue(wire, self.edge.bounds.body);
        let persistence = self.persistence(request, keep_alive && !must_close);
        let write_pause =
            request.route.as_ref().map_or(self.edge.bounds.write_pause, |r| r.bounds.write_pause);
        wire.answering.set(true);
        let status = response.status;
        let sent = respond::send(
            wire,
            response,
            respond::Plan {
                to_head: request.method == Method::Head,
                version: request.version,
                persistence,
                write_pause,
                half_close: self.edge.half_close,
            },
        )
        .await;
        let settled = match sent {
            Ok(ref sent) if sent.must_flush(wire, GATHER_BYTES_MAX) => {
                respond::flush(wire, write_pause).await
            }
            Ok(_) => Ok(()),
            Err(broken) => {
                self.log(request, status, 0);
                return broken.after();
            }
        };
        self.log(request, status, sent.map_or(0, |sent| sent.body_bytes));
        if let Err(broken) = settled {
            return broken.after();
        }
        if matches!(persistence, Persistence::Close) {
            let reason = match &fault {
                Some(fault) if fault.close => close_reason(fault, &wire.metrics),
                _ if self.connection.service.is_draining() => CloseReason::Drain,
                _ if must_close => CloseReason::BodyUnread,
                _ => CloseReason::CloseRequested,
            };
            // Whoever may still be sending must be able to read what we said.
            let sending =
                must_close || reason == CloseReason::Drain || !wire.input.borrow().is_empty();
            return if sending { After::Linger(reason) } else { After::Close(reason) };
        }
        settle::rest_of_body(wire, self.edge, &self.connection.service).await
    }

    fn persistence(&self, request: &Request, keep: bool) -> Persistence {
        if !keep || self.connection.service.is_draining() {
            Persistence::Close
        } else if request.version == Version::Http10 {
            Persistence::KeepAloud
        } else {
            Persistence::Keep
        }
    }

    /// Sends a 101 and hands the connection to whoever asked for it.
    async fn upgrade(
        &self,
        request: &mut Request,
        response: Response,
        takeover: crate::Takeover,
    ) -> After {
        let wire = &self.connection.wire;
        wire.answering.set(true);
        let head = head::compose(1024, |out| {
            head::write(out, &response, head::Framing::None, Persistence::Upgrade);
        });
        wire.out.borrow_mut().push(head);
        if let Err(broken) = respond::flush(wire, self.edge.bounds.write_pause).await {
            return broken.after();
        }
        self.log(request, response.status, 0);
        // From here on the tunnel holds neither route nor Plan.
        request.route = None;
        let duplex = ClientDuplex { wire: wire.clone(), service: self.connection.service.clone() };
        wire.metrics.tunnels_active.add(1);
        let ending = takeover(Box::new(duplex)).await;
        wire.metrics.tunnels_active.add(-1);
        After::Close(match ending {
            Ending::Finished | Ending::OtherGone => CloseReason::UpgradeFinished,
            Ending::ClientGone => CloseReason::ClientGone,
            Ending::Idle => CloseReason::TunnelIdle,
            Ending::Drain => CloseReason::Drain,
        })
    }

    fn log(&self, request: &Request, status: u16, body_bytes: u64) {
        let duration_us = net::clock::precise_us().saturating_sub(request.began_us);
        self.connection.wire.metrics.answered(status);
        if let Some(route) = &request.route {
            route.metrics.finished(status, duration_us);
        }
        if let Some(access) = &self.edge.access {
            access.answered(request, status, body_bytes, duration_us);
        }
    }

    /// A client that left without an answer is logged with nginx's 499, which is never sent.
    fn log_gone(&self, request: &Request) {
        self.log(request, 499, 0);
    }
}

fn body_bounds(bounds: &Bounds) -> BodyBounds {
    BodyBounds { bytes_max: bounds.body, pause: bounds.body_pause }
}

/// `OPTIONS *` asks what the server can do, not any resource (RFC 9110 9.3.7).
fn options_asterisk() -> Response {
    let mut response = Response::new(204);
    response.headers.append(Known::Allow, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    response
}
