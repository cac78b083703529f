//! The active period of a connection: one exchange after the other, until nothing is buffered.
//!
//! The period is one future, allocated when the first byte of a request is there and dropped when
//! the connection is idle again. Within it a request that is answered by what is in memory
//! allocates no future: its steps run through without being suspended. What is rare and large is
//! boxed, so that the period takes less than 1 KiB, which the allocator serves fastest.

use wire::Version;

use super::exchange::Http1Exchange;
use super::head::Persistence;
use super::next_step::NextStep;
use super::read::{self, HeadError};
use super::respond;
use crate::connection::Connection;
use crate::exchange::{close_reason, refused, rejection};
use crate::listener_snapshot::ListenerSnapshot;
use message::Fault;

/// Requests of one connection that are served before the worker's other tasks run: a client may
/// send faster than the server responds.
const REQUESTS_IN_A_ROW: u32 = 256;

/// Serves requests until none is buffered and everything is sent, or the connection ends.
pub(super) async fn serve_requests(connection: &Connection) -> NextStep {
    let io = &connection.io;
    let mut in_a_row = 0;
    io.drained.set(false);
    // The rest of a deferred response that the socket did not take.
    if !io.out.borrow().is_empty()
        && let Err(step) = flush(connection).await
    {
        return step;
    }
    loop {
        in_a_row += 1;
        if in_a_row > REQUESTS_IN_A_ROW {
            tokio::task::yield_now().await;
            in_a_row = 0;
        }
        // Deferred responses are sent before the connection is read or closed.
        if io.send_deferred()
            && let Err(step) = flush(connection).await
        {
            return step;
        }
        let snapshot = connection.service.snapshot();
        // A block of its own, so that the matched value takes no space in the future while the
        // request is served.
        let mut exchange = {
            let received = match read::take(connection, &snapshot) {
                Ok(None) if !io.input.borrow().is_empty() => {
                    Box::pin(read::rest_of_head(connection, &snapshot)).await.map(Some)
                }
                received => received,
            };
            match received {
                Ok(Some(received)) => Http1Exchange::new(connection, snapshot, received),
                Ok(None) if io.out.borrow().is_empty() => return NextStep::Continue,
                Ok(None) => match flush(connection).await {
                    Ok(()) => continue,
                    Err(step) => return step,
                },
                Err(HeadError::Rejected(_)) if speaks_http2(connection, &snapshot) => {
                    return NextStep::Http2;
                }
                Err(HeadError::Rejected(fault)) => {
                    return Box::pin(reject(connection, &snapshot, fault)).await;
                }
                Err(HeadError::Ended(reason)) => return NextStep::close(reason),
            }
        };
        let step = exchange.serve().await;
        exchange.retire();
        let is_idle =
            || io.drained.get() && io.input.borrow().is_empty() && io.out.borrow().is_empty();
        if !matches!(step, NextStep::Continue) || is_idle() {
            return step;
        }
    }
}

/// Sends what is queued.
async fn flush(connection: &Connection) -> Result<(), NextStep> {
    let timeout = connection.service.snapshot().bounds.write_timeout;
    respond::flush(&connection.io, timeout).await.map_err(|broken| NextStep::End(broken.end()))
}

/// Returns true if the input is the preface of HTTP/2 with prior knowledge (RFC 9113 3.3): in the
/// clear, as the first bytes. A malformed preface ends as HTTP/2 (3.4).
#[cold]
fn speaks_http2(connection: &Connection, snapshot: &ListenerSnapshot) -> bool {
    let input = connection.io.input.borrow();
    let is_first = !connection.io.answering.get();
    let in_the_clear = snapshot.tls.is_none();
    is_first && in_the_clear && snapshot.http2.is_some() && input.starts_with(b"PRI ")
}

/// Responds to bytes that are not a request, and ends the connection.
async fn reject(connection: &Connection, snapshot: &ListenerSnapshot, fault: Fault) -> NextStep {
    let io = &connection.io;
    let reason = close_reason(&fault, &io.metrics);
    io.metrics.count_response(fault.status);
    let response = rejection(snapshot, &fault);
    refused(&connection.facts, snapshot, &fault, Some(&response));
    io.answering.set(true);
    let options = respond::SendOptions {
        to_head: false,
        version: Version::Http11,
        persistence: Persistence::Close,
        timeout: snapshot.bounds.write_timeout,
        half_close: true,
        at_once: true,
        deferrable: false,
    };
    // A rendered fault is not a stream: it is queued as a whole.
    respond::queue(io, response, &options);
    match respond::flush(io, options.timeout).await {
        Ok(()) => NextStep::linger(reason),
        Err(_) => NextStep::close(reason),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_is_small() {
        fn size<F>(_: impl FnOnce(&'static Connection) -> F) -> usize {
            size_of::<F>()
        }
        assert!(size(serve_requests) <= 1024, "{} bytes", size(serve_requests));
    }
}
