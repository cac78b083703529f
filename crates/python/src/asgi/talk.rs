//! `send(message)` of a session of WebSocket.

use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use exchange::offload::session::{Accepted, Closed, Message};
use exchange::{Fault, FaultKind, Headers};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use wire::Known;

use super::awaitable::nothing;
use super::exchange::Answer;
use super::messages::{fields, message, start, unexpected};
use super::send::{begin, gone, push, whole};
use super::wait::{What, wait};
use super::websocket::{Stage, State, WebSocket};
use crate::bytes::with_bytes;

impl WebSocket {
    pub(super) fn send<'py>(
        slf: &Bound<'py, Self>,
        given: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let (message, kind) = message(given)?;
        if kind.is(intern!(py, "websocket.send")) {
            return Self::say(slf, message, &kind);
        }
        match kind.to_cow()?.as_ref() {
            "websocket.send" => return Self::say(slf, message, &kind),
            "websocket.accept" => slf.get().accept(message, &kind)?,
            "websocket.close" => slf.get().close(message, &kind)?,
            "websocket.http.response.start" => slf.get().deny(message, &kind)?,
            "websocket.http.response.body" => return Self::denial(slf, message, &kind),
            _ => return Err(unexpected(&kind, "it is no message of a WebSocket")),
        }
        nothing(py)
    }

    /// `websocket.send`.
    fn say<'py>(
        slf: &Bound<'py, Self>,
        message: &Bound<'py, PyDict>,
        kind: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let present = |name| -> PyResult<Option<Bound<'py, PyAny>>> {
            Ok(message.get_item(name)?.filter(|value| !value.is_none()))
        };
        let said = match (present(intern!(py, "text"))?, present(intern!(py, "bytes"))?) {
            (Some(text), None) => {
                let text = text.cast::<PyString>().map_err(|_| {
                    PyTypeError::new_err("the \"text\" of websocket.send must be a str")
                })?;
                Message::Text(Bytes::copy_from_slice(text.to_str()?.as_bytes()))
            }
            (None, Some(bytes)) => {
                let what = "the \"bytes\" of websocket.send";
                Message::Binary(with_bytes(&bytes, what, Bytes::copy_from_slice)?)
            }
            _ => {
                let why = "websocket.send needs \"text\" or \"bytes\", and not both";
                return Err(PyValueError::new_err(why));
            }
        };
        let mut state = slf.get().state.get();
        let session = match &mut *state {
            State { stage: Stage::Open, session: Some(session), .. } => session,
            State { stage: Stage::Connecting, .. } => {
                return Err(unexpected(kind, "websocket.accept comes first"));
            }
            _ => return Err(unexpected(kind, "the session is closed or denied")),
        };
        session.send(said).map_err(|_| gone())?;
        let room = session.poll_ready(&Context::from_waker(Waker::noop()));
        drop(state);
        match room {
            Poll::Pending => wait(slf.clone().unbind(), py, What::Room),
            Poll::Ready(_) => nothing(py),
        }
    }

    fn accept(&self, message: &Bound<'_, PyDict>, kind: &Bound<'_, PyString>) -> PyResult<()> {
        let py = message.py();
        let mut headers = Headers::new();
        fields(message.get_item(intern!(py, "headers"))?, &mut headers)?;
        if headers.contains(Known::SecWebSocketProtocol) {
            let why = "the subprotocol goes into \"subprotocol\", not into the headers";
            return Err(PyRuntimeError::new_err(why));
        }
        let subprotocol = message.get_item(intern!(py, "subprotocol"))?;
        let subprotocol = subprotocol.filter(|chosen| !chosen.is_none());
        let subprotocol: Option<String> = subprotocol.map(|it| it.extract()).transpose()?;
        let mut state = self.state.get();
        if let Some(chosen) = &subprotocol
            && !state.offers(chosen)
        {
            let why = format!("the client does not offer the subprotocol {chosen:?}");
            return Err(PyValueError::new_err(why));
        }
        if !matches!(state.stage, Stage::Connecting) {
            return Err(unexpected(kind, "the session is decided already"));
        }
        let Some(session) = &mut state.session else { return Err(gone()) };
        let accepted = Accepted { subprotocol: subprotocol.map(Into::into), headers };
        session.accept(accepted).map_err(|_| gone())?;
        state.stage = Stage::Open;
        drop(state);
        self.decided(true);
        Ok(())
    }

    fn close(&self, message: &Bound<'_, PyDict>, kind: &Bound<'_, PyString>) -> PyResult<()> {
        let py = message.py();
        let given = |name| -> PyResult<Option<Bound<'_, PyAny>>> {
            Ok(message.get_item(name)?.filter(|value| !value.is_none()))
        };
        let code = given(intern!(py, "code"))?.map_or(Ok(Closed::NORMAL), |code| code.extract())?;
        let reason = given(intern!(py, "reason"))?;
        let reason: String = reason.map_or(Ok(String::new()), |reason| reason.extract())?;
        let mut state = self.state.get();
        match std::mem::replace(&mut state.stage, Stage::Over) {
            Stage::Connecting => {
                let denied = state.session.as_mut().and_then(|session| session.deny());
                drop(state);
                self.decided(false);
                // The ASGI text: a close before accept is answered 403.
                let fault = Fault::new(FaultKind::WebSocketRefused, "denied by the application");
                denied.ok_or_else(gone)?.fail(fault);
                Ok(())
            }
            Stage::Open => {
                let session = state.session.as_mut();
                let told = session.map(|session| session.close(Closed::new(code, reason)));
                drop(state);
                self.left();
                // Who says goodbye to a client that has gone has got what it wanted.
                told.map(|_| ()).ok_or_else(gone)
            }
            other => {
                state.stage = other;
                Err(unexpected(kind, "the session is closed or denied"))
            }
        }
    }

    /// `websocket.http.response.start`.
    fn deny(&self, message: &Bound<'_, PyDict>, kind: &Bound<'_, PyString>) -> PyResult<()> {
        let mut start = start(message)?;
        start.trailers = false;
        let mut state = self.state.get();
        if !matches!(state.stage, Stage::Connecting) {
            return Err(unexpected(kind, "the session is decided already"));
        }
        let answering = state.session.as_mut().and_then(|session| session.deny());
        let answering = answering.ok_or_else(gone)?;
        state.stage = Stage::Denying(Answer::Headed(answering, start));
        drop(state);
        self.decided(false);
        Ok(())
    }

    /// `websocket.http.response.body`.
    fn denial<'py>(
        slf: &Bound<'py, Self>,
        message: &Bound<'py, PyDict>,
        kind: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let (data, more) = super::messages::body(message)?;
        let mut state = slf.get().state.get();
        let streaming = match std::mem::replace(&mut state.stage, Stage::Over) {
            Stage::Denying(Answer::Headed(answering, start)) if !more => {
                drop(state);
                whole(answering, start, data, false)?;
                return nothing(py);
            }
            Stage::Denying(Answer::Headed(answering, start)) => begin(answering, start),
            Stage::Denying(Answer::Streaming(streaming)) => streaming,
            other => {
                state.stage = other;
                return Err(unexpected(kind, "websocket.http.response.start comes first"));
            }
        };
        let mut answer = Answer::Done;
        let full = push(&mut answer, streaming, data, more, false);
        if !matches!(answer, Answer::Done) {
            state.stage = Stage::Denying(answer);
        }
        drop(state);
        if full? { wait(slf.clone().unbind(), py, What::Room) } else { nothing(py) }
    }
}
