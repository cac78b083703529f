//! The life of one client connection: idle, active, and its end.
//!
//! ```text
//!  idle ──readable──▶ active: head ▶ route, filters, handler ▶ response ─┐
//!   ▲                   ▲                                                │
//!   │                   └── more requests in the buffer ◀────────────────┤
//!   └── nothing buffered, everything sent ◀──────────────────────────────┘
//! ```
//!
//! While idle a connection is a small task with two timers: the future that serves requests is
//! boxed for an active period and dropped after it (extension point 1). Every end has a row of
//! [`CloseReason`].

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use net::{Accepted, Stream};
use telemetry::{CloseReason, LimitHit};

use super::active;
use super::connection_io::ConnectionIo;
use super::next_step::{Connection, NextStep};
use super::tunnel;
use crate::listener_snapshot::{ConnectionGuard, Service};
use crate::secure;
use message::ConnectionFacts;

/// How long a client may take to read the last response of a connection that the server ends, and
/// how much of its further bytes is discarded during that time: closing a socket with unread bytes
/// would reset it (RFC 9112 9.6). Many clients read no response before they have sent all
/// of a body that is too large.
const LINGER: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The same for a connection that is refused: there may be very many of them.
const REFUSED_LINGER_BYTES_MAX: usize = 64 * 1024;

/// When the server drains, a connection that was active this short a time ago is given one more
/// request, whose answer says close: the client may be sending it just now, and a close would meet
/// it on its way (RFC 9112 9.3.1).
const DRAIN_GRACE: Duration = Duration::from_millis(500);

/// Serves a connection to its end.
pub async fn serve(accepted: Accepted, service: Rc<Service>, mut facts: ConnectionFacts) {
    service.metrics.connections_accepted.inc();
    let snapshot = service.snapshot();
    if let Some(proxies) = &snapshot.proxy_protocol {
        let in_progress = service.begin_handshake();
        let patience = snapshot.timeouts.handshake;
        let received = proxies.receive(&accepted.stream, &mut facts, patience, &service.metrics);
        // Boxed: it must not make the task of every connection larger.
        if let Err(reason) = Box::pin(received).await {
            return service.metrics.closed(reason);
        }
        drop(in_progress);
    }
    let tls = snapshot.tls.as_ref().map(|tls| tls.server.clone());
    drop(snapshot);
    let (stream, received) = match tls {
        None => (accepted.stream, Bytes::new()),
        Some(tls) => {
            let in_progress = service.begin_handshake();
            let secured = secure::handshake(accepted.stream, &tls, &mut facts, &service);
            // Boxed: it must not make the task of every connection larger.
            let secured = Box::pin(secured).await;
            drop(in_progress);
            match secured {
                Ok(secured) => secured,
                Err(reason) => return service.metrics.closed(reason),
            }
        }
    };
    let io = ConnectionIo::new(stream, service.metrics.clone());
    io.unread(received);
    let presence: ConnectionGuard = service.enter(&io);
    let connection = Connection { io, service: service.clone(), facts: Rc::new(facts) };
    let io = Rc::downgrade(&connection.io);
    let reason = connection.live().await;
    // A request that a handler keeps does not keep its connection open.
    if let Some(io) = io.upgrade() {
        io.stream.finish();
    }
    drop(presence);
    service.metrics.closed(reason);
}

impl Connection {
    async fn live(self) -> CloseReason {
        let timeouts = self.service.snapshot();
        let mut patience = timeouts.timeouts.handshake;
        let mut fresh = true;
        drop(timeouts);
        loop {
            // What a client sent in the clear to a port for TLS is there already.
            let is_waiting = self.io.input.borrow().is_empty();
            if is_waiting && let Some(reason) = self.idle(patience, fresh).await {
                self.io.stream.close_notify();
                return reason;
            }
            match Box::pin(active::serve_requests(&self)).await {
                // A new socket counts as readable until it has been read once.
                NextStep::Continue if fresh && !self.io.answering.get() => {}
                NextStep::Continue => {
                    fresh = false;
                    patience = self.service.snapshot().timeouts.idle;
                }
                NextStep::Close(reason) => {
                    self.io.stream.close_notify();
                    return reason;
                }
                // The tunnel holds neither route nor plan.
                NextStep::Tunnel(takeover) => {
                    let reason = Box::pin(tunnel::run(&self, takeover)).await;
                    self.io.stream.close_notify();
                    return reason;
                }
                NextStep::Linger(reason) => {
                    linger(&self.io.stream, LINGER_BYTES_MAX).await;
                    return reason;
                }
                NextStep::Abort(reason) => {
                    if let Some(io) = Rc::into_inner(self.io) {
                        io.stream.abort();
                    }
                    return reason;
                }
            }
        }
    }

    /// Waits for the first byte of a request; the reason to close if none is to be expected.
    async fn idle(&self, patience: Duration, fresh: bool) -> Option<CloseReason> {
        let io = &self.io;
        let since = net::clock::now();
        io.read_timer.set_at(since.after(patience));
        io.idle_since.set(Some(since));
        io.metrics.connections_idle.add(1);
        let reason = poll_fn(|cx| {
            if let Poll::Ready(ready) = io.stream.poll_readable(cx) {
                return Poll::Ready(ready.err().map(|_| CloseReason::ClientReset));
            }
            if !io.out.borrow().is_empty() {
                // Of a deferred answer, which the socket did not take.
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

async fn linger(stream: &Stream, bytes_max: usize) {
    stream.finish();
    let mut discarded = 0;
    let read_away = async {
        while let Ok(chunk) = stream.receive().await {
            discarded += chunk.len();
            if chunk.is_empty() || discarded > bytes_max {
                break;
            }
        }
    };
    net::timer::within(LINGER, read_away).await;
}

/// Answers a connection above the limit and closes it: a clean 503, read before the close arrives.
pub async fn refuse(accepted: Accepted) {
    const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n\
        Content-Length: 24\r\nRetry-After: 1\r\nConnection: close\r\n\r\n503 Service Unavailable\n";
    let mut out = net::Outgoing::default();
    out.push(Bytes::from_static(ANSWER));
    if accepted.stream.send_all(&mut out).await.is_ok() {
        linger(&accepted.stream, REFUSED_LINGER_BYTES_MAX).await;
    }
}
