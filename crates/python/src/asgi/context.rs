//! Runs code in a context of `contextvars`.

use pyo3::ffi;
use pyo3::prelude::*;

/// Calls `with` in a context, which must not be entered already.
pub(super) fn in_context<R>(
    py: Python<'_>,
    context: &Py<PyAny>,
    with: impl FnOnce() -> PyResult<R>,
) -> PyResult<R> {
    // SAFETY: the argument is alive, and the call fails if it is not a context; it is exited on
    // every path except a panic, which ends the process.
    unsafe {
        if ffi::PyContext_Enter(context.as_ptr()) != 0 {
            return Err(PyErr::fetch(py));
        }
    }
    let result = with();
    // SAFETY: it was entered above.
    if unsafe { ffi::PyContext_Exit(context.as_ptr()) } != 0 {
        return Err(PyErr::fetch(py));
    }
    result
}
