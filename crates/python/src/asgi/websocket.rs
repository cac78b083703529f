//! One WebSocket session: `receive`, and the state that `send` changes.
//!
//! Owns the application's end of an offloaded session ([`offload::session`]). Promises
//! the order of events of the ASGI specification ("WebSocket"): `websocket.connect` comes first;
//! `websocket.disconnect` follows the last message, and repeats; `send` raises an `OSError` after a
//! disconnect. When the application ends, a session that it neither accepted nor denied gets a 500
//! response, and an open one is closed with 1000, or with 1011 after an exception.

use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use message::{Fault, FaultKind, Headers};
use offload::session::{Closed, Message, Received, Session};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use wire::Known;

use super::app_loop::AppLoop;
use super::disconnected::disconnected;
use super::exchange::ResponseState;
use super::op_future::{Operations, operation};
use super::pending_ops::{OpKind, PendingOps};
use crate::gil::GilCell;

#[pyclass(frozen, module = "tidegate._tidegate")]
pub(super) struct WebSocket {
    pub(super) app: Py<AppLoop>,
    pub(super) state: GilCell<SocketState>,
}

pub(super) struct SocketState {
    /// Until the application has ended.
    pub(super) session: Option<Session>,
    pub(super) stage: SessionStage,
    /// The subprotocols that the client offers, as one list.
    offered: Box<[u8]>,
    /// True once `receive` has returned `websocket.connect`.
    connected: bool,
    /// What the application was called with, for the report of its exception.
    scope: Option<Py<PyDict>>,
    /// The Task of the application: the event loop holds only a weak reference.
    task: Option<Py<PyAny>>,
    pending: PendingOps,
    taken_us: u64,
    counted: bool,
}

/// The progress of the session, as the application has decided it.
pub(super) enum SessionStage {
    Connecting,
    Open,
    /// A response instead of a session.
    Denying(ResponseState),
    /// The application has denied or closed it.
    Closed,
}

impl SocketState {
    /// True if the client offers a subprotocol.
    pub(super) fn offers(&self, name: &str) -> bool {
        wire::token::list(&self.offered).any(|offered| offered == name.as_bytes())
    }
}

impl WebSocket {
    pub(super) fn new(app: Py<AppLoop>, session: Session, headers: &Headers) -> WebSocket {
        let offered = headers.joined(Known::SecWebSocketProtocol).unwrap_or_default();
        let state = SocketState {
            offered: offered.into(),
            session: Some(session),
            stage: SessionStage::Connecting,
            connected: false,
            scope: None,
            task: None,
            pending: PendingOps::default(),
            taken_us: app.get().taken_us(),
            counted: false,
        };
        WebSocket { app, state: GilCell::new(state) }
    }

    pub(super) fn set_scope(&self, scope: Py<PyDict>) {
        self.state.get().scope = Some(scope);
    }

    pub(super) fn set_task(&self, task: Py<PyAny>) {
        self.state.get().task = Some(task);
    }

    /// `receive()`.
    pub(super) fn receive<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        operation(slf.clone().unbind(), slf.py(), OpKind::Receive)
    }

    /// The next event, if it is available.
    fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<Event> {
        let mut state = self.state.get();
        if !std::mem::replace(&mut state.connected, true) {
            return Poll::Ready(Event::Connect);
        }
        match &mut state.session {
            Some(session) => session.poll_receive(cx).map(Event::Received),
            None => Poll::Ready(Event::Received(Received::Closed(Closed::new(1006, "")))),
        }
    }

    /// Ready when the send buffer has room for another message, or for more of a denial.
    fn poll_send(&self, cx: &mut Context<'_>) -> Poll<PyResult<()>> {
        let mut state = self.state.get();
        let sendable = match &mut *state {
            SocketState {
                stage: SessionStage::Denying(ResponseState::Streaming(streaming)),
                ..
            } => streaming.sending.poll_ready(cx),
            SocketState { stage: SessionStage::Open, session: Some(session), .. } => {
                session.poll_ready(cx)
            }
            _ => return Poll::Ready(Ok(())),
        };
        sendable.map_err(|_| disconnected())
    }

    /// Updates the metrics when the application has accepted or denied the session.
    pub(super) fn set_decided(&self, accepted: bool) {
        let mut state = self.state.get();
        if !std::mem::replace(&mut state.counted, true) {
            let app = self.app.get();
            app.count_end(state.taken_us);
            if accepted {
                app.metrics().websockets.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Ends the session when its Task has ended.
    pub(super) fn ended<'py>(
        slf: &Bound<'py, Self>,
        task: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let cancelled = task.call_method0(intern!(py, "cancelled"))?.is_truthy()?;
        if cancelled {
            slf.get().end(true);
            return Ok(py.None().into_bound(py));
        }
        let error = task.call_method0(intern!(py, "exception"))?;
        let scope = slf.get().end(!error.is_none());
        if !error.is_none() {
            slf.get().app.get().report(py, &PyErr::from_value(error), scope.as_ref())?;
        }
        Ok(py.None().into_bound(py))
    }

    /// Ends the session when the application has returned, or has `failed`. Returns its scope,
    /// which may refer to this object.
    pub(super) fn end(&self, failed: bool) -> Option<Py<PyDict>> {
        let mut state = self.state.get();
        let session = state.session.take();
        let stage = std::mem::replace(&mut state.stage, SessionStage::Closed);
        let (task, scope) = (state.task.take(), state.scope.take());
        drop(state);
        let detail = match failed {
            true => "the application raised an exception",
            false => "the application ended without accepting or denying the session",
        };
        let fault = || Fault::new(FaultKind::AppFailed, detail);
        let was_open = matches!(stage, SessionStage::Open);
        match (stage, session) {
            (SessionStage::Denying(ResponseState::Started(answering, _)), _) => {
                answering.fail(fault())
            }
            (SessionStage::Denying(ResponseState::Streaming(streaming)), _) => {
                streaming.sending.fail(fault())
            }
            (SessionStage::Connecting, Some(mut session)) => {
                if let Some(answering) = session.deny() {
                    answering.fail(fault());
                }
            }
            (SessionStage::Open, Some(mut session)) => {
                let code = if failed { Closed::INTERNAL } else { Closed::NORMAL };
                // Fails if the client has disconnected before.
                let _ = session.close(Closed::new(code, ""));
            }
            _ => {}
        }
        self.set_decided(false);
        if was_open {
            self.count_closed();
        }
        drop(task);
        scope
    }

    /// Counts the end of an accepted session.
    pub(super) fn count_closed(&self) {
        self.app.get().metrics().websockets.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Operations for Py<WebSocket> {
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

/// The result of `receive`.
enum Event {
    Connect,
    Received(Received),
}

impl Event {
    fn into_event(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let event = PyDict::new(py);
        let kind = intern!(py, "type");
        match self {
            Event::Connect => event.set_item(kind, intern!(py, "websocket.connect"))?,
            Event::Received(Received::Message(message)) => {
                event.set_item(kind, intern!(py, "websocket.receive"))?;
                match message {
                    Message::Text(data) => {
                        let text = PyString::from_bytes(py, &data)?;
                        event.set_item(intern!(py, "text"), text)?;
                    }
                    Message::Binary(data) => {
                        event.set_item(intern!(py, "bytes"), PyBytes::new(py, &data))?;
                    }
                }
            }
            Event::Received(Received::Closed(Closed { code, reason })) => {
                event.set_item(kind, intern!(py, "websocket.disconnect"))?;
                event.set_item(intern!(py, "code"), code)?;
                event.set_item(intern!(py, "reason"), &*reason)?;
            }
        }
        Ok(event.into_any())
    }
}
