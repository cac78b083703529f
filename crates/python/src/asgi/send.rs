//! `send(message)`: the response, as the application builds it.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use exchange::offload::{Answering, Gone};
use exchange::{Frame, Headers};
use net::FileRange;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use wire::Known;

use super::exchange::{Answer, Exchange, Streaming};
use super::messages::{Start, fields, flag, message, start, unexpected};
use super::wait::{What, wait};
use crate::bytes::with_bytes;

pyo3::create_exception!(
    tidegate,
    ClientDisconnected,
    PyOSError,
    "Nobody is left to send to: the client has gone."
);

/// Nobody is left to send to.
pub(super) fn gone() -> PyErr {
    ClientDisconnected::new_err("the client has disconnected")
}

/// Whether an application failed because of that: it or its framework passed our error on.
pub(super) fn is_of_gone(py: Python<'_>, error: &PyErr) -> bool {
    let is_ours = |error: &PyErr| error.is_instance_of::<ClientDisconnected>(py);
    let mut next = Some(error.clone_ref(py));
    // A chain may be a circle.
    for _ in 0..CHAIN_MAX {
        let Some(error) = next else { return false };
        if is_ours(&error) {
            return true;
        }
        next = error.cause(py).or_else(|| error.context(py));
    }
    false
}

/// Errors that led to one another and are looked at.
const CHAIN_MAX: usize = 8;

/// Where the application promised more or less than it sends.
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
        if slf.get().is_over() {
            // "any further messages on the channel will be ignored"
            let failed = slf.get().failure().is_some();
            return if failed { Err(gone()) } else { Exchange::sent(py) };
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
            _ => return Err(unexpected(&kind, "it is no message of a response")),
        }
        Exchange::sent(py)
    }

    /// Whether the response is complete, or has become impossible.
    fn is_over(&self) -> bool {
        matches!(self.state.get().answer, Answer::Done)
    }

    fn start(&self, message: &Bound<'_, PyDict>, kind: &Bound<'_, PyString>) -> PyResult<()> {
        let start = start(message)?;
        let mut state = self.state.get();
        match std::mem::replace(&mut state.answer, Answer::Done) {
            Answer::Open(answering) => {
                let is_gone = answering.is_unwanted();
                state.answer = Answer::Headed(answering, start);
                if is_gone { Err(gone()) } else { Ok(()) }
            }
            other => {
                state.answer = other;
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
        let answer = std::mem::replace(&mut state.answer, Answer::Done);
        let next = match answer {
            Answer::Headed(answering, start) if !more && !start.trailers => {
                whole(answering, start, data, is_head)?;
                drop(state);
                this.complete(py);
                return Exchange::sent(py);
            }
            Answer::Headed(answering, start) => begin(answering, start),
            Answer::Streaming(streaming) => streaming,
            other => {
                let why = match &other {
                    Answer::Trailing(..) => "its trailers are due",
                    _ => "http.response.start comes first",
                };
                state.answer = other;
                return Err(unexpected(kind, why));
            }
        };
        let full = push(&mut state.answer, next, data, more, is_head)?;
        let is_done = matches!(state.answer, Answer::Done);
        drop(state);
        if is_done {
            this.complete(py);
        }
        if full { wait(slf.clone().unbind(), py, What::Room) } else { Exchange::sent(py) }
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
            let why = format!("{} is no absolute path", path.display());
            return Err(PyValueError::new_err(why));
        }
        let file = File::open(&path)?;
        let about = file.metadata()?;
        if !about.is_file() {
            let why = format!("{} is no regular file", path.display());
            return Err(PyOSError::new_err(why));
        }
        let mut state = self.state.get();
        match std::mem::replace(&mut state.answer, Answer::Done) {
            Answer::Headed(answering, mut start) => {
                start.length.get_or_insert(about.len());
                let range = FileRange { file: Arc::new(file), offset: 0, length: about.len() };
                let Streaming { mut sending, left, .. } = begin(answering, start);
                if left != Some(about.len()) && !state.is_head {
                    return Err(wrong_length("of another length"));
                }
                sending.push(Frame::File(range));
                sending.finish(None);
            }
            other => {
                state.answer = other;
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
        let more = flag(message, intern!(py, "more_trailers"))?;
        let mut state = self.state.get();
        match std::mem::replace(&mut state.answer, Answer::Done) {
            Answer::Trailing(sending, mut trailers) => {
                for field in more_fields.iter() {
                    trailers.append(field.name, field.value);
                }
                if more {
                    state.answer = Answer::Trailing(sending, trailers);
                    return Ok(());
                }
                // "only ... in case the client has sent TE: trailers"
                sending.finish(state.takes_trailers.then_some(trailers));
            }
            other => {
                state.answer = other;
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
        // Behind the head it is too late; the text allows it all the same.
        if let Answer::Open(answering) | Answer::Headed(answering, _) = &self.state.get().answer {
            answering.inform(103, headers);
        }
        Ok(())
    }
}

/// Answers with a body that is all there.
pub(super) fn whole(
    answering: Answering,
    start: Start,
    data: Bytes,
    is_head: bool,
) -> PyResult<()> {
    let carries_content = !is_head && !matches!(start.status, 204 | 304);
    let is_gone = answering.is_unwanted();
    if let Some(length) = start.length
        && carries_content
        && length != data.len() as u64
    {
        let shorter = (data.len() as u64) < length;
        return Err(wrong_length(if shorter { "shorter" } else { "longer" }));
    }
    answering.whole(start.status, start.headers, data);
    if is_gone { Err(gone()) } else { Ok(()) }
}

pub(super) fn begin(answering: Answering, start: Start) -> Streaming {
    let Start { status, headers, length, trailers } = start;
    let sending = answering.stream(status, headers, length);
    Streaming { sending, left: length, trailers }
}

/// Sends a piece; whether the application has to wait before it sends the next.
pub(super) fn push(
    answer: &mut Answer,
    mut streaming: Streaming,
    data: Bytes,
    more: bool,
    is_head: bool,
) -> PyResult<bool> {
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
        *answer = Answer::Streaming(streaming);
        return Err(gone());
    }
    // What a HEAD would have been answered with is of no use to anybody.
    if !data.is_empty() && !is_head {
        streaming.sending.push(Frame::Data(data));
    }
    if more {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let room = streaming.sending.poll_ready(&mut cx);
        *answer = Answer::Streaming(streaming);
        return match room {
            std::task::Poll::Ready(Ok(())) => Ok(false),
            std::task::Poll::Ready(Err(Gone)) => Err(gone()),
            std::task::Poll::Pending => Ok(true),
        };
    }
    if streaming.trailers {
        *answer = Answer::Trailing(streaming.sending, Headers::new());
    } else {
        streaming.sending.finish(None);
        *answer = Answer::Done;
    }
    Ok(false)
}
