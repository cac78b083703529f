//! The active period of a connection: one exchange after the other, until nothing is buffered.
//!
//! Everything that needs no waiting is done at once, on the task's own stack ([`at_once`]); only
//! what has to wait (a slow head, a body, a handler that waits, a full socket) becomes a future,
//! which lives until the connection is idle again ([`go_on`]). A request that is answered by what
//! is in memory allocates no future at all.

use telemetry::{CloseReason, LimitHit};
use wire::Version;

use super::build_request;
use super::connection::{After, Connection};
use super::exchange::Exchange;
use super::fault_log;
use super::head::Persistence;
use super::listener_snapshot::ListenerSnapshot;
use super::read::{self, Taken, Waited};
use super::respond;
use crate::{Fault, Request, Side, problem};

/// Requests of one connection that are answered before the others of the worker have their turn: a
/// client may send faster than it can be served.
const REQUESTS_AT_ONCE: u32 = 256;

/// What has to be waited for.
pub(super) enum Rest {
    /// The next turn.
    Turn,
    /// The rest of a head.
    Head,
    Exchange(Box<Exchange>),
    /// The answer to what was no request.
    Refusal(Fault),
    /// Answers that the socket did not take yet.
    Flush,
}

/// How far a connection came without waiting.
pub(super) enum Step {
    Ended(After),
    Waits(Rest),
}

/// Serves what is there, as far as is possible without waiting.
pub(super) fn at_once(connection: &Connection) -> Step {
    let wire = &connection.wire;
    wire.drained.set(false);
    for _ in 0..REQUESTS_AT_ONCE {
        // Nothing may overtake an answer, nor end its connection, before it has left.
        if wire.send_deferred() {
            return Step::Waits(Rest::Flush);
        }
        let edge = connection.service.edge();
        match read::take(wire, &edge) {
            Taken::Nothing if wire.out.borrow().is_empty() => return Step::Ended(After::Idle),
            Taken::Nothing => return Step::Waits(Rest::Flush),
            Taken::Part => return Step::Waits(Rest::Head),
            Taken::Malformed(reject) => return Step::Waits(Rest::Refusal(Fault::rejected(reject))),
            Taken::Ended(reason) => return Step::Ended(After::Close(reason)),
            Taken::Head(head, headers) => {
                let framing = (head.framing, head.expect_continue, head.keep_alive);
                match build_request::request(head, headers, &connection.facts, &edge) {
                    Err(fault) => return Step::Waits(Rest::Refusal(fault)),
                    Ok(request) => {
                        let mut exchange = Exchange::begin(connection, edge, request, framing);
                        match exchange.at_once(connection) {
                            Some(After::Idle) => {
                                exchange.retire();
                                if wire.drained.get() && wire.out.borrow().is_empty() {
                                    return Step::Ended(After::Idle);
                                }
                            }
                            Some(ended) => return Step::Ended(ended),
                            None => return Step::Waits(Rest::Exchange(Box::new(exchange))),
                        }
                    }
                }
            }
        }
    }
    Step::Waits(Rest::Turn)
}

/// Waits for what has to be waited for, and serves on until the connection is idle.
pub(super) async fn go_on(connection: &Connection, mut rest: Rest) -> After {
    loop {
        let after = match rest {
            Rest::Turn => {
                tokio::task::yield_now().await;
                After::Idle
            }
            // Rare, and large: it must not make every wait larger.
            Rest::Head => Box::pin(finish_head(connection)).await,
            Rest::Exchange(exchange) => exchange.go_on(connection).await,
            Rest::Refusal(fault) => {
                let edge = connection.service.edge();
                refuse(connection, &edge, fault).await
            }
            Rest::Flush => {
                let patience = connection.service.edge().bounds.write_patience;
                match respond::flush(&connection.wire, patience).await {
                    Ok(()) => After::Idle,
                    Err(broken) => broken.after(),
                }
            }
        };
        if !matches!(after, After::Idle) {
            return after;
        }
        match at_once(connection) {
            Step::Ended(after) => return after,
            Step::Waits(more) => rest = more,
        }
    }
}

async fn finish_head(connection: &Connection) -> After {
    let edge = connection.service.edge();
    match read::wait(&connection.wire, &edge).await {
        Waited::Head(head, headers) => {
            let framing = (head.framing, head.expect_continue, head.keep_alive);
            match build_request::request(head, headers, &connection.facts, &edge) {
                Ok(request) => {
                    let exchange = Exchange::begin(connection, edge, request, framing);
                    Box::new(exchange).go_on(connection).await
                }
                Err(fault) => refuse(connection, &edge, fault).await,
            }
        }
        Waited::Malformed(reject) => refuse(connection, &edge, Fault::rejected(reject)).await,
        Waited::TimedOut => {
            connection.wire.metrics.hit(LimitHit::SlowHead);
            let fault = Fault::client(408, "head_timeout", "the head was not whole in time");
            refuse(connection, &edge, fault.closing()).await
        }
        Waited::Ended(reason) => After::Close(reason),
    }
}

/// Answers what was no request; the connection cannot go on.
async fn refuse(connection: &Connection, edge: &ListenerSnapshot, fault: Fault) -> After {
    let wire = &connection.wire;
    let reason = close_reason(&fault, &wire.metrics);
    wire.metrics.answered(fault.status);
    if let Some(access) = &edge.access {
        access.refused(&connection.facts, &fault);
    }
    fault_log::refused(&connection.facts, &fault);
    let mut response = problem::render(&fault, None, &edge.pages);
    let unknown = Request::blank();
    edge.dispatch.on_generated(&unknown, &mut response);
    unknown.retire();
    wire.answering.set(true);
    let plan = respond::Plan {
        to_head: false,
        version: Version::Http11,
        persistence: Persistence::Close,
        patience: edge.bounds.write_patience,
        half_close: true,
        at_once: true,
        deferrable: false,
    };
    // A rendered fault is no stream: it is queued whole.
    respond::queue(wire, response, &plan);
    match respond::flush(wire, plan.patience).await {
        Ok(()) => After::Linger(reason),
        Err(_) => After::Close(reason),
    }
}

/// Which close a fault of the client leads to, with its limit counted.
pub(super) fn close_reason(fault: &Fault, metrics: &telemetry::WorkerMetrics) -> CloseReason {
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
        "slow_client" => (CloseReason::SlowClient, None),
        "unknown_host" => (CloseReason::UnknownHost, None),
        "client_gone" => (CloseReason::ClientGone, None),
        _ if fault.side == Side::Client => (CloseReason::Malformed, None),
        _ => (CloseReason::InternalError, None),
    };
    if let Some(limit) = limit {
        metrics.hit(limit);
    }
    reason
}
