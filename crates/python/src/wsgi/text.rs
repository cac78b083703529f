//! WSGI strings: a `str` with one character per byte (PEP 3333, "Unicode Issues").

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// Decodes bytes as Latin-1.
pub(super) fn text<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyString>> {
    // SAFETY: the pointer and the length are those of the slice; the result is an owned reference,
    // or null with an error set.
    unsafe {
        let length = bytes.len() as ffi::Py_ssize_t;
        let text = ffi::PyUnicode_DecodeLatin1(bytes.as_ptr().cast(), length, std::ptr::null());
        Ok(Bound::from_owned_ptr_or_err(py, text)?.cast_into_unchecked())
    }
}

/// The bytes of a string; `None` if a character is outside Latin-1.
pub(super) fn bytes<'a>(text: &'a Bound<'_, PyString>) -> Option<&'a [u8]> {
    let object = text.as_ptr();
    // SAFETY: the object is a `str`, which is immutable; with one-byte characters its data has as
    // many bytes as the string has characters.
    unsafe {
        if ffi::PyUnicode_KIND(object) != ffi::PyUnicode_1BYTE_KIND {
            return None;
        }
        let length = usize::try_from(ffi::PyUnicode_GetLength(object)).ok()?;
        Some(std::slice::from_raw_parts(ffi::PyUnicode_1BYTE_DATA(object), length))
    }
}
