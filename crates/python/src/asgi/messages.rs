//! Parses the messages that applications send, and builds the events that they receive.

use bytes::Bytes;
use message::Headers;
use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString, PyTuple};

use crate::bytes::with_bytes;
use crate::fields::append;

/// The head of a response.
pub(super) struct Start {
    pub(super) status: u16,
    pub(super) headers: Headers,
    /// Content-Length, if the application declared it.
    pub(super) length: Option<u64>,
    /// True if trailers follow the body.
    pub(super) trailers: bool,
}

/// Returns the argument of `send` as a dictionary, and its type.
pub(super) fn message<'a, 'py>(
    object: &'a Bound<'py, PyAny>,
) -> PyResult<(&'a Bound<'py, PyDict>, Bound<'py, PyString>)> {
    let py = object.py();
    let message = object.cast::<PyDict>().map_err(|_| {
        PyTypeError::new_err(
            "send() takes a dictionary, such as {\"type\": \"http.response.start\"}",
        )
    })?;
    let kind = message
        .get_item(intern!(py, "type"))?
        .ok_or_else(|| PyKeyError::new_err("the message has no \"type\""))?;
    let kind = kind
        .cast_into::<PyString>()
        .map_err(|_| PyTypeError::new_err("the \"type\" of a message must be a str"))?;
    Ok((message, kind))
}

/// The exception for a message that is not allowed now.
pub(super) fn unexpected(kind: &Bound<'_, PyString>, reason: &str) -> PyErr {
    PyRuntimeError::new_err(format!("ASGI message '{kind}' is not allowed here: {reason}"))
}

/// Parses `http.response.start` or `websocket.http.response.start`.
pub(super) fn start(message: &Bound<'_, PyDict>) -> PyResult<Start> {
    let py = message.py();
    let status = message
        .get_item(intern!(py, "status"))?
        .ok_or_else(|| PyKeyError::new_err("the start of a response has no \"status\""))?;
    let status: u16 = status.extract()?;
    if !(200..=599).contains(&status) {
        return Err(PyValueError::new_err(format!("{status} is not a status of a final response")));
    }
    let mut headers = Headers::new();
    let length = fields(message.get_item(intern!(py, "headers"))?, &mut headers)?;
    let trailers = flag(message, intern!(py, "trailers"))?;
    Ok(Start { status, headers, length, trailers })
}

/// Appends a list of pairs of bytes to `headers`; returns the value of Content-Length.
pub(super) fn fields(
    given: Option<Bound<'_, PyAny>>,
    headers: &mut Headers,
) -> PyResult<Option<u64>> {
    let Some(given) = given.filter(|given| !given.is_none()) else { return Ok(None) };
    let mut length = None;
    if let Ok(list) = given.cast::<PyList>() {
        for pair in list {
            field(&pair, headers, &mut length)?;
        }
    } else {
        for pair in given.try_iter()? {
            field(&pair?, headers, &mut length)?;
        }
    }
    Ok(length)
}

fn field(pair: &Bound<'_, PyAny>, headers: &mut Headers, length: &mut Option<u64>) -> PyResult<()> {
    let (name, value) = match pair.cast::<PyTuple>() {
        Ok(pair) if pair.len() == 2 => (pair.get_item(0)?, pair.get_item(1)?),
        _ => pair_items(pair)?,
    };
    match (name.cast::<PyBytes>(), value.cast::<PyBytes>()) {
        (Ok(name), Ok(value)) => append(name.as_bytes(), value.as_bytes(), headers, length),
        _ => with_bytes(&name, "the name of a header", |name| {
            with_bytes(&value, "the value of a header", |value| {
                append(name, value, headers, length)
            })
        })??,
    }
}

/// The two items of a pair that is not a tuple, such as a list.
fn pair_items<'py>(pair: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let mut items = pair.try_iter().into_iter().flatten();
    match (items.next(), items.next(), items.next()) {
        (Some(name), Some(value), None) => Ok((name?, value?)),
        _ => {
            let detail = "a header must be a pair of bytes, its name and its value";
            Err(PyTypeError::new_err(detail))
        }
    }
}

/// Parses `http.response.body` or `websocket.http.response.body`: a piece, and whether more follow.
pub(super) fn body(message: &Bound<'_, PyDict>) -> PyResult<(Bytes, bool)> {
    let py = message.py();
    let data = match message.get_item(intern!(py, "body"))? {
        Some(body) => with_bytes(&body, "the body of a response", Bytes::copy_from_slice)?,
        None => Bytes::new(),
    };
    Ok((data, flag(message, intern!(py, "more_body"))?))
}

/// A Boolean field, false by default.
pub(super) fn flag(message: &Bound<'_, PyDict>, name: &Bound<'_, PyString>) -> PyResult<bool> {
    message.get_item(name)?.map_or(Ok(false), |value| value.is_truthy())
}

/// `http.request`.
pub(super) fn request<'py>(
    py: Python<'py>,
    body: &[u8],
    more: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let event = PyDict::new(py);
    event.set_item(intern!(py, "type"), intern!(py, "http.request"))?;
    event.set_item(intern!(py, "body"), PyBytes::new(py, body))?;
    event.set_item(intern!(py, "more_body"), more)?;
    Ok(event.into_any())
}

/// `http.disconnect`.
pub(super) fn disconnect(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    let event = PyDict::new(py);
    event.set_item(intern!(py, "type"), intern!(py, "http.disconnect"))?;
    Ok(event.into_any())
}
