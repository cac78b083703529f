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
use crate::{Answering, Gone, Head, Limits};
use line::Line;
use message::{Fault, FaultKind, Headers, Request};

/// Parts a request that asks for WebSocket. `limits.chunks` counts messages; `limits.answer` is how
/// long the other side may take to decide.
pub fn leave(request: &Request, limits: Limits) -> (HandedSession, LocalSession) {
    begin(Head::of(request, Some(0)), limits)
}

/// As [`leave`], of a head that came from another process.
pub fn begin(head: Head, limits: Limits) -> (HandedSession, LocalSession) {
    let answer = ExchangeChannel::new(limits, true, true);
    let line = Line::new(limits);
    let local = LocalSession::new(answer.clone(), line.clone(), limits);
    let session = Session { line, answering: Some(Answering::new(answer)) };
    (HandedSession { head, session }, local)
}

/// A session as plain data: to be accepted or denied wherever it arrives.
pub struct HandedSession {
    pub head: Head,
    pub session: Session,
}

/// One message. The creator of a text promises that it is UTF-8.
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

/// How a session ends or has ended. As the end that is received: 1005 where the client gave no
/// code, 1006 where the connection broke (RFC 6455 7.4.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    pub code: u16,
    pub reason: Box<str>,
}

impl Closed {
    /// Done with it.
    pub const NORMAL: u16 = 1000;
    /// The connection has gone without a word.
    pub const ABNORMAL: u16 = 1006;
    /// The other side failed.
    pub const INTERNAL: u16 = 1011;
    /// What serves the session ends, or restarts (registered by IANA).
    pub const RESTART: u16 = 1012;

    pub fn new(code: u16, reason: impl Into<Box<str>>) -> Closed {
        Closed { code, reason: reason.into() }
    }
}

/// What one side of a session hears from the other one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    Message(Message),
    Closed(Closed),
}

/// What the client is told with the 101.
#[derive(Default)]
pub struct Accepted {
    /// One of those that the client has offered.
    pub subprotocol: Option<Box<str>>,
    /// More fields; those of the handshake itself are left out.
    pub headers: Headers,
}

/// The end of a session that has left its worker. Dropped undecided it is refused with 403, dropped
/// later without a close it is closed with 1011.
pub struct Session {
    line: Arc<Line>,
    /// While it is undecided.
    answering: Option<Answering>,
}

impl Session {
    /// Accepts it. [`Gone`] if the client has gone, or if it has been decided before.
    pub fn accept(&mut self, accepted: Accepted) -> Result<(), Gone> {
        let answering = self.answering.take().ok_or(Gone)?;
        let told = self.line.accept(accepted);
        answering.let_be();
        told
    }

    /// Denies it: the client is answered as any request would be. `None` once it has been decided.
    pub fn deny(&mut self) -> Option<Answering> {
        self.answering.take()
    }

    /// Whether it has neither been accepted nor denied.
    pub fn is_undecided(&self) -> bool {
        self.answering.is_some()
    }

    /// The next message, or how the session has ended; a further call returns the same.
    /// Before it is accepted only an end can come, and after [`Session::close`] only its own.
    pub fn poll_receive(&mut self, cx: &Context<'_>) -> Poll<Received> {
        self.line.poll_inward(cx)
    }

    /// Ready when there is room for a message; [`Gone`] once the session has ended.
    pub fn poll_ready(&mut self, cx: &Context<'_>) -> Poll<Result<(), Gone>> {
        self.line.poll_writable(cx)
    }

    /// Sends a message, whether there is room or not: ask [`Session::poll_ready`] first.
    pub fn send(&mut self, message: Message) -> Result<(), Gone> {
        self.line.send(message)
    }

    /// Says goodbye behind what was sent. [`Gone`] if the session had ended before.
    pub fn close(&mut self, closed: Closed) -> Result<(), Gone> {
        self.line.close(closed)
    }

    /// Whether the session has ended: nothing that is sent will arrive.
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
