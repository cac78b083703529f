//! Access to the bytes of Python objects, without a copy where that is sound.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView};

/// Calls `with` with the bytes of a `bytes`, `bytearray` or `memoryview`. `what` names the object
/// in the error.
pub(crate) fn with_bytes<R>(
    object: &Bound<'_, PyAny>,
    what: &str,
    with: impl FnOnce(&[u8]) -> R,
) -> PyResult<R> {
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(with(bytes.as_bytes()));
    }
    if object.is_instance_of::<PyByteArray>() || object.is_instance_of::<PyMemoryView>() {
        // Python copies it, because its owner could change it during the call.
        let copy = PyModule::import(object.py(), "builtins")?.getattr("bytes")?.call1((object,))?;
        return Ok(with(copy.cast::<PyBytes>()?.as_bytes()));
    }
    let name = object.get_type().name()?;
    Err(PyTypeError::new_err(format!("{what} must be bytes, not {name}")))
}
