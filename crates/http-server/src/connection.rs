//! One client connection with any version of HTTP, from the accepted socket to its end.
//!
//! The version is decided once: by ALPN under TLS, by the preface of HTTP/2 without it. Every end
//! has a [`CloseReason`].

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use net::{Accepted, Stream};
use telemetry::CloseReason;

use crate::h1::{self, ConnectionIo};
use crate::h2;
use crate::listener_snapshot::{ConnectionGuard, Service};
use crate::secure;
use message::ConnectionFacts;

/// How long a client may take to read the last response of a connection that the server closes, and
/// how many of its further bytes are discarded during that time: closing a socket with unread bytes
/// would reset it (RFC 9112 9.6). Many clients read no response before they have sent a whole body,
/// even one that is too large.
pub(crate) const LINGER: Duration = Duration::from_secs(2);
pub(crate) const LINGER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// The same for a rejected connection, of which there may be very many.
const REFUSED_LINGER_BYTES_MAX: usize = 64 * 1024;

/// When the server drains, a connection that was active within this time may send one more request,
/// whose response closes the connection: the client may already be sending it, and a close would
/// cross it (RFC 9112 9.3.1).
pub(crate) const DRAIN_GRACE: Duration = Duration::from_millis(500);

/// A connection of a client.
pub(crate) struct Connection {
    pub(crate) io: Rc<ConnectionIo>,
    pub(crate) service: Rc<Service>,
    pub(crate) facts: Rc<ConnectionFacts>,
}

/// How a connection ends.
pub(crate) enum End {
    Close(CloseReason),
    /// The connection closes after the client has had time to read the response: it may still be
    /// sending.
    Linger(CloseReason),
    /// The connection is reset: what was sent must not be taken for a complete response.
    Abort(CloseReason),
}

/// Serves a connection to its end.
pub async fn serve(accepted: Accepted, service: Rc<Service>, mut facts: ConnectionFacts) {
    service.metrics.connections_accepted.inc();
    facts.times.accepted_us = net::clock::now_us();
    let snapshot = service.snapshot();
    if let Some(proxies) = &snapshot.proxy_protocol {
        let in_progress = service.begin_handshake();
        let timeout = snapshot.timeouts.handshake;
        let received = proxies.receive(&accepted.stream, &mut facts, timeout, &service.metrics);
        // Boxed to keep every connection's task small.
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
            // Boxed to keep every connection's task small.
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
    // A request that a handler holds does not keep its connection open.
    if let Some(io) = io.upgrade() {
        io.stream.finish();
    }
    drop(presence);
    service.metrics.closed(reason);
}

impl Connection {
    async fn live(self) -> CloseReason {
        let agreed = self.facts.tls.as_ref().and_then(|tls| tls.protocol.as_deref());
        let is_http2 = agreed == Some(h2::ALPN) || !self.service.snapshot().http1;
        let io = self.io.clone();
        let end = match is_http2 {
            true => Err(self),
            false => h1::serve(self).await,
        };
        let end = match end {
            Ok(end) => end,
            // Boxed to keep every connection's task small.
            Err(connection) => Box::pin(h2::serve(connection)).await,
        };
        match end {
            End::Close(reason) => {
                io.stream.close_notify();
                reason
            }
            End::Linger(reason) => {
                linger(&io.stream, LINGER_BYTES_MAX).await;
                reason
            }
            End::Abort(reason) => {
                if let Some(io) = Rc::into_inner(io) {
                    io.stream.abort();
                }
                reason
            }
        }
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

/// Responds to a connection above the limit and closes it: a clean 503, read before the close
/// arrives.
pub async fn refuse(accepted: Accepted) {
    const ANSWER: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\n\
        Content-Length: 24\r\nRetry-After: 1\r\nConnection: close\r\n\r\n503 Service Unavailable\n";
    let mut out = net::Outgoing::default();
    out.push(Bytes::from_static(ANSWER));
    if accepted.stream.send_all(&mut out).await.is_ok() {
        linger(&accepted.stream, REFUSED_LINGER_BYTES_MAX).await;
    }
}
