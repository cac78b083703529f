//! The response to one request: `start_response` sets its head, the body's pieces follow.
//!
//! Promises that no head is sent before the first piece or the end of the body (PEP 3333, "The
//! start_response() Callable"), that no more is sent than Content-Length declares, and that the
//! client can tell a truncated response. Waits for the client, without the GIL, while the send
//! buffer is full.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use message::{Fault, FaultKind, Frame, Headers};
use net::FileRange;
use offload::{ReceiverDropped, Responder, Sending, wake_batch};
use pyo3::exceptions::PyAssertionError;
use pyo3::prelude::*;

use super::application::Application;
use super::pool_thread::{PoolThread, with_current};
use super::start::Start;
use crate::gil::GilCell;

#[pyclass(frozen, freelist = 64, module = "tidegate._tidegate")]
pub(super) struct Reply {
    application: Arc<Application>,
    state: GilCell<ReplyState>,
    /// `write`, once `start_response` has returned it.
    pub(super) write: GilCell<Option<Py<PyAny>>>,
}

struct ReplyState {
    response: ResponseState,
    start: Option<Start>,
    is_head: bool,
}

/// The progress of the response.
enum ResponseState {
    Open(Responder),
    /// With the number of bytes that Content-Length still requires.
    Streaming(Sending, Option<u64>),
    /// As many bytes as Content-Length declares have been sent.
    Complete,
    /// Nothing more is sent.
    Done,
}

/// Whether the body continues after a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AfterPiece {
    Continue,
    /// The body is complete, or the client has disconnected.
    Stop,
}

impl Reply {
    /// A reply that a thread reuses for its requests.
    pub(super) fn new(application: Arc<Application>) -> Reply {
        let state = ReplyState { response: ResponseState::Done, start: None, is_head: false };
        Reply { application, state: GilCell::new(state), write: GilCell::default() }
    }

    pub(super) fn begin(&self, answering: Responder, is_head: bool) {
        *self.state.get() =
            ReplyState { response: ResponseState::Open(answering), start: None, is_head };
    }

    /// `start_response(status, headers)`; `replaces` is true if it has an `exc_info`.
    pub(super) fn start(&self, start: Start, replaces: bool) -> PyResult<()> {
        let mut state = self.state.get();
        match &state.response {
            ResponseState::Open(_) if replaces || state.start.is_none() => {
                state.start = Some(start);
                Ok(())
            }
            _ => Err(PyAssertionError::new_err(
                "start_response() was called before, and is given no exc_info now",
            )),
        }
    }

    /// Sends an early hint (RFC 8297). After the head it has no effect.
    pub(super) fn inform(&self, headers: Headers) {
        if let ResponseState::Open(answering) = &self.state.get().response {
            answering.inform(103, headers);
        }
        // It is worth nothing once the response is there.
        wake_batch::flush();
    }

    /// True while the head can still be replaced.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state.get().response, ResponseState::Open(_))
    }

    /// True if the client has disconnected.
    pub(super) fn is_unwanted(&self) -> bool {
        match &self.state.get().response {
            ResponseState::Open(answering) => answering.is_unwanted(),
            ResponseState::Streaming(sending, _) => sending.is_unwanted(),
            ResponseState::Complete | ResponseState::Done => false,
        }
    }

    /// True if a piece can be sent without waiting; otherwise the waker is woken when it can.
    pub(super) fn has_room(&self, waker: &Waker) -> bool {
        match &mut self.state.get().response {
            ResponseState::Streaming(sending, _) => {
                sending.poll_ready(&mut Context::from_waker(waker)).is_ready()
            }
            _ => true,
        }
    }

    /// Sends a piece of the body. `is_whole` is true if there is no other.
    pub(super) fn piece(
        &self,
        py: Python<'_>,
        data: &[u8],
        is_whole: bool,
    ) -> PyResult<AfterPiece> {
        let mut state = self.state.get();
        let is_head = state.is_head;
        match std::mem::replace(&mut state.response, ResponseState::Done) {
            ResponseState::Open(mut answering) => {
                let Some(mut start) = state.start.take() else {
                    state.response = ResponseState::Open(answering);
                    return Err(unstarted());
                };
                answering.set_reason(start.reason.take());
                let length = data.len() as u64;
                let promised = start.length.unwrap_or(length);
                if is_head || !start.carries_content() {
                    let data = if start.length.is_none() && is_whole { data } else { &[] };
                    answering.respond(start.status, start.headers, Bytes::copy_from_slice(data));
                    return Ok(AfterPiece::Stop);
                }
                if length >= promised && (is_whole || start.length.is_some()) {
                    let sent = data.get(..promised as usize).unwrap_or(data);
                    answering.respond(start.status, start.headers, Bytes::copy_from_slice(sent));
                    state.response = ResponseState::Complete;
                    drop(state);
                    return if length > promised {
                        self.too_long(py)
                    } else {
                        Ok(AfterPiece::Continue)
                    };
                }
                let mut sending = answering.stream(start.status, start.headers, start.length);
                sending.push(Frame::Data(Bytes::copy_from_slice(data)));
                state.response = ResponseState::Streaming(
                    sending,
                    start.length.map(|promised| promised - length),
                );
                drop(state);
                wake_batch::flush();
                Ok(AfterPiece::Continue)
            }
            ResponseState::Streaming(sending, left) => {
                drop(state);
                let length = data.len() as u64;
                let sent = left.map_or(length, |left| left.min(length));
                let data = data.get(..sent as usize).unwrap_or(data);
                let frame = Frame::Data(Bytes::copy_from_slice(data));
                self.push(py, sending, frame, left.map(|left| left - sent), sent < length)
            }
            ResponseState::Complete if !data.is_empty() => {
                drop(state);
                self.too_long(py)
            }
            other => {
                state.response = other;
                Ok(AfterPiece::Stop)
            }
        }
    }

    /// Sends a part of a file, if it can be the rest of the body.
    pub(super) fn file(
        &self,
        py: Python<'_>,
        mut range: FileRange,
    ) -> PyResult<Option<AfterPiece>> {
        let mut state = self.state.get();
        let is_head = state.is_head;
        let there = range.length;
        match std::mem::replace(&mut state.response, ResponseState::Done) {
            ResponseState::Open(mut answering) => {
                let Some(mut start) = state.start.take_if(|start| {
                    // A file that is shorter than declared is read and sent in pieces instead.
                    start.length.is_none_or(|promised| promised <= there)
                }) else {
                    state.response = ResponseState::Open(answering);
                    return Ok(None);
                };
                answering.set_reason(start.reason.take());
                range.length = start.length.unwrap_or(there);
                if is_head || !start.carries_content() || range.length == 0 {
                    let mut headers = start.headers;
                    if start.length.is_none() && start.status != 204 {
                        headers.append(wire::Known::ContentLength, there.to_string());
                    }
                    answering.respond(start.status, headers, Bytes::new());
                    return Ok(Some(AfterPiece::Stop));
                }
                let length = Some(range.length);
                let mut sending = answering.stream(start.status, start.headers, length);
                sending.push(Frame::File(range));
                sending.finish(None);
                Ok(Some(AfterPiece::Stop))
            }
            ResponseState::Streaming(sending, left) => {
                drop(state);
                range.length = left.map_or(there, |left| left.min(there));
                let left = left.map(|left| left - range.length);
                let is_cut = range.length < there;
                self.push(py, sending, Frame::File(range), left, is_cut).map(Some)
            }
            other => {
                state.response = other;
                Ok(Some(AfterPiece::Stop))
            }
        }
    }

    /// Sends a frame once the send buffer has room.
    fn push(
        &self,
        py: Python<'_>,
        mut sending: Sending,
        frame: Frame,
        left: Option<u64>,
        is_cut: bool,
    ) -> PyResult<AfterPiece> {
        let mut cx = Context::from_waker(Waker::noop());
        let sendable = match sending.poll_ready(&mut cx) {
            Poll::Ready(sendable) => sendable,
            Poll::Pending => {
                wake_batch::flush();
                with_current(PoolThread::set_idle);
                let sendable = self
                    .application
                    .without_gil(py, || offload::wait(poll_fn(|cx| sending.poll_ready(cx))));
                with_current(|thread| thread.set_progress(net::clock::precise_us()));
                self.application.pool.wake_watcher();
                sendable
            }
        };
        if sendable == Err(ReceiverDropped) {
            return Ok(AfterPiece::Stop);
        }
        sending.push(frame);
        if left == Some(0) {
            sending.finish(None);
            self.state.get().response = ResponseState::Complete;
        } else {
            self.state.get().response = ResponseState::Streaming(sending, left);
        }
        wake_batch::flush();
        if is_cut { self.too_long(py) } else { Ok(AfterPiece::Continue) }
    }

    fn too_long(&self, py: Python<'_>) -> PyResult<AfterPiece> {
        self.state.get().response = ResponseState::Done;
        self.application
            .log_violation(py, "the body is longer than Content-Length says: it was cut")?;
        Ok(AfterPiece::Stop)
    }

    /// Completes the response when the application has returned, or has `failed`.
    pub(super) fn end(&self, py: Python<'_>, failed: bool) -> PyResult<()> {
        let mut state = self.state.get();
        let response = std::mem::replace(&mut state.response, ResponseState::Done);
        let (start, is_head) = (state.start.take(), state.is_head);
        drop(state);
        let raised = || fault("the application raised an exception");
        match (response, start) {
            (ResponseState::Open(answering), _) if failed => answering.fail(raised()),
            (ResponseState::Open(answering), None) => {
                answering.fail(fault("the application did not call start_response()"));
                return Err(unstarted());
            }
            (ResponseState::Open(mut answering), Some(start)) => {
                let Start { status, reason, headers, length } = start;
                answering.set_reason(reason);
                if is_head || matches!(status, 204 | 304) || length.unwrap_or(0) == 0 {
                    answering.respond(status, headers, Bytes::new());
                } else {
                    let sending = answering.stream(status, headers, length);
                    return self.too_short(py, sending);
                }
            }
            (ResponseState::Streaming(sending, _), _) if failed => sending.fail(raised()),
            (ResponseState::Streaming(sending, None), _) => sending.finish(None),
            (ResponseState::Streaming(sending, Some(_)), _) => return self.too_short(py, sending),
            (ResponseState::Complete | ResponseState::Done, _) => {}
        }
        Ok(())
    }

    fn too_short(&self, py: Python<'_>, sending: Sending) -> PyResult<()> {
        const SHORT: &str = "the body is shorter than Content-Length says";
        let is_unwanted = sending.is_unwanted();
        sending.fail(fault(SHORT));
        if is_unwanted { Ok(()) } else { self.application.log_violation(py, SHORT) }
    }
}

fn fault(detail: &'static str) -> Fault {
    Fault::new(FaultKind::AppFailed, detail)
}

fn unstarted() -> PyErr {
    PyAssertionError::new_err("the application did not call start_response() before its body")
}
