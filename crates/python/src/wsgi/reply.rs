//! The response to one request, as `start_response` and the body make it.
//!
//! Promises that no head is sent before there is a body or its end (PEP 3333, "The start_response()
//! Callable"), that no more is sent than Content-Length says, and that a response which ends before
//! is seen to be cut. Waits for the client, without the GIL, while more is on its way to it than
//! may be.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use exchange::offload::{Answering, Gone, Sending, wake_batch};
use exchange::{Fault, FaultKind, Frame};
use net::FileRange;
use pyo3::exceptions::PyAssertionError;
use pyo3::prelude::*;

use super::seat;
use super::server::Hosted;
use super::start::Start;
use crate::gil::GilCell;

/// What a failed application is called in logs and metrics.

#[pyclass(frozen, freelist = 64, module = "tidegate._tidegate")]
pub(super) struct Reply {
    pub(super) hosted: Arc<Hosted>,
    state: GilCell<State>,
    /// `write`, once it was asked for.
    pub(super) write: GilCell<Option<Py<PyAny>>>,
}

struct State {
    answer: Answer,
    start: Option<Start>,
    is_head: bool,
}

/// How far it is.
enum Answer {
    Open(Answering),
    /// What is still to come of what Content-Length promised.
    Streaming(Sending, Option<u64>),
    /// All that Content-Length promised has been sent.
    Complete,
    /// Nothing more is wanted.
    Done,
}

/// What became of a piece of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    More,
    /// Nothing more is wanted: there is enough, or the client has gone.
    Enough,
}

impl Reply {
    /// For a thread's next requests.
    pub(super) fn new(hosted: Arc<Hosted>) -> Reply {
        let state = State { answer: Answer::Done, start: None, is_head: false };
        Reply { hosted, state: GilCell::new(state), write: GilCell::default() }
    }

    pub(super) fn begin(&self, answering: Answering, is_head: bool) {
        *self.state.get() = State { answer: Answer::Open(answering), start: None, is_head };
    }

    /// `start_response(status, headers)`; `replaces` when it was given an exception.
    pub(super) fn start(&self, start: Start, replaces: bool) -> PyResult<()> {
        let mut state = self.state.get();
        match &state.answer {
            Answer::Open(_) if replaces || state.start.is_none() => {
                state.start = Some(start);
                Ok(())
            }
            _ => Err(PyAssertionError::new_err(
                "start_response() was called before, and is given no exc_info now",
            )),
        }
    }

    /// Whether the head can still be replaced.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state.get().answer, Answer::Open(_))
    }

    /// Whether the client has gone.
    pub(super) fn is_unwanted(&self) -> bool {
        match &self.state.get().answer {
            Answer::Open(answering) => answering.is_unwanted(),
            Answer::Streaming(sending, _) => sending.is_unwanted(),
            Answer::Complete | Answer::Done => false,
        }
    }

    /// Sends a piece of the body. `is_whole`: there is no other.
    pub(super) fn piece(&self, py: Python<'_>, data: &[u8], is_whole: bool) -> PyResult<Sent> {
        let mut state = self.state.get();
        let is_head = state.is_head;
        match std::mem::replace(&mut state.answer, Answer::Done) {
            Answer::Open(mut answering) => {
                let Some(mut start) = state.start.take() else {
                    state.answer = Answer::Open(answering);
                    return Err(unstarted());
                };
                answering.set_reason(start.reason.take());
                let length = data.len() as u64;
                let promised = start.length.unwrap_or(length);
                if is_head || !start.carries_content() {
                    let data = if start.length.is_none() && is_whole { data } else { &[] };
                    answering.whole(start.status, start.headers, Bytes::copy_from_slice(data));
                    return Ok(Sent::Enough);
                }
                if length >= promised && (is_whole || start.length.is_some()) {
                    let sent = data.get(..promised as usize).unwrap_or(data);
                    answering.whole(start.status, start.headers, Bytes::copy_from_slice(sent));
                    state.answer = Answer::Complete;
                    drop(state);
                    return if length > promised { self.too_long(py) } else { Ok(Sent::More) };
                }
                let mut sending = answering.stream(start.status, start.headers, start.length);
                sending.push(Frame::Data(Bytes::copy_from_slice(data)));
                state.answer =
                    Answer::Streaming(sending, start.length.map(|promised| promised - length));
                drop(state);
                wake_batch::flush();
                Ok(Sent::More)
            }
            Answer::Streaming(sending, left) => {
                drop(state);
                let length = data.len() as u64;
                let sent = left.map_or(length, |left| left.min(length));
                let data = data.get(..sent as usize).unwrap_or(data);
                let frame = Frame::Data(Bytes::copy_from_slice(data));
                self.push(py, sending, frame, left.map(|left| left - sent), sent < length)
            }
            Answer::Complete if !data.is_empty() => {
                drop(state);
                self.too_long(py)
            }
            other => {
                state.answer = other;
                Ok(Sent::Enough)
            }
        }
    }

    /// Sends a part of a file, if that can be the body or the rest of it.
    pub(super) fn file(&self, py: Python<'_>, mut range: FileRange) -> PyResult<Option<Sent>> {
        let mut state = self.state.get();
        let is_head = state.is_head;
        let there = range.length;
        match std::mem::replace(&mut state.answer, Answer::Done) {
            Answer::Open(mut answering) => {
                let Some(mut start) = state.start.take_if(|start| {
                    // What is shorter than was said is sent as far as it goes.
                    start.length.is_none_or(|promised| promised <= there)
                }) else {
                    state.answer = Answer::Open(answering);
                    return Ok(None);
                };
                answering.set_reason(start.reason.take());
                range.length = start.length.unwrap_or(there);
                if is_head || !start.carries_content() || range.length == 0 {
                    let mut headers = start.headers;
                    if start.length.is_none() && start.status != 204 {
                        headers.append(wire::Known::ContentLength, there.to_string());
                    }
                    answering.whole(start.status, headers, Bytes::new());
                    return Ok(Some(Sent::Enough));
                }
                let length = Some(range.length);
                let mut sending = answering.stream(start.status, start.headers, length);
                sending.push(Frame::File(range));
                sending.finish(None);
                Ok(Some(Sent::Enough))
            }
            Answer::Streaming(sending, left) => {
                drop(state);
                range.length = left.map_or(there, |left| left.min(there));
                let left = left.map(|left| left - range.length);
                let is_cut = range.length < there;
                self.push(py, sending, Frame::File(range), left, is_cut).map(Some)
            }
            other => {
                state.answer = other;
                Ok(Some(Sent::Enough))
            }
        }
    }

    /// Sends a frame once there is room for it.
    fn push(
        &self,
        py: Python<'_>,
        mut sending: Sending,
        frame: Frame,
        left: Option<u64>,
        is_cut: bool,
    ) -> PyResult<Sent> {
        let mut cx = Context::from_waker(Waker::noop());
        let room = match sending.poll_ready(&mut cx) {
            Poll::Ready(room) => room,
            Poll::Pending => {
                wake_batch::flush();
                let hosted = &self.hosted;
                seat::with_mine(seat::Seat::has_ended);
                let room = hosted.without_gil(py, || {
                    exchange::offload::wait(poll_fn(|cx| sending.poll_ready(cx)))
                });
                seat::with_mine(|seat| seat.gets_on(net::clock::precise_us()));
                hosted.is_busy_again();
                room
            }
        };
        if room == Err(Gone) {
            return Ok(Sent::Enough);
        }
        sending.push(frame);
        if left == Some(0) {
            sending.finish(None);
            self.state.get().answer = Answer::Complete;
        } else {
            self.state.get().answer = Answer::Streaming(sending, left);
        }
        wake_batch::flush();
        if is_cut { self.too_long(py) } else { Ok(Sent::More) }
    }

    fn too_long(&self, py: Python<'_>) -> PyResult<Sent> {
        self.state.get().answer = Answer::Done;
        self.hosted.complain(py, "the body is longer than Content-Length says: it was cut")?;
        Ok(Sent::Enough)
    }

    /// The application is done, or has `failed`: what it owes is made good.
    pub(super) fn end(&self, py: Python<'_>, failed: bool) -> PyResult<()> {
        let mut state = self.state.get();
        let answer = std::mem::replace(&mut state.answer, Answer::Done);
        let (start, is_head) = (state.start.take(), state.is_head);
        drop(state);
        let raised = || fault("the application raised an exception");
        match (answer, start) {
            (Answer::Open(answering), _) if failed => answering.fail(raised()),
            (Answer::Open(answering), None) => {
                answering.fail(fault("the application did not call start_response()"));
                return Err(unstarted());
            }
            (Answer::Open(mut answering), Some(start)) => {
                let Start { status, reason, headers, length } = start;
                answering.set_reason(reason);
                if is_head || matches!(status, 204 | 304) || length.unwrap_or(0) == 0 {
                    answering.whole(status, headers, Bytes::new());
                } else {
                    let sending = answering.stream(status, headers, length);
                    return self.too_short(py, sending);
                }
            }
            (Answer::Streaming(sending, _), _) if failed => sending.fail(raised()),
            (Answer::Streaming(sending, None), _) => sending.finish(None),
            (Answer::Streaming(sending, Some(_)), _) => return self.too_short(py, sending),
            (Answer::Complete | Answer::Done, _) => {}
        }
        Ok(())
    }

    fn too_short(&self, py: Python<'_>, sending: Sending) -> PyResult<()> {
        const SHORT: &str = "the body is shorter than Content-Length says";
        let is_unwanted = sending.is_unwanted();
        sending.fail(fault(SHORT));
        if is_unwanted { Ok(()) } else { self.hosted.complain(py, SHORT) }
    }
}

fn fault(detail: &'static str) -> Fault {
    Fault::new(FaultKind::AppFailed, detail)
}

fn unstarted() -> PyErr {
    PyAssertionError::new_err("the application did not call start_response() before its body")
}
