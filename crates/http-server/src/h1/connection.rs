//! The life of one connection of HTTP/1.1: idle, active, and its end.
//!
//! ```text
//!  idle ──readable──▶ active: head ▶ route, filters, handler ▶ response ─┐
//!   ▲                   ▲                                                │
//!   │                   └── more requests in the buffer ◀────────────────┤
//!   └── nothing buffered, everything sent ◀──────────────────────────────┘
//! ```
//!
//! While idle a connection is a small task with two timers: the future that serves requests is
//! boxed for an active period and dropped after it (extension point 1).

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use telemetry::{CloseReason, LimitHit};

use super::active;
use super::next_step::NextStep;
use super::tunnel;
use crate::connection::{Connection, DRAIN_GRACE, End};

/// Serves a connection until its end; returns it if the client speaks HTTP/2.
pub(crate) async fn serve(connection: Connection) -> Result<End, Connection> {
    let timeouts = connection.service.snapshot();
    let mut timeout = timeouts.timeouts.handshake;
    let mut fresh = true;
    drop(timeouts);
    loop {
        // The first bytes of a plaintext client on a TLS port were read already.
        let is_waiting = connection.io.input.borrow().is_empty();
        if is_waiting && let Some(reason) = connection.idle(timeout, fresh).await {
            return Ok(End::Close(reason));
        }
        match Box::pin(active::serve_requests(&connection)).await {
            // A new socket counts as readable until it has been read once.
            NextStep::Continue if fresh && !connection.io.answering.get() => {}
            NextStep::Continue => {
                fresh = false;
                timeout = connection.service.snapshot().timeouts.idle;
            }
            // The tunnel holds neither route nor plan.
            NextStep::Tunnel(takeover, entry) => {
                let tunnel = Box::pin(tunnel::run(&connection, takeover, entry));
                return Ok(End::Close(tunnel.await));
            }
            NextStep::Http2 => return Err(connection),
            NextStep::End(end) => return Ok(end),
        }
    }
}

impl Connection {
    /// Waits for the first byte of a request; the reason to close if none is to be expected.
    async fn idle(&self, timeout: Duration, fresh: bool) -> Option<CloseReason> {
        let io = &self.io;
        let since = net::clock::now();
        io.read_timer.set_at(since.after(timeout));
        io.idle_since.set(Some(since));
        io.metrics.connections_idle.add(1);
        let reason = poll_fn(|cx| {
            if let Poll::Ready(ready) = io.stream.poll_readable(cx) {
                return Poll::Ready(ready.err().map(|_| CloseReason::ClientReset));
            }
            if !io.out.borrow().is_empty() {
                // The rest of a deferred response that the socket did not take.
                return Poll::Ready(None);
            }
            if io.is_shed.get() {
                return Poll::Ready(Some(CloseReason::Descriptors));
            }
            if self.service.is_draining() {
                let until = since.after(DRAIN_GRACE);
                if until <= net::clock::now() {
                    return Poll::Ready(Some(CloseReason::Drain));
                }
                io.read_timer.set_at(until.min(io.read_timer.deadline()));
            }
            io.read_timer.poll(cx).map(|()| {
                let (limit, reason) = if fresh {
                    (LimitHit::SlowHandshake, CloseReason::HandshakeTimeout)
                } else {
                    (LimitHit::Idle, CloseReason::IdleTimeout)
                };
                io.metrics.hit(limit);
                Some(reason)
            })
        })
        .await;
        io.metrics.connections_idle.add(-1);
        io.idle_since.set(None);
        reason
    }
}
