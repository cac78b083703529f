//! One exchange on a stream: the request and its body, and the head of the response.

use std::rc::{Rc, Weak};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use message::http2::Chunk;
use message::{Body, Fault, Frame, Headers, Request};
use net::Timer;
use net::clock::{self, Moment};
use wire::alias;
use wire::h2::{Field, StreamEnded};

use super::connection::Http2Connection;
use super::request::send_head;
use super::stream::Http2Stream;
use crate::faults::{self, Wait};
use crate::h1::{Call, ClientOptions};
use crate::held_connection::HeldConnection;
use crate::pool::Lease;

/// The stream of an exchange; dropping it resets the stream unless both messages have ended.
pub(crate) struct Http2Exchange {
    pub(super) connection: Rc<Http2Connection>,
    pub(super) stream: Rc<Http2Stream>,
    pub(super) options: Rc<ClientOptions>,
    pub(super) lease: Lease,
    began: Moment,
    /// What remains of the request's body.
    body: Option<Body>,
    /// Bytes of it that were announced.
    left: Option<u64>,
    timer: Timer,
    wait: Wait,
    /// Content that had not been sent when the time-out of sending began.
    unsent: u64,
    pub(super) informed: bool,
    held: Option<Rc<HeldConnection>>,
}

/// The next piece of a body.
pub(super) enum Piece {
    Data(Bytes),
    Trailers(Headers),
    End,
}

impl Drop for Http2Exchange {
    fn drop(&mut self) {
        self.connection.end_stream(&self.stream);
    }
}

impl Http2Exchange {
    /// Opens a stream with the head of a request.
    pub(crate) fn begin(
        lease: Lease,
        connection: Rc<Http2Connection>,
        request: &Request,
        body: Body,
        call: &Call<'_>,
    ) -> Result<Box<Http2Exchange>, Fault> {
        let key = send_head(&connection, request, &body, call)?;
        let mut exchange = Box::new(Http2Exchange {
            stream: connection.open(key),
            connection,
            lease,
            began: clock::now(),
            left: body.length(),
            body: (body.length() != Some(0)).then_some(body),
            options: call.options.clone(),
            timer: Timer::new(),
            wait: Wait::Nothing,
            unsent: 0,
            informed: false,
            held: None,
        });
        if matches!(exchange.body, Some(Body::Stream(_) | Body::File(_))) {
            exchange.hold(request);
        }
        exchange.connection.wake();
        Ok(exchange)
    }

    /// Lets the client's side know what a slow client holds.
    pub(super) fn hold(&mut self, request: &Request) {
        if self.held.is_none()
            && let Some(client) = &request.informer
            && let Some(held) = HeldConnection::of(&self.lease)
        {
            let weak: Weak<HeldConnection> = Rc::downgrade(&held);
            client.hold(weak);
            self.held = Some(held);
        }
    }

    /// Sets the time-out for what is waited for now, and registers for it. That of sending begins
    /// again with each part of the content that the server takes.
    fn poll_wait(&mut self, cx: &mut Context<'_>, wait: Wait) -> Poll<Fault> {
        let unsent = match wait {
            Wait::Write => self.connection.protocol.borrow().pending(self.stream.key()),
            _ => 0,
        };
        let has_sent = std::mem::replace(&mut self.unsent, unsent) != unsent;
        if self.wait != wait || has_sent {
            self.wait = wait;
            match wait {
                Wait::Nothing | Wait::Client => self.timer.clear(),
                Wait::Write => self.timer.set(self.options.write),
                Wait::Response => self.timer.set(self.options.response),
                Wait::Read => self.timer.set(self.options.read),
            }
        }
        ready!(self.timer.poll(cx));
        match wait {
            Wait::Read => self.lease.paused_for_too_long(),
            _ => self.connection.give_up_if_silent(self.began),
        }
        Poll::Ready(faults::timeout(wait))
    }

    /// Sends more of the body while the stream takes it; what that waits for.
    pub(super) fn poll_send(&mut self, cx: &mut Context<'_>) -> Result<Wait, Fault> {
        while let Some(body) = &mut self.body {
            let protocol = self.connection.protocol.borrow();
            if !protocol.is_open(self.stream.key()) {
                // The server wants no more of it; its response is read all the same.
                self.body = None;
                break;
            }
            let is_ready = protocol.is_ready(self.stream.key());
            drop(protocol);
            if !is_ready || self.connection.poll_room(cx).is_pending() {
                return Ok(Wait::Write);
            }
            let Poll::Ready(frame) = body.poll_frame(cx) else { return Ok(Wait::Client) };
            match frame.transpose()? {
                Some(Frame::Trailers(trailers)) => self.send_trailers(&trailers),
                Some(Frame::Data(data)) => self.send_chunk(Chunk::Bytes(data))?,
                Some(Frame::File(range)) => self.send_chunk(Chunk::File(range))?,
                None => self.send_end()?,
            }
            self.wait = Wait::Nothing;
            self.connection.wake();
        }
        // The server may not have taken the last part.
        let is_sent = self.connection.protocol.borrow().pending(self.stream.key()) == 0;
        Ok(if is_sent { Wait::Response } else { Wait::Write })
    }

    fn send_chunk(&mut self, chunk: Chunk) -> Result<(), Fault> {
        let length = wire::h2::Payload::len(&chunk);
        if let Some(left) = &mut self.left {
            let rest = left.checked_sub(length);
            *left =
                rest.ok_or_else(|| Fault::internal("a request body was longer than announced"))?;
        }
        let ends = self.left == Some(0);
        if ends {
            self.body = None;
        }
        let mut protocol = self.connection.protocol.borrow_mut();
        ignore_ended(protocol.send_data(self.stream.key(), chunk, ends));
        Ok(())
    }

    fn send_end(&mut self) -> Result<(), Fault> {
        self.body = None;
        if self.left.is_some_and(|left| left > 0) {
            return Err(Fault::internal("a request body was shorter than announced"));
        }
        let end = Chunk::Bytes(Bytes::new());
        ignore_ended(self.connection.protocol.borrow_mut().send_data(self.stream.key(), end, true));
        Ok(())
    }

    fn send_trailers(&mut self, trailers: &Headers) {
        self.body = None;
        // RFC 9110 6.5.1: what frames, routes or authenticates is not a trailer.
        let allowed =
            trailers.iter().filter(|field| alias::may_be_trailer(field.known, field.name));
        let fields =
            allowed.map(|field| Field { known: field.known, name: field.name, value: field.value });
        ignore_ended(
            self.connection.protocol.borrow_mut().send_trailers(self.stream.key(), fields),
        );
    }

    /// The head of the final response.
    pub(super) fn poll_head(
        &mut self,
        cx: &mut Context<'_>,
        request: &Request,
    ) -> Poll<Result<(u16, Headers), Fault>> {
        let wait = self.poll_send(cx)?;
        let mut received = self.stream.received.borrow_mut();
        for (status, headers) in received.interim.drain(..) {
            // RFC 9110 15.2: all are forwarded except 100, which is for our own expectation.
            if status != 100 {
                request.inform(status, &headers);
                self.informed = true;
            }
        }
        if let Some(head) = received.head.take() {
            self.wait = Wait::Nothing;
            return Poll::Ready(Ok(head));
        }
        if let Some(fault) = received.fault.take() {
            return Poll::Ready(Err(fault));
        }
        drop(received);
        self.stream.register(cx);
        self.poll_wait(cx, wait).map(Err)
    }

    /// The next piece of the response's body. Its length counts as used. `in_time` limits how long
    /// the server may pause.
    pub(super) fn poll_piece(
        &mut self,
        cx: &mut Context<'_>,
        in_time: bool,
    ) -> Poll<Result<Piece, Fault>> {
        let mut received = self.stream.received.borrow_mut();
        if let Some(data) = received.data.pop() {
            self.wait = Wait::Nothing;
            let mut protocol = self.connection.protocol.borrow_mut();
            protocol.release(self.stream.key(), data.len());
            if protocol.wants_output() {
                self.connection.wake();
            }
            return Poll::Ready(Ok(Piece::Data(data)));
        }
        if let Some(trailers) = received.trailers.take() {
            return Poll::Ready(Ok(Piece::Trailers(trailers)));
        }
        if received.is_whole {
            return Poll::Ready(Ok(Piece::End));
        }
        if let Some(fault) = received.fault.take() {
            return Poll::Ready(Err(fault));
        }
        drop(received);
        self.stream.register(cx);
        if in_time { self.poll_wait(cx, Wait::Read).map(Err) } else { Poll::Pending }
    }

    /// The whole content, if it is complete, in one piece, and without trailers.
    pub(super) fn take_whole(&self) -> Option<Bytes> {
        let mut received = self.stream.received.borrow_mut();
        let is_whole = received.is_whole && received.trailers.is_none() && received.data.len() <= 1;
        if !is_whole {
            return None;
        }
        let whole = received.data.pop().unwrap_or_default();
        self.connection.protocol.borrow_mut().release(self.stream.key(), whole.len());
        Some(whole)
    }
}

/// A stream that has ended takes nothing, which is noticed where its response is awaited.
fn ignore_ended(_: Result<(), StreamEnded>) {}
