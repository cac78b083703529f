//! `send(message)` of an HTTP request: builds the response.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use message::{Frame, Headers};
use net::FileRange;
use offload::Responder;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use wire::Known;

use super::awaitable::nothing;
use super::disconnected::disconnected;
use super::exchange::{Exchange, ResponseState, Streaming};
use super::messages::{Start, fields, flag, message, start, unexpected};
use super::op_future::operation;
use super::pending_ops::OpKind;
use crate::bytes::with_bytes;
use crate::fields::{check_hint, check_trailers};

/// The exception for a body that is longer or shorter than declared.
fn wrong_length(which: &str) -> PyErr {
    PyRuntimeError::new_err(format!("the body is {which} than Content-Length says"))
}

impl Exchange {
    pub(super) fn send<'py>(
        slf: &Bound<'py, Self>,
        given: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let (message, kind) = message(given)?;
        if slf.get().is_complete() {
            // "any further messages on the channel will be ignored"
            let failed = slf.get().failure().is_some();
            return if failed { Err(disconnected()) } else { nothing(py) };
        }
        if kind.is(intern!(py, "http.response.body")) {
            return Self::body(slf, message, &kind);
        }
        match kind.to_cow()?.as_ref() {
            "http.response.start" => slf.get().start(message, &kind)?,
            "http.response.body" => return Self::body(slf, message, &kind),
            "http.response.pathsend" => slf.get().path(py, message, &kind)?,
            "http.response.trailers" => slf.get().trailers(py, message, &kind)?,
            "http.response.early_hint" => slf.get().early_hint(message)?,
            "http.response.informational" => slf.get().informational(message)?,
            _ => return Err(unexpected(&kind, "it is not a message of a response")),
        }
        nothing(py)
    }

    /// True if the response is complete, or the request has failed.
    fn is_complete(&self) -> bool {
        matches!(self.state.get().response, ResponseState::Done)
    }

    fn start(&self, message: &Bound<'_, PyDict>, kind: &Bound<'_, PyString>) -> PyResult<()> {
        let start = start(message)?;
        let mut state = self.state.get();
        match std::mem::replace(&mut state.response, ResponseState::Done) {
            ResponseState::Open(answering) => {
                let is_unwanted = answering.is_unwanted();
                state.response = ResponseState::Started(answering, start);
                if is_unwanted { Err(disconnected()) } else { Ok(()) }
            }
            other => {
                state.response = other;
                Err(unexpected(kind, "the response has begun already"))
            }
        }
    }

    fn body<'py>(
        slf: &Bound<'py, Self>,
        message: &Bound<'py, PyDict>,
        kind: &Bound<'py, PyString>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let (data, more) = super::messages::body(message)?;
        let this = slf.get();
        let mut state = this.state.get();
        let is_head = state.is_head;
        let response = std::mem::replace(&mut state.response, ResponseState::Done);
        let streaming = match response {
            ResponseState::Started(answering, start) if !more && !start.trailers => {
                send_whole(answering, start, data, is_head)?;
                drop(state);
                this.complete(py);
                return nothing(py);
            }
            ResponseState::Started(answering, start) => start_stream(answering, start),
            ResponseState::Streaming(streaming) => streaming,
            other => {
                let reason = match &other {
                    ResponseState::Trailing(..) => "its trailers are due",
                    _ => "http.response.start comes first",
                };
                state.response = other;
                return Err(unexpected(kind, reason));
            }
        };
        push(&mut state.response, streaming, data, more, is_head)?;
        let is_done = matches!(state.response, ResponseState::Done);
        drop(state);
        if is_done {
            this.complete(py);
        }
        operation(slf.clone().unbind(), py, OpKind::Send)
    }

    /// Extension `http.response.pathsend`.
    fn path(
        &self,
        py: Python<'_>,
        message: &Bound<'_, PyDict>,
        kind: &Bound<'_, PyString>,
    ) -> PyResult<()> {
        let path = message
            .get_item(intern!(py, "path"))?
            .ok_or_else(|| PyTypeError::new_err("pathsend needs a \"path\""))?;
        let path: std::path::PathBuf = path.extract()?;
        if !path.is_absolute() {
            let detail = format!("{} is not an absolute path", path.display());
            return Err(PyValueError::new_err(detail));
        }
        let file = File::open(&path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            let detail = format!("{} is not a regular file", path.display());
            return Err(PyOSError::new_err(detail));
        }
        let mut state = self.state.get();
        match std::mem::replace(&mut state.response, ResponseState::Done) {
            ResponseState::Started(answering, mut start) => {
                start.length.get_or_insert(metadata.len());
                let range = FileRange { file: Arc::new(file), offset: 0, length: metadata.len() };
                let Streaming { mut sending, left, .. } = start_stream(answering, start);
                if left != Some(metadata.len()) && !state.is_head {
                    return Err(wrong_length("of another length"));
                }
                sending.push(Frame::File(range));
                sending.finish(None);
            }
            other => {
                state.response = other;
                return Err(unexpected(kind, "it follows http.response.start"));
            }
        }
        drop(state);
        self.complete(py);
        Ok(())
    }

    /// Extension `http.response.trailers`.
    fn trailers(
        &self,
        py: Python<'_>,
        message: &Bound<'_, PyDict>,
        kind: &Bound<'_, PyString>,
    ) -> PyResult<()> {
        let mut more_fields = Headers::new();
        fields(message.get_item(intern!(py, "headers"))?, &mut more_fields)?;
        check_trailers(&more_fields)?;
        let more = flag(message, intern!(py, "more_trailers"))?;
        let mut state = self.state.get();
        match std::mem::replace(&mut state.response, ResponseState::Done) {
            ResponseState::Trailing(sending, mut trailers) => {
                for field in more_fields.iter() {
                    trailers.append(field.name, field.value);
                }
                if more {
                    state.response = ResponseState::Trailing(sending, trailers);
                    return Ok(());
                }
                // "only ... in case the client has sent TE: trailers"
                sending.finish(state.accepts_trailers.then_some(trailers));
            }
            other => {
                state.response = other;
                return Err(unexpected(kind, "trailers follow a body that announced them"));
            }
        }
        drop(state);
        self.complete(py);
        Ok(())
    }

    /// Extension `http.response.early_hint` (RFC 8297).
    fn early_hint(&self, message: &Bound<'_, PyDict>) -> PyResult<()> {
        let py = message.py();
        let mut headers = Headers::new();
        if let Some(links) = message.get_item(intern!(py, "links"))? {
            for link in links.try_iter()? {
                with_bytes(&link?, "a link", |link| headers.append(Known::Link, link))?;
            }
        }
        self.inform(headers)
    }

    /// The message for early hints of gunicorn 25.
    fn informational(&self, message: &Bound<'_, PyDict>) -> PyResult<()> {
        let py = message.py();
        let status = message.get_item(intern!(py, "status"))?;
        let status = status.map_or(Ok(103), |status| status.extract::<u16>())?;
        if status != 103 {
            let detail = format!("{status} is not the status of an early hint, which is 103");
            return Err(PyValueError::new_err(detail));
        }
        let mut headers = Headers::new();
        fields(message.get_item(intern!(py, "headers"))?, &mut headers)?;
        self.inform(headers)
    }

    /// Sends an early hint. After the head it has no effect; the specification allows it
    /// nevertheless.
    fn inform(&self, headers: Headers) -> PyResult<()> {
        check_hint(&headers)?;
        if let ResponseState::Open(answering) | ResponseState::Started(answering, _) =
            &self.state.get().response
        {
            answering.inform(103, headers);
        }
        Ok(())
    }
}

/// Sends a response with a complete body.
pub(super) fn send_whole(
    answering: Responder,
    start: Start,
    data: Bytes,
    is_head: bool,
) -> PyResult<()> {
    let carries_content = !is_head && !matches!(start.status, 204 | 304);
    let is_unwanted = answering.is_unwanted();
    if let Some(length) = start.length
        && carries_content
        && length != data.len() as u64
    {
        let shorter = (data.len() as u64) < length;
        return Err(wrong_length(if shorter { "shorter" } else { "longer" }));
    }
    answering.respond(start.status, start.headers, data);
    if is_unwanted { Err(disconnected()) } else { Ok(()) }
}

/// Sends the head of a response whose body follows in pieces.
pub(super) fn start_stream(answering: Responder, start: Start) -> Streaming {
    let Start { status, headers, length, trailers } = start;
    let sending = answering.stream(status, headers, length);
    Streaming { sending, left: length, trailers }
}

/// Sends a piece, whether there is room for it or not.
pub(super) fn push(
    response: &mut ResponseState,
    mut streaming: Streaming,
    data: Bytes,
    more: bool,
    is_head: bool,
) -> PyResult<()> {
    if let Some(left) = &mut streaming.left
        && !is_head
    {
        match left.checked_sub(data.len() as u64) {
            Some(rest) if more || rest == 0 => *left = rest,
            Some(_) => return Err(wrong_length("shorter")),
            None => return Err(wrong_length("longer")),
        }
    }
    if streaming.sending.is_unwanted() {
        *response = ResponseState::Streaming(streaming);
        return Err(disconnected());
    }
    // The response to HEAD has no content.
    if !data.is_empty() && !is_head {
        streaming.sending.push(Frame::Data(data));
    }
    if more {
        *response = ResponseState::Streaming(streaming);
        return Ok(());
    }
    if streaming.trailers {
        *response = ResponseState::Trailing(streaming.sending, Headers::new());
    } else {
        streaming.sending.finish(None);
        *response = ResponseState::Done;
    }
    Ok(())
}
