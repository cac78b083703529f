//! The arguments of `start_response`: PEP 3333, "The start_response() Callable".

use message::Headers;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};
use wire::Known;

use super::text::bytes;
use crate::fields::{append, check_hint};

/// The head of a response.
pub(super) struct Start {
    pub(super) status: u16,
    /// The reason phrase, if it differs from the registered one.
    pub(super) reason: Option<Box<[u8]>>,
    pub(super) headers: Headers,
    /// Content-Length, if the application declared it.
    pub(super) length: Option<u64>,
}

impl Start {
    pub(super) fn read(status: &Bound<'_, PyAny>, fields: &Bound<'_, PyAny>) -> PyResult<Start> {
        let (status, reason) = read_status(status)?;
        let (headers, length) = read_fields(fields)?;
        Ok(Start { status, reason, headers, length })
    }

    /// False for a status that allows no content (RFC 9110 15.3.5, 15.4.5).
    pub(super) fn carries_content(&self) -> bool {
        !matches!(self.status, 204 | 304)
    }
}

/// Parses the argument of `wsgi.early_hints`: fields as those of `start_response`.
pub(super) fn read_hint(fields: &Bound<'_, PyAny>) -> PyResult<Headers> {
    let (headers, _) = read_fields(fields)?;
    check_hint(&headers)?;
    Ok(headers)
}

/// Reads pairs of names and values; returns the value of Content-Length as well.
fn read_fields(fields: &Bound<'_, PyAny>) -> PyResult<(Headers, Option<u64>)> {
    let mut headers = Headers::new();
    let mut length = None;
    if let Ok(list) = fields.cast::<PyList>() {
        for pair in list {
            field(&pair, &mut headers, &mut length)?;
        }
    } else {
        for pair in fields.try_iter()? {
            field(&pair?, &mut headers, &mut length)?;
        }
    }
    Ok((headers, length))
}

/// Parses "200 OK": three digits and, after a space, a phrase.
fn read_status(status: &Bound<'_, PyAny>) -> PyResult<(u16, Option<Box<[u8]>>)> {
    let given = latin(status, "the status")?;
    let line = bytes(&given).unwrap_or_default();
    let (digits, rest) = line.split_at(line.len().min(3));
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u16>().ok());
    let is_phrase = rest.is_empty() || rest[0] == b' ' && !rest.iter().any(u8::is_ascii_control);
    match number {
        Some(status @ 200..=599) if is_phrase => {
            let phrase = rest.get(1..).unwrap_or_default();
            let is_own = !phrase.is_empty() && phrase != wire::h1::reason(status).as_bytes();
            Ok((status, is_own.then(|| phrase.into())))
        }
        _ => Err(PyValueError::new_err(format!(
            "{:?} is not a valid status: expected a string such as '200 OK'",
            given.to_string_lossy()
        ))),
    }
}

fn field(pair: &Bound<'_, PyAny>, headers: &mut Headers, length: &mut Option<u64>) -> PyResult<()> {
    let pair = pair.cast::<PyTuple>().ok().filter(|pair| pair.len() == 2).ok_or_else(|| {
        PyTypeError::new_err("a header must be a tuple of two str, its name and its value")
    })?;
    let name = latin(&pair.get_item(0)?, "the name of a header")?;
    let value = latin(&pair.get_item(1)?, "the value of a header")?;
    let name = bytes(&name).unwrap_or_default();
    if is_hop_by_hop(name) {
        return Err(PyValueError::new_err(format!(
            "the header {:?} is hop-by-hop: only the server may set it",
            String::from_utf8_lossy(name)
        )));
    }
    append(name, bytes(&value).unwrap_or_default(), headers, length)
}

/// PEP 3333, "Other HTTP Features": the fields of RFC 2616 13.5.1, and other framing fields.
fn is_hop_by_hop(name: &[u8]) -> bool {
    match Known::from_bytes(name) {
        Some(Known::ProxyAuthenticate | Known::ProxyAuthorization) => true,
        Some(known) => known.is_hop_by_hop(),
        None => name.eq_ignore_ascii_case(b"trailers"),
    }
}

/// A `str` that is encodable in Latin-1.
fn latin<'py>(given: &Bound<'py, PyAny>, what: &str) -> PyResult<Bound<'py, PyString>> {
    let Ok(text) = given.cast::<PyString>() else {
        let kind = given.get_type().name()?;
        return Err(PyTypeError::new_err(format!("{what} must be a str, not {kind}")));
    };
    match bytes(text) {
        Some(_) => Ok(text.clone()),
        None => Err(PyValueError::new_err(format!(
            "{what} must contain only Latin-1 characters: {:?}",
            text.to_string_lossy()
        ))),
    }
}
