//! A session of WebSocket that leaves its worker as plain `Send` data.
//!
//! [`leave`] parts a request that asks for one: a [`HandedSession`] goes to another thread, which
//! accepts or denies it and then sends and receives messages; a [`LocalSession`] stays and becomes
//! the decision. Promises what the hand-over of an exchange promises: queues bounded each way in
//! messages and bytes, that either side learns when the other one has gone, and one wake-up for all
//! that has happened since a side last looked. Knows messages and close codes (RFC 6455 7.4), and
//! neither frames nor connections.

mod line;
mod local;

use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;

pub use local::{Decision, LocalSession, OpenSession};

use crate::channel::ExchangeChannel;
use crate::{Head, Limits, ReceiverDropped, Responder};
use line::Line;
use message::{Fault, FaultKind, Headers, Request};

/// Parts a request that asks for WebSocket. `limits.chunks` counts messages; `limits.answer` is how
/// long the other side may take to decide.
pub fn leave(request: &Request, limits: Limits) -> (HandedSession, LocalSession) {
    begin(Head::of(request, Some(0)), limits)
}

/// As [`leave`], for a request from another process.
pub fn begin(head: Head, limits: Limits) -> (HandedSession, LocalSession) {
    let answer = ExchangeChannel::new(limits, true, true);
    let line = Line::new(limits);
    let local = LocalSession::new(answer.clone(), line.clone(), limits);
    let session = Session { line, answering: Some(Responder::new(answer)) };
    (HandedSession { head, session }, local)
}

/// A session as plain data: to be accepted or denied wherever it arrives.
pub struct HandedSession {
    pub head: Head,
    pub session: Session,
}

/// A message. The creator of a text guarantees that it is UTF-8.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    Text(Bytes),
    Binary(Bytes),
}

impl Message {
    pub fn data(&self) -> &Bytes {
        match self {
            Message::Text(data) | Message::Binary(data) => data,
        }
    }
}

/// How a session ends. On the receiving side: 1005 if the client sent no code, 1006 if the
/// connection broke (RFC 6455 7.4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    pub code: u16,
    pub reason: Box<str>,
}

impl Closed {
    /// Done with it.
    pub const NORMAL: u16 = 1000;
    /// The connection ended without a close frame.
    pub const ABNORMAL: u16 = 1006;
    /// The other side failed.
    pub const INTERNAL: u16 = 1011;
    /// The server of the session stops or restarts (registered by IANA).
    pub const RESTART: u16 = 1012;

    pub fn new(code: u16, reason: impl Into<Box<str>>) -> Closed {
        Closed { code, reason: reason.into() }
    }
}

/// A message or event from the other side of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    Message(Message),
    Closed(Closed),
}

/// The handshake response to the client.
#[derive(Default)]
pub struct Accepted {
    /// One of the subprotocols that the client offered.
    pub subprotocol: Option<Box<str>>,
    /// More fields; those of the handshake itself are left out.
    pub headers: Headers,
}

/// The end of a session that has left its worker. Dropped undecided it is refused with 403, dropped
/// later without a close it is closed with 1011.
pub struct Session {
    line: Arc<Line>,
    /// While it is undecided.
    answering: Option<Responder>,
}

impl Session {
    /// Accepts it. [`ReceiverDropped`] if the client has gone, or if it has been decided before.
    pub fn accept(&mut self, accepted: Accepted) -> Result<(), ReceiverDropped> {
        let answering = self.answering.take().ok_or(ReceiverDropped)?;
        let told = self.line.accept(accepted);
        answering.let_be();
        told
    }

    /// Denies the session: the client gets an ordinary response. `None` if the decision was made
    /// before.
    pub fn deny(&mut self) -> Option<Responder> {
        self.answering.take()
    }

    /// Returns true if the session has neither been accepted nor denied.
    pub fn is_undecided(&self) -> bool {
        self.answering.is_some()
    }

    /// The next message, or how the session has ended; a further call returns the same.
    /// Before it is accepted only an end can come, and after [`Session::close`] only its own.
    pub fn poll_receive(&mut self, cx: &Context<'_>) -> Poll<Received> {
        self.line.poll_inward(cx)
    }

    /// Ready when there is room for a message; [`ReceiverDropped`] once the session has ended.
    pub fn poll_ready(&mut self, cx: &Context<'_>) -> Poll<Result<(), ReceiverDropped>> {
        self.line.poll_writable(cx)
    }

    /// Sends a message, whether there is room or not: ask [`Session::poll_ready`] first.
    pub fn send(&mut self, message: Message) -> Result<(), ReceiverDropped> {
        self.line.send(message)
    }

    /// Says goodbye behind what was sent. [`ReceiverDropped`] if the session had ended before.
    pub fn close(&mut self, closed: Closed) -> Result<(), ReceiverDropped> {
        self.line.close(closed)
    }

    /// Returns true if the session has ended: messages no longer arrive.
    pub fn is_gone(&self) -> bool {
        self.line.is_gone()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(answering) = self.answering.take() {
            answering.fail(Fault::new(FaultKind::WebSocketRefused, "the session was not accepted"));
        }
        self.line.leave_other();
    }
}

#[cfg(test)]
mod tests;
