//! `send(message)` of a WebSocket session.

use bytes::Bytes;
use message::{Fault, FaultKind, Headers};
use offload::session::{Accepted, Closed, Message};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use wire::Known;

use super::awaitable::nothing;
use super::disconnected::disconnected;
use super::exchange::ResponseState;
use super::messages::{fields, message, start, unexpected};
use super::op_future::operation;
use super::pending_ops::OpKind;
use super::send::{push, send_whole, start_stream};
use super::websocket::{SessionStage, SocketState, WebSocket};
use crate::bytes::with_bytes;

impl WebSocket {
    pub(super) fn send<'py>(
        slf: &Bound<'py, Self>,
        given: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let (message, kind) = message(given)?;
        if kind.is(intern!(py, "websocket.send")) {
            return Self::send_message(slf, message, &kind);
        }
        match kind.to_cow()?.as_ref() {
            "websocket.send" => return Self::send_message(slf, message, &kind),
            "websocket.accept" => slf.get().accept(message, &kind)?,
            "websocket.close" => slf.get().close(message, &kind)?,
            "websocket.http.response.start" => slf.get().deny(message, &kind)?,
            "websocket.http.response.body" => return Self::denial(slf, message, &kind),
            _ => return Err(unexpected(&kind, "it is not a message of a WebSocket")),
        }
        nothing(py)
    }

    /// `websocket.send`.
    fn send_message<'py>(
        slf: &Bound<'py, Self>,
        message: &Bound<'py, PyDict>,
        kind: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let present = |name| -> PyResult<Option<Bound<'py, PyAny>>> {
            Ok(message.get_item(name)?.filter(|value| !value.is_none()))
        };
        let outbound = match (present(intern!(py, "text"))?, present(intern!(py, "bytes"))?) {
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
                let detail = "websocket.send needs \"text\" or \"bytes\", and not both";
                return Err(PyValueError::new_err(detail));
            }
        };
        let mut state = slf.get().state.get();
        let session = match &mut *state {
            SocketState { stage: SessionStage::Open, session: Some(session), .. } => session,
            SocketState { stage: SessionStage::Connecting, .. } => {
                return Err(unexpected(kind, "websocket.accept comes first"));
            }
            _ => return Err(unexpected(kind, "the session is closed or denied")),
        };
        session.send(outbound).map_err(|_| disconnected())?;
        drop(state);
        operation(slf.clone().unbind(), py, OpKind::Send)
    }

    fn accept(&self, message: &Bound<'_, PyDict>, kind: &Bound<'_, PyString>) -> PyResult<()> {
        let py = message.py();
        let mut headers = Headers::new();
        fields(message.get_item(intern!(py, "headers"))?, &mut headers)?;
        if headers.contains(Known::SecWebSocketProtocol) {
            let detail = "the subprotocol belongs into \"subprotocol\", not into the headers";
            return Err(PyRuntimeError::new_err(detail));
        }
        let subprotocol = message.get_item(intern!(py, "subprotocol"))?;
        let subprotocol = subprotocol.filter(|chosen| !chosen.is_none());
        let subprotocol: Option<String> = subprotocol.map(|it| it.extract()).transpose()?;
        let mut state = self.state.get();
        if let Some(chosen) = &subprotocol
            && !state.offers(chosen)
        {
            let detail = format!("the client does not offer the subprotocol {chosen:?}");
            return Err(PyValueError::new_err(detail));
        }
        if !matches!(state.stage, SessionStage::Connecting) {
            return Err(unexpected(kind, "the session is already accepted or denied"));
        }
        let Some(session) = &mut state.session else { return Err(disconnected()) };
        let accepted = Accepted { subprotocol: subprotocol.map(Into::into), headers };
        session.accept(accepted).map_err(|_| disconnected())?;
        state.stage = SessionStage::Open;
        drop(state);
        self.set_decided(true);
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
        match std::mem::replace(&mut state.stage, SessionStage::Closed) {
            SessionStage::Connecting => {
                let denied = state.session.as_mut().and_then(|session| session.deny());
                drop(state);
                self.set_decided(false);
                // ASGI: a close before accept is a 403 response.
                let fault = Fault::new(FaultKind::WebSocketRefused, "denied by the application");
                denied.ok_or_else(disconnected)?.fail(fault);
                Ok(())
            }
            SessionStage::Open => {
                let session = state.session.as_mut();
                let closed = session.map(|session| session.close(Closed::new(code, reason)));
                drop(state);
                self.count_closed();
                // Closing after the client's disconnect is not an error.
                closed.map(|_| ()).ok_or_else(disconnected)
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
        if !matches!(state.stage, SessionStage::Connecting) {
            return Err(unexpected(kind, "the session is already accepted or denied"));
        }
        let answering = state.session.as_mut().and_then(|session| session.deny());
        let answering = answering.ok_or_else(disconnected)?;
        state.stage = SessionStage::Denying(ResponseState::Started(answering, start));
        drop(state);
        self.set_decided(false);
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
        let streaming = match std::mem::replace(&mut state.stage, SessionStage::Closed) {
            SessionStage::Denying(ResponseState::Started(answering, start)) if !more => {
                drop(state);
                send_whole(answering, start, data, false)?;
                return nothing(py);
            }
            SessionStage::Denying(ResponseState::Started(answering, start)) => {
                start_stream(answering, start)
            }
            SessionStage::Denying(ResponseState::Streaming(streaming)) => streaming,
            other => {
                state.stage = other;
                return Err(unexpected(kind, "websocket.http.response.start comes first"));
            }
        };
        let mut response = ResponseState::Done;
        let pushed = push(&mut response, streaming, data, more, false);
        if !matches!(response, ResponseState::Done) {
            state.stage = SessionStage::Denying(response);
        }
        drop(state);
        pushed?;
        operation(slf.clone().unbind(), py, OpKind::Send)
    }
}
