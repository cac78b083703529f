//! One HTTP request and its response: `receive`, and the state that `send` changes.
//!
//! Promises the order of events of the ASGI specification ("HTTP"): a head is sent with the first
//! piece of its body; `receive` returns `http.disconnect` once the response is complete or the
//! client has disconnected; `send` raises an `OSError` after a disconnect. If the request's body
//! fails (malformed, too long, too slow, incomplete), that fault is the response, unless the
//! response has begun; to the application it looks like a disconnect.

use std::io;
use std::os::unix::fs::FileExt;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use message::{BodyStream, Fault, FaultKind, Frame};
use net::FileRange;
use offload::{Head, Incoming, OffloadedRequest, Responder, Sending};
use pyo3::prelude::*;

use super::app_loop::AppLoop;
use super::disconnected::disconnected;
use super::messages::{Start, disconnect, request};
use super::op_future::{Operations, operation};
use super::pending_ops::{OpKind, PendingOps};
use crate::gil::GilCell;

#[pyclass(frozen, module = "tidegate._tidegate")]
pub(super) struct Exchange {
    pub(super) app: Py<AppLoop>,
    pub(super) state: GilCell<ExchangeState>,
}

pub(super) struct ExchangeState {
    /// Until the response is complete. After the last piece it signals the client's disconnect.
    body: Option<Incoming>,
    /// True once `receive` has returned the last piece.
    is_read: bool,
    /// A piece that was read ahead to find out whether it is the last.
    peeked: Option<Bytes>,
    /// The fault of that read, which `receive` reports after the piece before it.
    peeked_fault: Option<Fault>,
    /// Why the body failed, once `receive` has returned `http.disconnect` for it.
    failure: Option<Fault>,
    pub(super) response: ResponseState,
    pub(super) is_head: bool,
    /// True if the client accepts trailers (RFC 9110 section 10.1.4).
    pub(super) accepts_trailers: bool,
    pending: PendingOps,
    taken_us: u64,
    counted: bool,
}

/// The progress of a response.
pub(super) enum ResponseState {
    Open(Responder),
    /// The head is sent with the first piece of the body.
    Started(Responder, Start),
    Streaming(Streaming),
    /// The body is complete; trailers follow.
    Trailing(Sending, message::Headers),
    Done,
}

pub(super) struct Streaming {
    pub(super) sending: Sending,
    /// The number of bytes that Content-Length still requires.
    pub(super) left: Option<u64>,
    pub(super) trailers: bool,
}

impl Exchange {
    /// Creates an exchange without a request: it is complete.
    pub(super) fn new(app: Py<AppLoop>) -> Exchange {
        let state = ExchangeState {
            body: None,
            is_read: true,
            peeked: None,
            peeked_fault: None,
            failure: None,
            response: ResponseState::Done,
            is_head: false,
            accepts_trailers: false,
            pending: PendingOps::default(),
            taken_us: 0,
            counted: true,
        };
        Exchange { app, state: GilCell::new(state) }
    }

    /// Begins a request; returns its head. No request is in progress.
    pub(super) fn begin(&self, request: OffloadedRequest) -> Head {
        let OffloadedRequest { head, body, answer } = request;
        let mut state = self.state.get();
        state.body = Some(body);
        state.is_read = false;
        state.peeked_fault = None;
        state.failure = None;
        state.response = ResponseState::Open(answer);
        state.is_head = head.method == wire::Method::Head;
        state.accepts_trailers = head.headers.lists_token(wire::Known::Te, "trailers");
        state.taken_us = self.app.get().taken_us();
        state.counted = false;
        head
    }

    /// `receive()`.
    pub(super) fn receive<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        operation(slf.clone().unbind(), slf.py(), OpKind::Receive)
    }

    /// The next event, if it is available.
    fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<Received> {
        let mut state = self.state.get();
        if matches!(state.response, ResponseState::Done) {
            return Poll::Ready(Received::Disconnect);
        }
        let ExchangeState { body: Some(incoming), peeked, is_read, peeked_fault, .. } = &mut *state
        else {
            return Poll::Ready(Received::Disconnect);
        };
        if *is_read {
            return incoming.poll_unwanted(cx).map(|()| Received::Disconnect);
        }
        let data = match (peeked.take(), peeked_fault.take()) {
            (Some(data), fault) => {
                *peeked_fault = fault;
                data
            }
            (None, Some(fault)) => return Poll::Ready(state.body_failed(fault)),
            (None, None) if incoming.length() == Some(0) => Bytes::new(),
            (None, None) => match incoming.poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(Frame::Data(data)))) => data,
                Poll::Ready(Some(Ok(Frame::File(range)))) => match read_file(&range) {
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
        // The last piece is marked, so that the application need not receive an empty one after it.
        let more = match incoming.length() {
            Some(left) => left > 0,
            None => match incoming.poll_frame(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Some(Ok(Frame::Data(next)))) => {
                    *peeked = Some(next);
                    true
                }
                Poll::Ready(None | Some(Ok(Frame::Trailers(_)))) => false,
                Poll::Ready(Some(Err(fault))) => {
                    *peeked_fault = Some(fault);
                    true
                }
                _ => true,
            },
        };
        *is_read = !more;
        Poll::Ready(Received::Body(data, more))
    }

    /// Why the request's body failed, if `receive` has reported it.
    pub(super) fn failure(&self) -> Option<Fault> {
        self.state.get().failure.clone()
    }

    /// Completes the response when the application has returned, or has `failed`.
    pub(super) fn end(&self, py: Python<'_>, failed: bool) {
        let response = std::mem::replace(&mut self.state.get().response, ResponseState::Done);
        let detail = match (&response, failed) {
            (_, true) => "the application raised an exception",
            (ResponseState::Open(_), _) => "the application ended without a response",
            _ => "the application ended without completing its response",
        };
        let failure = self.failure().filter(|_| failed);
        let fault = || failure.unwrap_or_else(|| Fault::new(FaultKind::AppFailed, detail));
        match response {
            ResponseState::Done => {}
            ResponseState::Open(answering) | ResponseState::Started(answering, _) => {
                answering.fail(fault())
            }
            ResponseState::Streaming(streaming) => streaming.sending.fail(fault()),
            ResponseState::Trailing(sending, _) if failed => sending.fail(fault()),
            ResponseState::Trailing(sending, trailers) => sending.finish(Some(trailers)),
        }
        self.complete(py);
    }

    /// Releases the request after a complete response, and wakes the pending operations.
    pub(super) fn complete(&self, py: Python<'_>) {
        let mut state = self.state.get();
        (state.body, state.peeked) = (None, None);
        let pending = state.pending.take_all();
        let (counted, taken_us) = (std::mem::replace(&mut state.counted, true), state.taken_us);
        drop(state);
        if !counted {
            self.app.get().count_end(taken_us);
        }
        for id in pending {
            self.app.get().end_op(py, id);
        }
    }

    /// Ready when the send buffer has room, or the client has disconnected.
    fn poll_send(&self, cx: &mut Context<'_>) -> Poll<PyResult<()>> {
        match &mut self.state.get().response {
            ResponseState::Streaming(streaming) => {
                streaming.sending.poll_ready(cx).map_err(|_| disconnected())
            }
            _ => Poll::Ready(Ok(())),
        }
    }
}

impl Operations for Py<Exchange> {
    fn app(&self) -> &Py<AppLoop> {
        &self.get().app
    }

    fn poll(
        &self,
        py: Python<'_>,
        kind: OpKind,
        cx: &mut Context<'_>,
    ) -> Poll<PyResult<Py<PyAny>>> {
        let this = self.get();
        match kind {
            OpKind::Receive => {
                this.poll_receive(cx).map(|event| event.into_event(py).map(Bound::unbind))
            }
            OpKind::Send => this.poll_send(cx).map_ok(|()| py.None()),
        }
    }

    fn with_pending(&self, with: &mut dyn FnMut(&mut PendingOps)) {
        with(&mut self.get().state.get().pending);
    }
}

impl ExchangeState {
    /// Handles a failed body. If no response has begun, the fault is the response; `receive`
    /// reports a disconnect, and later messages of the application are discarded.
    fn body_failed(&mut self, fault: Fault) -> Received {
        self.is_read = true;
        match std::mem::replace(&mut self.response, ResponseState::Done) {
            ResponseState::Open(answering) | ResponseState::Started(answering, _) => {
                answering.fail(fault.clone())
            }
            begun => self.response = begun,
        }
        self.failure = Some(fault);
        Received::Disconnect
    }
}

/// The result of `receive`.
enum Received {
    Body(Bytes, bool),
    Disconnect,
}

impl Received {
    fn into_event(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        match self {
            Received::Body(data, more) => request(py, &data, more),
            Received::Disconnect => disconnect(py),
        }
    }
}

/// Reads a body that is stored in a file.
fn read_file(range: &FileRange) -> io::Result<Bytes> {
    let mut bytes = vec![0; usize::try_from(range.length).map_err(io::Error::other)?];
    range.file.read_exact_at(&mut bytes, range.offset)?;
    Ok(bytes.into())
}
