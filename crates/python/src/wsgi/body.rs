//! Sends the body that an application returns: PEP 3333, "Buffering and Streaming".
//!
//! Promises that each piece is sent before the next one is requested from the application.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::file::{self, FileWrapper};
use super::functions::body_bytes;
use super::limits::JOINED_BYTES;
use super::pool_thread::with_current;
use super::reply::{AfterPiece, Reply};

/// Sends the pieces of `result`.
pub(super) fn send(reply: &Reply, result: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = result.py();
    if let Ok(list) = result.cast_exact::<PyList>() {
        if list.len() == 1 {
            return send_only_piece(py, reply, &list.get_item(0)?);
        }
        let items: Vec<_> = list.iter().collect();
        return several(py, reply, &items);
    }
    if let Ok(tuple) = result.cast_exact::<PyTuple>() {
        let items: Vec<_> = tuple.iter().collect();
        return several(py, reply, &items);
    }
    if let Ok(wrapper) = result.cast_exact::<FileWrapper>()
        && file::send(reply, wrapper)?
    {
        return Ok(());
    }
    iterate(reply, result)
}

fn send_only_piece(py: Python<'_>, reply: &Reply, item: &Bound<'_, PyAny>) -> PyResult<()> {
    let data = body_bytes(item)?.as_bytes();
    if !data.is_empty() {
        reply.piece(py, data, true)?;
    }
    Ok(())
}

/// Sends the pieces of a list or tuple, which all exist already.
fn several(py: Python<'_>, reply: &Reply, items: &[Bound<'_, PyAny>]) -> PyResult<()> {
    let pieces: Vec<&[u8]> =
        items.iter().map(|item| Ok(body_bytes(item)?.as_bytes())).collect::<PyResult<_>>()?;
    let length: usize = pieces.iter().map(|piece| piece.len()).sum();
    if length > 0 && length <= JOINED_BYTES {
        return reply.piece(py, &pieces.concat(), true).map(drop);
    }
    for piece in pieces {
        if !piece.is_empty() && reply.piece(py, piece, false)? == AfterPiece::Stop {
            break;
        }
    }
    Ok(())
}

fn iterate(reply: &Reply, result: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = result.py();
    let is_whole = length(result)? == Some(1);
    for item in result.try_iter()? {
        let item = item?;
        let data = body_bytes(&item)?.as_bytes();
        if data.is_empty() {
            if reply.is_unwanted() {
                break;
            }
            continue;
        }
        if reply.piece(py, data, is_whole)? == AfterPiece::Stop {
            break;
        }
        with_current(|thread| thread.set_progress(net::clock::precise_us()));
    }
    Ok(())
}

/// The number of pieces, if the object's type has a length.
fn length(result: &Bound<'_, PyAny>) -> PyResult<Option<usize>> {
    // SAFETY: the type of a living object; its tables are null or live as long as it does.
    let has_length = unsafe {
        let kind = ffi::Py_TYPE(result.as_ptr());
        let (sequence, mapping) = ((*kind).tp_as_sequence, (*kind).tp_as_mapping);
        !sequence.is_null() && (*sequence).sq_length.is_some()
            || !mapping.is_null() && (*mapping).mp_length.is_some()
    };
    if has_length { result.len().map(Some) } else { Ok(None) }
}

/// Calls the `close` of a `result` that has one.
pub(super) fn close(result: &Bound<'_, PyAny>) -> PyResult<()> {
    if result.is_exact_instance_of::<PyList>() || result.is_exact_instance_of::<PyTuple>() {
        return Ok(());
    }
    match result.getattr_opt(pyo3::intern!(result.py(), "close"))? {
        Some(close) => close.call0().map(drop),
        None => Ok(()),
    }
}
