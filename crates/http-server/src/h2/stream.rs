//! One stream, shared by its exchange and the driver of its connection.
//!
//! The driver writes input and the exchange reads it; both run on one worker, so cells are
//! sufficient. A stream is reused for another request once nothing else refers to it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use message::http2::{Chunk, ReceivedData};
use net::Timer;
use telemetry::LimitHit;
use wire::Known;
use wire::h2::{ErrorCode, Field, StreamKey};

use super::connection::Http2Connection;
use crate::allowance::Allowance;
use crate::connection::{LINGER, LINGER_BYTES_MAX};
use crate::receiving::HeldByExchange;
use crate::sending::SendError;
use message::{Headers, HeldResource, Inform, TransferTimeout};

/// The streams of one connection refer to it until it ends.
pub(super) struct Stream {
    pub(super) connection: Rc<Http2Connection>,
    key: Cell<StreamKey>,
    received: RefCell<Received>,
    /// The waker of the task that reads the body.
    reader: Cell<Option<Waker>>,
    /// The waker of the task that runs the exchange.
    exchange: Cell<Option<Waker>>,
    /// The body time-out.
    pub(super) read_timer: Timer,
    /// The write time-out.
    write_timer: Timer,
    /// The final headers were sent: interim responses are too late.
    is_answered: Cell<bool>,
    /// The stream, or its connection, ended before the exchange did.
    is_gone: Cell<bool>,
    pub(super) held: HeldByExchange,
    /// Bytes of the request's body that have been read.
    pub(super) body_bytes: Cell<u64>,
}

/// Input that the exchange has not read.
#[derive(Default)]
struct Received {
    data: ReceivedData,
    trailers: Option<Headers>,
    is_whole: bool,
    /// The application reads no more.
    is_discarded: bool,
    /// Bytes that the client may still send after its response.
    linger_left: usize,
}

/// The next piece of a body.
pub(super) enum Piece {
    Data(Bytes),
    Trailers(Headers),
    End,
    /// The client or the connection has gone.
    Gone,
}

impl Stream {
    pub(super) fn new(
        connection: Rc<Http2Connection>,
        key: StreamKey,
        is_whole: bool,
    ) -> Rc<Stream> {
        Rc::new(Stream {
            connection,
            key: Cell::new(key),
            received: RefCell::new(Received { is_whole, ..Received::default() }),
            reader: Cell::new(None),
            exchange: Cell::new(None),
            read_timer: Timer::new(),
            write_timer: Timer::new(),
            is_answered: Cell::new(false),
            is_gone: Cell::new(false),
            held: HeldByExchange::default(),
            body_bytes: Cell::new(0),
        })
    }

    /// Makes it the stream of another request.
    pub(super) fn restart(&self, key: StreamKey, is_whole: bool) {
        self.key.set(key);
        self.is_answered.set(false);
        self.is_gone.set(false);
        self.held.clear();
        self.body_bytes.set(0);
        *self.received.borrow_mut() = Received { is_whole, ..Received::default() };
    }

    pub(super) fn key(&self) -> StreamKey {
        self.key.get()
    }

    // Called by the driver.

    /// Content has arrived; `ends` if it is the last.
    pub(super) fn push(&self, data: Bytes, ends: bool) {
        let received = &mut *self.received.borrow_mut();
        received.is_whole |= ends;
        if received.is_discarded {
            let mut protocol = self.connection.protocol.borrow_mut();
            match received.linger_left >= data.len() {
                true => protocol.release(self.key(), data.len()),
                false => protocol.discard(self.key()),
            }
            received.linger_left = received.linger_left.saturating_sub(data.len());
        } else if !data.is_empty() {
            received.data.push(data);
        }
        wake(&self.reader);
    }

    /// The trailer section has arrived, which ends the body.
    pub(super) fn push_trailers(&self, trailers: Headers) {
        let received = &mut *self.received.borrow_mut();
        received.is_whole = true;
        received.trailers = (!trailers.is_empty()).then_some(trailers);
        wake(&self.reader);
    }

    /// The chunk that was being sent is sent.
    pub(super) fn wake_exchange(&self) {
        wake(&self.exchange);
    }

    /// Ends what waits for the client.
    pub(super) fn client_gone(&self) {
        self.is_gone.set(true);
        wake(&self.reader);
        wake(&self.exchange);
    }

    // Called by the exchange.

    /// Ready once the client or the connection has gone.
    pub(super) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_gone.get() {
            return Poll::Ready(());
        }
        register(&self.exchange, cx);
        Poll::Pending
    }

    /// True if nothing of the body has arrived.
    pub(super) fn is_body_awaited(&self) -> bool {
        let received = self.received.borrow();
        received.data.is_empty() && !received.is_whole
    }

    /// The next piece of the body. Its length counts as used.
    pub(super) fn poll_piece(&self, cx: &mut Context<'_>) -> Poll<Piece> {
        let received = &mut *self.received.borrow_mut();
        if let Some(data) = received.data.pop() {
            self.connection.release(self.key(), data.len());
            return Poll::Ready(Piece::Data(data));
        }
        if let Some(trailers) = received.trailers.take() {
            return Poll::Ready(Piece::Trailers(trailers));
        }
        if received.is_whole {
            return Poll::Ready(Piece::End);
        }
        if self.is_gone.get() {
            return Poll::Ready(Piece::Gone);
        }
        register(&self.reader, cx);
        Poll::Pending
    }

    /// The application reads no more of the body.
    pub(super) fn discard(&self) {
        let received = &mut *self.received.borrow_mut();
        let is_whole = received.is_whole;
        *received = Received { is_whole, is_discarded: true, ..Received::default() };
        if !is_whole {
            self.connection.protocol.borrow_mut().discard(self.key());
            self.connection.wake();
        }
    }

    /// Lets the client send the rest of its body after the response; true if some is missing.
    pub(super) fn let_client_finish(&self) -> bool {
        let is_missing = !self.received.borrow().is_whole;
        if is_missing {
            self.connection.protocol.borrow_mut().let_finish(self.key());
        }
        is_missing
    }

    /// Discards the rest of the body, which the client may send for a while: many read no response
    /// before they have, and some take the end of the stream for an error (curl 7.88). Then the
    /// stream ends (RFC 9113 8.1).
    pub(super) async fn linger(&self) {
        self.discard();
        self.received.borrow_mut().linger_left = LINGER_BYTES_MAX;
        let rest = poll_fn(|cx| {
            let received = self.received.borrow();
            if received.is_whole || received.linger_left == 0 || self.is_gone.get() {
                return Poll::Ready(());
            }
            register(&self.reader, cx);
            Poll::Pending
        });
        net::timer::within(LINGER, rest).await;
        self.reset(ErrorCode::NO_ERROR);
    }

    /// A final head is sent.
    pub(super) fn answer(&self) {
        self.is_answered.set(true);
    }

    /// Sends an interim response, unless the final headers were sent.
    pub(super) fn send_interim<'a>(&self, status: u16, fields: impl Iterator<Item = Field<'a>>) {
        if !self.is_answered.get() {
            // A stream that has ended needs none.
            let _ =
                self.connection.protocol.borrow_mut().respond(self.key(), status, fields, false);
            self.connection.wake();
        }
    }

    /// Sends content, of which `ends` is the last. All before it is sent.
    pub(super) fn send(&self, chunk: Chunk, ends: bool) {
        let mut protocol = self.connection.protocol.borrow_mut();
        let chunk = match chunk {
            // It will wait for the client, and must not pin a block.
            Chunk::Bytes(bytes) if bytes.len() as u64 > protocol.window(self.key()) => {
                Chunk::Bytes(message::detach_small(bytes))
            }
            chunk => chunk,
        };
        // A stream that has ended is noticed where its content is awaited.
        let _ = protocol.send_data(self.key(), chunk, ends);
        drop(protocol);
        self.connection.wake();
    }

    /// Sends trailers, which end the response.
    pub(super) fn send_trailers(&self, trailers: &Headers) {
        let fields = content_fields(trailers);
        let _ = self.connection.protocol.borrow_mut().send_trailers(self.key(), fields);
        self.connection.wake();
    }

    /// Ends the stream without the rest of its response.
    pub(super) fn reset(&self, code: ErrorCode) {
        self.connection.protocol.borrow_mut().reset(self.key(), code);
        self.connection.wake();
    }

    /// Ready once all content that the protocol was given is sent.
    pub(super) fn poll_sent(&self, cx: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        if self.is_gone.get() {
            return Poll::Ready(Err(SendError::ClientGone));
        }
        if self.connection.protocol.borrow().pending(self.key()) == 0 {
            return Poll::Ready(Ok(()));
        }
        register(&self.exchange, cx);
        Poll::Pending
    }
}

/// Measures how fast the client reads the content of one stream. The stream waits for its client
/// while its own window is closed, and while that of the connection is: then progress of any stream
/// counts, because the client chose the order.
pub(super) struct StreamProgress {
    allowance: Allowance,
    is_waiting: bool,
    /// The pending bytes, and the total sent on the connection, at the last check.
    pending: u64,
    sent: u64,
}

impl StreamProgress {
    pub(super) fn new(timeout: TransferTimeout) -> StreamProgress {
        StreamProgress {
            allowance: Allowance::new(timeout),
            is_waiting: false,
            pending: 0,
            sent: 0,
        }
    }

    /// The client has nothing to take.
    pub(super) fn stop(&mut self) {
        self.allowance.stop();
        self.is_waiting = false;
    }

    /// The client has to take something: ready once it is too slow.
    pub(super) fn poll(&mut self, stream: &Stream, cx: &mut Context<'_>) -> Poll<SendError> {
        let io = &stream.connection.io;
        let (pending, is_blocked) = {
            let protocol = stream.connection.protocol.borrow();
            (protocol.pending(stream.key()), protocol.is_blocked(stream.key()))
        };
        let sent = io.sent.get();
        if std::mem::replace(&mut self.is_waiting, true) {
            self.allowance.credit(match is_blocked {
                true => self.pending.saturating_sub(pending),
                false => sent - self.sent,
            });
        }
        (self.pending, self.sent) = (pending, sent);
        let again = self.allowance.wait();
        let rate = self.allowance.slow_rate();
        if self.allowance.is_over() {
            io.metrics.hit(LimitHit::SlowReader);
            return Poll::Ready(SendError::WriteTimeout);
        }
        if rate.is_some_and(|rate| stream.held.must_give_way(rate, &io.metrics)) {
            return Poll::Ready(SendError::SlowClient);
        }
        stream.write_timer.set_at(again);
        stream.write_timer.register(cx);
        Poll::Pending
    }
}

impl Inform for Stream {
    fn inform(&self, status: u16, headers: &Headers) {
        self.send_interim(status, content_fields(headers));
    }

    fn hold(&self, held: Weak<dyn HeldResource>) {
        self.held.set(held);
    }

    fn body_bytes(&self) -> u64 {
        self.body_bytes.get()
    }
}

/// The fields of a message that are not framing.
pub(super) fn content_fields(headers: &Headers) -> impl Iterator<Item = Field<'_>> {
    let fields = headers.iter().filter(|field| field.known != Some(Known::ContentLength));
    fields.map(|message::Field { known, name, value }| Field { known, name, value })
}

fn register(place: &Cell<Option<Waker>>, cx: &Context<'_>) {
    let waker = match place.take() {
        Some(known) if known.will_wake(cx.waker()) => known,
        _ => cx.waker().clone(),
    };
    place.set(Some(waker));
}

fn wake(place: &Cell<Option<Waker>>) {
    if let Some(waker) = place.take() {
        waker.wake();
    }
}
