//! Text of WSGI: `str` that holds bytes, one for each character (PEP 3333, "Unicode Issues").

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// Bytes as text.
pub(super) fn text<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyString>> {
    // SAFETY: the pointer and the length are those of the slice; the result is new, or null with an
    // error set.
    unsafe {
        let length = bytes.len() as ffi::Py_ssize_t;
        let text = ffi::PyUnicode_DecodeLatin1(bytes.as_ptr().cast(), length, std::ptr::null());
        Ok(Bound::from_owned_ptr_or_err(py, text)?.cast_into_unchecked())
    }
}

/// The bytes of a text; none where a character is no byte.
pub(super) fn bytes<'a>(text: &'a Bound<'_, PyString>) -> Option<&'a [u8]> {
    let object = text.as_ptr();
    // SAFETY: the object is a `str` and keeps its characters as they are for as long as it lives;
    // where it says that they are of one byte, there are as many bytes as it is long.
    unsafe {
        if ffi::PyUnicode_KIND(object) != ffi::PyUnicode_1BYTE_KIND {
            return None;
        }
        let length = usize::try_from(ffi::PyUnicode_GetLength(object)).ok()?;
        Some(std::slice::from_raw_parts(ffi::PyUnicode_1BYTE_DATA(object), length))
    }
}
