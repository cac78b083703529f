//! One request, as the application sees it: its `receive` and `send`.
//!
//! Owns both ends of a hand-over: the request's body, and the right to answer. Promises the order
//! of events of the ASGI text ("HTTP"): a head is sent with the first piece of its body; `receive`
//! gives `http.disconnect` once the response is complete or the client has gone; `send` fails with
//! an `OSError` when nobody is left to send to. A request whose body fails (malformed, too long,
//! too slow, broken off) is answered at once by what failed, unless the response has begun: the
//! application is told as of a client that has gone.

use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use exchange::offload::{Answering, Gone, Head, Incoming, OffloadedRequest, Sending};
use exchange::{BodyStream, Fault, FaultKind, Frame};
use pyo3::prelude::*;

use super::awaitable::{nothing, ready};
use super::messages::{Start, disconnect, request};
use super::server::Server;
use super::wait::{What, read, wait};
use super::waits::Waits;
use crate::gil::GilCell;

/// What a failed application is called in logs and metrics.

#[pyclass(frozen, freelist = 256, module = "tidegate._tidegate")]
pub(super) struct Exchange {
    pub(super) server: Py<Server>,
    pub(super) state: GilCell<State>,
}

pub(super) struct State {
    /// Until the response is complete: who has read the body hears there that the client goes.
    body: Option<Incoming>,
    /// Whether the last event of the body was given.
    is_read: bool,
    /// A piece that was read to see whether it is the last.
    peeked: Option<Bytes>,
    /// That read met a fault: after the piece before it, the body has no end.
    broken: Option<Fault>,
    /// Why the body failed, once the application has been told that nobody takes a response.
    failure: Option<Fault>,
    pub(super) answer: Answer,
    pub(super) is_head: bool,
    /// Whether the client takes trailers (RFC 9110 section 10.1.4).
    pub(super) takes_trailers: bool,
    pub(super) waits: Waits,
    taken_us: u64,
    counted: bool,
}

/// How far the response is.
pub(super) enum Answer {
    Open(Answering),
    /// The head is here and goes with the first piece of the body.
    Headed(Answering, Start),
    Streaming(Streaming),
    /// The body is whole; trailers follow.
    Trailing(Sending, exchange::Headers),
    Done,
}

pub(super) struct Streaming {
    pub(super) sending: Sending,
    /// What is still to come of what Content-Length promised.
    pub(super) left: Option<u64>,
    pub(super) trailers: bool,
}

impl Exchange {
    /// The exchange of what arrived, and its head.
    pub(super) fn new(server: Py<Server>, handed: OffloadedRequest) -> (Exchange, Head) {
        let OffloadedRequest { head, body, answer } = handed;
        let state = State {
            body: Some(body),
            is_read: false,
            peeked: None,
            broken: None,
            failure: None,
            answer: Answer::Open(answer),
            is_head: head.method == wire::Method::Head,
            takes_trailers: head.headers.lists_token(wire::Known::Te, "trailers"),
            waits: Waits::default(),
            taken_us: server.get().taken_us(),
            counted: false,
        };
        (Exchange { server, state: GilCell::new(state) }, head)
    }

    /// `receive()`.
    pub(super) fn receive<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let mut cx = Context::from_waker(Waker::noop());
        match slf.get().poll_receive(&mut cx) {
            Poll::Ready(event) => ready(event.into_event(py)?),
            Poll::Pending => wait(slf.clone().unbind(), py, What::Receive),
        }
    }

    /// The next event, if there is one now.
    pub(super) fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<Received> {
        let mut state = self.state.get();
        if matches!(state.answer, Answer::Done) {
            return Poll::Ready(Received::Disconnect);
        }
        let State { body: Some(incoming), peeked, is_read, broken, .. } = &mut *state else {
            return Poll::Ready(Received::Disconnect);
        };
        if *is_read {
            return incoming.poll_unwanted(cx).map(|()| Received::Disconnect);
        }
        let data = match (peeked.take(), broken.take()) {
            (Some(data), fault) => {
                *broken = fault;
                data
            }
            (None, Some(fault)) => return Poll::Ready(state.body_failed(fault)),
            (None, None) if incoming.length() == Some(0) => Bytes::new(),
            (None, None) => match incoming.poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(Frame::Data(data)))) => data,
                Poll::Ready(Some(Ok(Frame::File(range)))) => match read(&range) {
                    Ok(data) => data,
                    Err(error) => {
                        let detail = format!("a body in a file cannot be read: {error}");
                        return Poll::Ready(state.body_failed(Fault::internal(detail)));
                    }
                },
                Poll::Ready(None | Some(Ok(Frame::Trailers(_)))) => Bytes::new(),
                Poll::Ready(Some(Err(fault))) => return Poll::Ready(state.body_failed(fault)),
            },
        };
        // The last piece says that it is: nobody has to ask for an empty one behind it.
        let more = match incoming.length() {
            Some(left) => left > 0,
            None => match incoming.poll_frame(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Some(Ok(Frame::Data(next)))) => {
                    *peeked = Some(next);
                    true
                }
                Poll::Ready(None | Some(Ok(Frame::Trailers(_)))) => false,
                Poll::Ready(Some(Err(fault))) => {
                    *broken = Some(fault);
                    true
                }
                _ => true,
            },
        };
        *is_read = !more;
        Poll::Ready(Received::Body(data, more))
    }

    /// Why the request's body failed, if the application was told.
    pub(super) fn failure(&self) -> Option<Fault> {
        self.state.get().failure.clone()
    }

    /// The application has returned, or failed with `error`: what it owes is made good.
    pub(super) fn end(&self, py: Python<'_>, failed: bool) {
        let answer = std::mem::replace(&mut self.state.get().answer, Answer::Done);
        let detail = match (&answer, failed) {
            (_, true) => "the application raised an exception",
            (Answer::Open(_), _) => "the application ended without a response",
            _ => "the application ended without completing its response",
        };
        let failure = self.failure().filter(|_| failed);
        let fault = || failure.unwrap_or_else(|| Fault::new(FaultKind::AppFailed, detail));
        match answer {
            Answer::Done => {}
            Answer::Open(answering) | Answer::Headed(answering, _) => answering.fail(fault()),
            Answer::Streaming(streaming) => streaming.sending.fail(fault()),
            Answer::Trailing(sending, _) if failed => sending.fail(fault()),
            Answer::Trailing(sending, trailers) => sending.finish(Some(trailers)),
        }
        self.complete(py);
    }

    /// The response is complete: whoever waits hears of it.
    pub(super) fn complete(&self, py: Python<'_>) {
        let mut state = self.state.get();
        (state.body, state.peeked) = (None, None);
        let waits = state.waits.end();
        let (counted, taken_us) = (std::mem::replace(&mut state.counted, true), state.taken_us);
        drop(state);
        if !counted {
            self.server.get().counted(taken_us);
        }
        for number in waits {
            self.server.get().end_wait(py, number);
        }
    }

    /// Ready with whether somebody still takes the response, when there is room for more of it.
    pub(super) fn poll_room(&self, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        match &mut self.state.get().answer {
            Answer::Streaming(streaming) => streaming.sending.poll_ready(cx),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// What `send` returns when there is nothing to wait for.
    pub(super) fn sent(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        nothing(py)
    }
}

impl State {
    /// The body has no end. Where no response has begun, the fault is the response: the application
    /// is told that the client has gone, and what it sends afterwards reaches nobody.
    fn body_failed(&mut self, fault: Fault) -> Received {
        self.is_read = true;
        match std::mem::replace(&mut self.answer, Answer::Done) {
            Answer::Open(answering) | Answer::Headed(answering, _) => answering.fail(fault.clone()),
            begun => self.answer = begun,
        }
        self.failure = Some(fault);
        Received::Disconnect
    }
}

/// What `receive` gives.
pub(super) enum Received {
    Body(Bytes, bool),
    Disconnect,
}

impl Received {
    pub(super) fn into_event(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        match self {
            Received::Body(data, more) => request(py, &data, more),
            Received::Disconnect => disconnect(py),
        }
    }
}
