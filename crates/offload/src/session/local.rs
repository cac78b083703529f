//! The side of a session that stays on the worker.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use super::line::Line;
use super::{Accepted, Closed, Message, Received};
use crate::channel::ExchangeChannel;
use crate::{Limits, Local};
use message::{Body, HandlerResult};

/// The decision about a session.
pub enum Decision {
    /// The client gets 101, and the session continues.
    Accepted(Accepted, OpenSession),
    /// The client gets this response.
    Denied(HandlerResult),
}

/// The future decision. Dropping it tells the other side that the client has disconnected.
pub struct LocalSession {
    /// Produces the response of a denial.
    answer: Local,
    /// ReceiverDropped once it is decided.
    open: Option<OpenSession>,
}

impl LocalSession {
    pub(super) fn new(
        answer: Arc<ExchangeChannel>,
        line: Arc<Line>,
        limits: Limits,
    ) -> LocalSession {
        let answer = Local::new(answer, Body::Empty, None, limits);
        LocalSession { answer, open: Some(OpenSession { line }) }
    }
}

impl Future for LocalSession {
    type Output = Decision;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Decision> {
        let Some(open) = &self.open else { return Poll::Pending };
        if let Poll::Ready(accepted) = open.line.poll_accepted(cx)
            && let Some(open) = self.open.take()
        {
            return Poll::Ready(Decision::Accepted(accepted, open));
        }
        let outcome = ready!(Pin::new(&mut self.answer).poll(cx));
        self.open = None;
        Poll::Ready(Decision::Denied(outcome))
    }
}

/// The worker's end of an accepted session. Dropping it reports a broken connection to the other
/// side, unless another end was reported.
pub struct OpenSession {
    line: Arc<Line>,
}

impl OpenSession {
    /// Ready when a message of the client may be passed on; after its close the other side takes
    /// none.
    pub fn poll_room(&mut self, cx: &Context<'_>) -> Poll<()> {
        self.line.poll_room(cx)
    }

    /// Passes on a message of the client: ask [`OpenSession::poll_room`] first.
    pub fn give(&mut self, message: Message) {
        self.line.give(message);
    }

    /// Polls for the other side's messages, then for its close, once.
    pub fn poll_said(&mut self, cx: &Context<'_>) -> Poll<Received> {
        self.line.poll_outward(cx)
    }

    /// Tells the other side how the session has ended.
    pub fn end(&mut self, closed: Closed) {
        self.line.end(closed);
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.line.end(Closed::new(Closed::ABNORMAL, ""));
    }
}
