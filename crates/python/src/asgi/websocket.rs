//! One session of WebSocket, as the application sees it: its `receive` and `send`.
//!
//! Owns the end of a session that has left its worker ([`exchange::offload::session`]). Promises
//! the order of events of the ASGI text ("WebSocket"): `websocket.connect` comes first;
//! `websocket.disconnect` comes behind the last message, and again to whoever asks again; `send`
//! fails with an `OSError` when the client has gone. What the application owes when it ends is made
//! good: a session that is undecided is answered 500, one that is open is closed with 1000, or with
//! 1011 after an exception.

use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use exchange::offload::session::{Closed, Message, Received, Session};
use exchange::{Fault, FaultKind, Headers};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use wire::Known;

use super::awaitable::ready;
use super::exchange::Answer;
use super::server::Server;
use super::wait::{What, wait};
use super::waits::Waits;
use crate::gil::GilCell;

#[pyclass(frozen, module = "tidegate._tidegate")]
pub(super) struct WebSocket {
    pub(super) server: Py<Server>,
    pub(super) state: GilCell<State>,
}

pub(super) struct State {
    /// Until the application has ended.
    pub(super) session: Option<Session>,
    pub(super) stage: Stage,
    /// The subprotocols of the client, as one list.
    offered: Box<[u8]>,
    /// `websocket.connect` was given.
    connected: bool,
    /// The Task of the application: the loop alone would not keep it.
    task: Option<Py<PyAny>>,
    pub(super) waits: Waits,
    taken_us: u64,
    counted: bool,
}

/// How far the session is, as the application has brought it.
pub(super) enum Stage {
    Connecting,
    Open,
    /// A response instead of a session.
    Denying(Answer),
    /// The application has denied or closed it.
    Over,
}

impl State {
    /// Whether the client offers a subprotocol.
    pub(super) fn offers(&self, name: &str) -> bool {
        wire::token::list(&self.offered).any(|offered| offered == name.as_bytes())
    }
}

impl WebSocket {
    pub(super) fn new(server: Py<Server>, session: Session, headers: &Headers) -> WebSocket {
        let offered = headers.joined(Known::SecWebSocketProtocol).unwrap_or_default();
        let state = State {
            offered: offered.into(),
            session: Some(session),
            stage: Stage::Connecting,
            connected: false,
            task: None,
            waits: Waits::default(),
            taken_us: server.get().taken_us(),
            counted: false,
        };
        WebSocket { server, state: GilCell::new(state) }
    }

    pub(super) fn keep(&self, task: Py<PyAny>) {
        self.state.get().task = Some(task);
    }

    /// `receive()`.
    pub(super) fn receive<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        match slf.get().poll_receive(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(event) => ready(event.into_event(py)?),
            Poll::Pending => wait(slf.clone().unbind(), py, What::Receive),
        }
    }

    /// The next event, if there is one now.
    pub(super) fn poll_receive(&self, cx: &mut Context<'_>) -> Poll<Event> {
        let mut state = self.state.get();
        if !std::mem::replace(&mut state.connected, true) {
            return Poll::Ready(Event::Connect);
        }
        match &mut state.session {
            Some(session) => session.poll_receive(cx).map(Event::Received),
            None => Poll::Ready(Event::Received(Received::Closed(Closed::new(1006, "")))),
        }
    }

    /// Ready when there is room for another message, or for more of a denial.
    pub(super) fn poll_room(
        &self,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), exchange::offload::Gone>> {
        let mut state = self.state.get();
        match &mut *state {
            State { stage: Stage::Denying(Answer::Streaming(streaming)), .. } => {
                streaming.sending.poll_ready(cx)
            }
            State { stage: Stage::Open, session: Some(session), .. } => session.poll_ready(cx),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// The application has decided: it is counted among the sessions from now on, or no more.
    pub(super) fn decided(&self, accepted: bool) {
        let mut state = self.state.get();
        if !std::mem::replace(&mut state.counted, true) {
            let server = self.server.get();
            server.counted(state.taken_us);
            if accepted {
                server.numbers().websockets.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// The Task has ended: what the application owes is made good.
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
        slf.get().end(!error.is_none());
        if !error.is_none() {
            slf.get().server.get().report(py, &PyErr::from_value(error))?;
        }
        Ok(py.None().into_bound(py))
    }

    /// The application has returned, or failed.
    pub(super) fn end(&self, failed: bool) {
        let mut state = self.state.get();
        let session = state.session.take();
        let stage = std::mem::replace(&mut state.stage, Stage::Over);
        let task = state.task.take();
        drop(state);
        let detail = match failed {
            true => "the application raised an exception",
            false => "the application ended without a decision",
        };
        let fault = || Fault::new(FaultKind::AppFailed, detail);
        let was_open = matches!(stage, Stage::Open);
        match (stage, session) {
            (Stage::Denying(Answer::Headed(answering, _)), _) => answering.fail(fault()),
            (Stage::Denying(Answer::Streaming(streaming)), _) => streaming.sending.fail(fault()),
            (Stage::Connecting, Some(mut session)) => {
                if let Some(answering) = session.deny() {
                    answering.fail(fault());
                }
            }
            (Stage::Open, Some(mut session)) => {
                let code = if failed { Closed::INTERNAL } else { Closed::NORMAL };
                // The client may have gone before.
                let _ = session.close(Closed::new(code, ""));
            }
            _ => {}
        }
        self.decided(false);
        if was_open {
            self.left();
        }
        drop(task);
    }

    /// It is no session any more.
    pub(super) fn left(&self) {
        self.server.get().numbers().websockets.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What `receive` gives.
pub(super) enum Event {
    Connect,
    Received(Received),
}

impl Event {
    pub(super) fn into_event(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
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
