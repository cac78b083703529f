//! The two directions of one client connection, shared by its serving loop and the body of the
//! request that is being served.
//!
//! Both run on one task of one worker, so cells are enough. Owns what was received and not yet
//! used, what waits to be sent, and the two time-outs; an idle connection holds neither bytes nor a
//! buffer.

use std::cell::{Cell, RefCell};
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use net::clock::Moment;
use net::{Outgoing, Stream, Timer};
use telemetry::{LimitHit, WorkerMetrics};

use super::head;
use super::unread_body::UnreadBody;
use crate::receiving::HeldByExchange;
use message::{Headers, HeldResource, Inform};

/// Pipelined bytes that are taken from the kernel while an exchange is in flight; beyond that the
/// client waits.
pub(crate) const PIPELINE_BYTES_MAX: usize = 64 * 1024;

pub(crate) struct ConnectionIo {
    pub(crate) stream: Stream,
    /// Received and not yet used.
    pub(crate) input: RefCell<Bytes>,
    /// The socket was read empty in this active period: asking it again would find nothing.
    pub(crate) drained: Cell<bool>,
    pub(crate) out: RefCell<Outgoing>,
    /// A response is sent at the end of the worker's turn. Other bytes are sent only after it.
    deferred: Cell<bool>,
    /// Bytes the kernel has taken since the connection began.
    pub(crate) sent: Cell<u64>,
    /// Idle, head and body time-outs.
    pub(crate) read_timer: Timer,
    /// The write time-out.
    pub(crate) write_timer: Timer,
    /// The unread rest of the request's body, once the body was dropped.
    pub(crate) unread_body: RefCell<UnreadBody>,
    /// The final headers have been written: interim responses are too late.
    pub(crate) answering: Cell<bool>,
    /// The client knows interim responses.
    pub(crate) interim: Cell<bool>,
    /// Resources of the exchange that other requests wait for.
    pub(crate) held: HeldByExchange,
    /// Bytes of the request's body that have been read.
    pub(crate) body_bytes: Cell<u64>,
    /// Since when the connection waits for a request; `None` while it has one.
    pub(crate) idle_since: Cell<Option<Moment>>,
    /// Its descriptor is needed: the connection closes instead of waiting for a request.
    pub(crate) is_shed: Cell<bool>,
    pub(crate) metrics: Arc<WorkerMetrics>,
}

impl ConnectionIo {
    pub(crate) fn new(stream: Stream, metrics: Arc<WorkerMetrics>) -> Rc<ConnectionIo> {
        Rc::new(ConnectionIo {
            stream,
            input: RefCell::new(Bytes::new()),
            drained: Cell::new(false),
            out: RefCell::new(Outgoing::default()),
            deferred: Cell::new(false),
            sent: Cell::new(0),
            read_timer: Timer::new(),
            write_timer: Timer::new(),
            unread_body: RefCell::new(UnreadBody::None),
            answering: Cell::new(false),
            interim: Cell::new(false),
            held: HeldByExchange::default(),
            body_bytes: Cell::new(0),
            idle_since: Cell::new(None),
            is_shed: Cell::new(false),
            metrics,
        })
    }

    /// The next bytes, from what is buffered or from the socket; empty at the end of the stream.
    pub(crate) fn poll_input(&self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let buffered = self.input.take();
        if !buffered.is_empty() {
            return Poll::Ready(Ok(buffered));
        }
        let chunk = ready!(self.stream.poll_receive(cx))?;
        self.metrics.bytes_received.add(chunk.len() as u64);
        Poll::Ready(Ok(chunk))
    }

    /// Tells a client that waits for it to send its body (RFC 9110 10.1.1).
    pub(crate) fn inform_continue(&self) {
        if !self.answering.get() {
            self.out.borrow_mut().push(Bytes::from_static(b"HTTP/1.1 100 Continue\r\n\r\n"));
            self.push_out();
        }
    }

    /// Gives back what was not used.
    pub(crate) fn unread(&self, rest: Bytes) {
        *self.input.borrow_mut() = rest;
    }

    /// Defers sending what `write` writes to the end of the worker's turn; the output buffer is
    /// empty.
    pub(crate) fn defer(
        self: &Rc<ConnectionIo>,
        room_min: usize,
        write: impl FnOnce(&mut BytesMut),
    ) {
        self.deferred.set(true);
        net::task::defer(self.clone(), room_min, write);
    }

    /// Sends what was deferred, so that what follows does not overtake it; whether the socket did
    /// not take all of it.
    pub(crate) fn send_deferred(&self) -> bool {
        let was_deferred = self.deferred.get();
        if was_deferred {
            net::task::send_deferred();
        }
        was_deferred && !self.out.borrow().is_empty()
    }

    /// Sends what waits; ready once there is nothing left.
    pub(crate) fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.send_deferred();
        let mut out = self.out.borrow_mut();
        while !out.is_empty() {
            let sent = ready!(self.stream.poll_send(cx, &mut out))?;
            self.note_sent(sent as u64);
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what the socket takes now; an error is reported by the next flush.
    pub(crate) fn push_out(&self) {
        self.send_deferred();
        if let Ok(sent) = self.stream.try_send(&mut self.out.borrow_mut()) {
            self.note_sent(sent as u64);
        }
    }

    /// Sends what the socket takes now of bytes ahead of which nothing waits; how many it took. A
    /// failure shows at the next flush.
    pub(crate) fn send_now(&self, bytes: &[u8]) -> usize {
        debug_assert!(!self.deferred.get(), "a deferred response would be overtaken");
        let sent = self.stream.try_send_slice(bytes).unwrap_or(0);
        self.note_sent(sent as u64);
        sent
    }

    fn note_sent(&self, sent: u64) {
        self.sent.set(self.sent.get() + sent);
        self.metrics.bytes_sent.add(sent);
    }

    /// True if a request body is in use that has not been read to its end.
    pub(crate) fn is_reading_body(&self) -> bool {
        matches!(*self.unread_body.borrow(), UnreadBody::Held)
    }

    /// Ready once a client that waits for its response has closed its connection. Bytes that it
    /// sends are the next requests, stored up to [`PIPELINE_BYTES_MAX`].
    pub(crate) fn poll_gone(&self, cx: &mut Context<'_>, half_close: bool) -> Poll<()> {
        loop {
            let buffered = self.input.borrow().len();
            if buffered >= PIPELINE_BYTES_MAX {
                return Poll::Pending;
            }
            // Usually there is nothing: the event loop's readiness avoids a system call.
            if self.stream.poll_readable(cx).is_pending() {
                return Poll::Pending;
            }
            match self.stream.poll_receive(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(chunk)) if chunk.is_empty() => {
                    // The end of the client's stream means that the client has closed, unless
                    // the listener allows half-closed clients.
                    return if half_close { Poll::Pending } else { Poll::Ready(()) };
                }
                Poll::Ready(Ok(chunk)) => {
                    self.metrics.bytes_received.add(chunk.len() as u64);
                    let mut input = self.input.borrow_mut();
                    *input = if input.is_empty() {
                        // It waits for the end of the exchange: it must not pin a whole block.
                        net::detach(&chunk).freeze()
                    } else {
                        let mut joined = net::detach(&input);
                        joined.extend_from_slice(&chunk);
                        joined.freeze()
                    };
                    if input.len() >= PIPELINE_BYTES_MAX {
                        self.metrics.hit(LimitHit::Pipeline);
                    }
                }
            }
        }
    }
}

impl Inform for ConnectionIo {
    fn inform(&self, status: u16, headers: &Headers) {
        if self.answering.get() || !self.interim.get() {
            return;
        }
        self.out.borrow_mut().push(head::interim(status, headers));
        self.push_out();
    }

    fn hold(&self, held: Weak<dyn HeldResource>) {
        self.held.set(held);
    }

    fn body_bytes(&self) -> u64 {
        self.body_bytes.get()
    }
}

impl net::task::DeferredSender for ConnectionIo {
    fn send(&self, bytes: &[u8]) -> bool {
        self.deferred.set(false);
        let mut out = self.out.borrow_mut();
        let sent = if out.is_empty() { self.send_now(bytes) } else { 0 };
        out.push(Bytes::copy_from_slice(&bytes[sent..]));
        out.is_empty()
    }
}
