//! Moves bytes between the protocol of one connection and its socket, and monitors its time-outs.
//!
//! A turn takes the input, handles its events, and sends all output at once. Exchanges that wait
//! are tasks of their own; they wake the driver when they have output for the protocol.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut, Bytes};
use message::http2::SendQueue;
use net::Outgoing;
use net::clock::{self, Moment};
use telemetry::{CloseReason, LimitHit};
use wire::h2::{Connection as Protocol, Violation};

use super::connection::Http2Connection;
use super::stream::Stream;
use super::streams::Streams;
use super::violation::close_reason;
use crate::connection::{Connection, DRAIN_GRACE, End};
use crate::fault_log;
use crate::h1::compose;
use crate::sending::WriteProgress;
use message::ConnectionFacts;

/// Bytes that may wait for the client before no more are taken from the protocol, which then stops
/// reading.
const QUEUE_BYTES_MAX: u64 = 64 * 1024;
/// Events that are handled before output is sent, and turns before the worker's other tasks run: a
/// client may send faster than the server responds.
const EVENTS_IN_A_ROW: usize = 256;
const TURNS_IN_A_ROW: usize = 4;
/// How long an idle connection keeps the memory of its last requests.
const MEMORY_KEPT: Duration = Duration::from_secs(1);

/// Serves a connection to its end.
pub(crate) async fn serve(connection: Connection) -> End {
    let Connection { io, service, facts } = connection;
    let snapshot = service.snapshot();
    let config = snapshot.http2.clone().unwrap_or_default();
    let timeout = snapshot.bounds.write_timeout;
    let facts = ConnectionFacts { protocol: message::Protocol::Http2, ..(*facts).clone() };
    let connection = Rc::new(Http2Connection {
        driver: io.read_timer.wake_handle(),
        io,
        service,
        facts: Rc::new(facts),
        protocol: RefCell::new(Protocol::server(config)),
        is_running: Cell::new(false),
    });
    drop(snapshot);
    let mut driver = Driver {
        streams: Streams::new(connection),
        has_events: false,
        violation: None,
        progress: WriteProgress::new(timeout),
        is_fresh: true,
        holds_memory: true,
        is_within_frame: false,
        partial_since: None,
        ending: None,
        drain_ends: Moment::NEVER,
        refunded: clock::now(),
    };
    let end = std::future::poll_fn(|cx| driver.poll(cx)).await;
    driver.set_idle(false);
    end
}

struct Driver {
    streams: Streams,
    /// The protocol has more events of the bytes that it was given.
    has_events: bool,
    violation: Option<Violation>,
    progress: WriteProgress,
    /// Nothing has been received yet.
    is_fresh: bool,
    /// Something has been received since the memory was last released.
    holds_memory: bool,
    /// A frame, or a field section, is incomplete, and since when.
    is_within_frame: bool,
    partial_since: Option<Moment>,
    /// Why the server ends the connection; it does when no stream is left.
    ending: Option<CloseReason>,
    /// When streams are no longer accepted.
    drain_ends: Moment,
    /// When the protocol last refunded its budgets.
    refunded: Moment,
}

impl Driver {
    fn connection(&self) -> &Rc<Http2Connection> {
        &self.streams.connection
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        let connection = self.connection().clone();
        // Wakes of streams, and of a drain, arrive by this timer.
        connection.io.read_timer.register(cx);
        connection.is_running.set(true);
        let polled = self.take_turns(&connection, cx);
        connection.is_running.set(false);
        polled
    }

    fn take_turns(&mut self, connection: &Rc<Http2Connection>, cx: &mut Context<'_>) -> Poll<End> {
        self.refund_budgets(connection);
        for _ in 0..TURNS_IN_A_ROW {
            let received = self.receive(connection, cx);
            if let Poll::Ready(Err(reason)) = received {
                return Poll::Ready(End::Close(reason));
            }
            let flushed = match self.send(connection, cx) {
                Ok(flushed) => flushed,
                Err(reason) => return Poll::Ready(End::Close(reason)),
            };
            if flushed && let Some(end) = self.end(connection) {
                return Poll::Ready(end);
            }
            if received.is_pending() {
                return self.wait(connection, flushed, cx);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Takes what has arrived and handles its events; pending if there is nothing more to take now.
    fn receive(
        &mut self,
        connection: &Rc<Http2Connection>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), CloseReason>> {
        if !self.has_events {
            let takes_input = connection.protocol.borrow().wants_input()
                && connection.io.out.borrow().length() < QUEUE_BYTES_MAX;
            if !takes_input {
                return Poll::Pending;
            }
            let chunk = match connection.io.poll_input(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(_)) => return Poll::Ready(Err(CloseReason::ClientReset)),
                Poll::Ready(Ok(chunk)) => chunk,
            };
            if chunk.is_empty() {
                let is_busy = connection.protocol.borrow().streams() > 0;
                return Poll::Ready(Err(match is_busy {
                    true => CloseReason::ClientGone,
                    false => CloseReason::ClientClosed,
                }));
            }
            self.is_fresh = false;
            self.holds_memory = true;
            self.set_idle(false);
            connection.protocol.borrow_mut().receive(chunk);
        }
        self.has_events = true;
        for _ in 0..EVENTS_IN_A_ROW {
            let event = connection.protocol.borrow_mut().poll_event();
            match event {
                Ok(Some(event)) => self.streams.handle(event, cx),
                Ok(None) => {
                    self.has_events = false;
                    break;
                }
                Err(violation) => {
                    self.violation = Some(violation);
                    self.has_events = false;
                    return Poll::Pending;
                }
            }
            if !connection.protocol.borrow().wants_input() {
                break;
            }
        }
        let refused = connection.protocol.borrow_mut().take_refused();
        for _ in 0..refused {
            connection.io.metrics.hit(LimitHit::Streams);
        }
        Poll::Ready(Ok(()))
    }

    /// Sends what there is; true if all of it is with the kernel.
    fn send(
        &mut self,
        connection: &Rc<Http2Connection>,
        cx: &mut Context<'_>,
    ) -> Result<bool, CloseReason> {
        let io = &connection.io;
        let flushed = loop {
            {
                let (mut protocol, mut out) =
                    (connection.protocol.borrow_mut(), io.out.borrow_mut());
                let most = QUEUE_BYTES_MAX.saturating_sub(out.length()) as usize;
                if most > 0 {
                    protocol.write(&mut SendQueue(&mut out, compose_frames), most);
                }
            }
            match io.poll_flush(cx) {
                Poll::Pending => break false,
                Poll::Ready(Err(_)) => return Err(CloseReason::WriteFailed),
                Poll::Ready(Ok(())) if connection.protocol.borrow().wants_output() => {}
                Poll::Ready(Ok(())) => break true,
            }
        };
        loop {
            let drained = connection.protocol.borrow_mut().take_drained();
            match drained {
                Some(key) => self.streams.get(key).into_iter().for_each(Stream::wake_exchange),
                None => break,
            }
        }
        Ok(flushed)
    }

    /// Returns how the connection ends, if it does, now that all output is sent.
    fn end(&self, connection: &Http2Connection) -> Option<End> {
        if !connection.protocol.borrow().is_finished() {
            return None;
        }
        let Some(violation) = self.violation else {
            return Some(match self.ending {
                Some(reason) => End::Linger(reason),
                None => End::Close(CloseReason::CloseRequested),
            });
        };
        let (reason, limit) = close_reason(violation);
        limit.into_iter().for_each(|limit| connection.io.metrics.hit(limit));
        fault_log::violated(&connection.facts, violation.slug(), violation.text());
        Some(End::Linger(reason))
    }

    /// Waits for bytes, for streams, or for one of the time-outs.
    fn wait(
        &mut self,
        connection: &Rc<Http2Connection>,
        flushed: bool,
        cx: &mut Context<'_>,
    ) -> Poll<End> {
        let io = &connection.io;
        let (is_busy, is_stalled) = {
            let protocol = connection.protocol.borrow();
            self.is_within_frame = protocol.is_within_frame();
            let began_us = self.streams.section_began_us;
            self.streams.section_began_us =
                protocol.is_within_section().then(|| began_us.unwrap_or_else(clock::now_us));
            let is_busy = protocol.streams() > 0;
            (is_busy, is_busy && protocol.is_stalled())
        };
        if flushed && !is_stalled {
            self.progress.stop();
        } else if let Poll::Ready(broken) = self.progress.poll(io, cx) {
            return Poll::Ready(broken.end());
        }
        self.set_idle(flushed && !is_busy);
        if self.announce_end(connection) {
            // There is output.
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let (deadline, limit, reason) = self.time_out(connection);
        let released = self.release_memory(connection);
        io.read_timer.set_at(deadline.min(self.drain_ends).min(released));
        if io.read_timer.poll(cx).is_pending() || deadline > clock::now() {
            return Poll::Pending;
        }
        io.metrics.hit(limit);
        if is_busy {
            return Poll::Ready(End::Close(reason));
        }
        self.ending = Some(reason);
        connection.protocol.borrow_mut().close_to_new_streams();
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Tells the client that the connection ends because the server drains, or because another
    /// needs its descriptor; true if there is something to tell.
    fn announce_end(&mut self, connection: &Http2Connection) -> bool {
        let now = clock::now();
        let io = &connection.io;
        if self.ending.is_none() && io.is_shed.get() && io.idle_since.get().is_some() {
            self.ending = Some(CloseReason::Descriptors);
            connection.protocol.borrow_mut().close_to_new_streams();
            return true;
        }
        if self.ending.is_none() && connection.service.is_draining() {
            self.ending = Some(CloseReason::Drain);
            self.drain_ends = now.after(DRAIN_GRACE);
            self.streams.wake_exchanges();
            connection.protocol.borrow_mut().shut_down();
            return true;
        }
        let is_over = self.drain_ends <= now;
        if is_over {
            // A client that has not acknowledged the announcement by now is not waited for.
            self.drain_ends = Moment::NEVER;
            connection.protocol.borrow_mut().close_to_new_streams();
        }
        is_over
    }

    /// When the client is too slow, and what that is.
    fn time_out(&mut self, connection: &Http2Connection) -> (Moment, LimitHit, CloseReason) {
        let snapshot = connection.service.snapshot();
        let timeouts = &snapshot.timeouts;
        if self.is_within_frame {
            let since = *self.partial_since.get_or_insert_with(clock::now);
            return (since.after(timeouts.head), LimitHit::SlowHead, CloseReason::HeadTimeout);
        }
        self.partial_since = None;
        match connection.io.idle_since.get() {
            Some(since) if self.is_fresh => {
                let (limit, reason) = (LimitHit::SlowHandshake, CloseReason::HandshakeTimeout);
                (since.after(timeouts.handshake), limit, reason)
            }
            Some(since) => (since.after(timeouts.idle), LimitHit::Idle, CloseReason::IdleTimeout),
            None => (Moment::NEVER, LimitHit::Idle, CloseReason::IdleTimeout),
        }
    }

    /// Notes since when the connection waits for a request.
    fn set_idle(&self, is_idle: bool) {
        let io = &self.connection().io;
        if is_idle == io.idle_since.get().is_some() {
            return;
        }
        io.metrics.connections_idle.add(if is_idle { 1 } else { -1 });
        io.idle_since.set(is_idle.then(clock::now));
    }

    /// Releases the memory of a connection that has been idle for a moment: one that is about to
    /// have its next request would only allocate it again. Returns when that is.
    fn release_memory(&mut self, connection: &Http2Connection) -> Moment {
        let Some(since) = connection.io.idle_since.get() else { return Moment::NEVER };
        let at = since.after(MEMORY_KEPT);
        if self.holds_memory && at <= clock::now() {
            self.holds_memory = false;
            connection.protocol.borrow_mut().release_memory();
            self.streams.release_memory();
            *connection.io.out.borrow_mut() = Outgoing::default();
        }
        if self.holds_memory { at } else { Moment::NEVER }
    }

    /// Refunds the budgets of the protocol.
    fn refund_budgets(&mut self, connection: &Http2Connection) {
        let now = clock::now();
        let seconds = now.since(self.refunded).as_secs();
        if seconds > 0 {
            self.refunded = now;
            let seconds = u32::try_from(seconds).unwrap_or(u32::MAX);
            connection.protocol.borrow_mut().elapsed(seconds);
        }
    }
}

/// Copies the bytes into a buffer of the worker, so that the protocol keeps its own.
fn compose_frames(bytes: &mut Vec<u8>) -> Bytes {
    let composed = compose(bytes.len(), |room| room.put_slice(bytes));
    bytes.clear();
    composed
}
