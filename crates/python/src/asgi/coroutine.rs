//! Steps of coroutines and other awaitables.

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::{ffi, intern};

/// The result of a step.
pub(super) enum Step {
    Yielded(Py<PyAny>),
    Returned,
}

/// Resumes a coroutine or iterator until it yields, returns or raises.
pub(super) fn step(coroutine: &Py<PyAny>, py: Python<'_>) -> PyResult<Step> {
    let mut result = std::ptr::null_mut();
    // SAFETY: the coroutine is alive and the result a local variable; a result is an owned
    // reference.
    unsafe {
        match ffi::PyIter_Send(coroutine.as_ptr(), ffi::Py_None(), &raw mut result) {
            ffi::PySendResult::PYGEN_NEXT => {
                Ok(Step::Yielded(Bound::from_owned_ptr(py, result).unbind()))
            }
            ffi::PySendResult::PYGEN_RETURN => {
                drop(Bound::from_owned_ptr(py, result));
                Ok(Step::Returned)
            }
            ffi::PySendResult::PYGEN_ERROR => Err(PyErr::fetch(py)),
        }
    }
}

/// Returns what [`step`] takes: the coroutine that an application returned, or the iterator of
/// another awaitable.
pub(super) fn of_awaitable(awaitable: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let py = awaitable.py();
    // SAFETY: the object is alive; the check reads its type.
    if unsafe { ffi::PyCoro_CheckExact(awaitable.as_ptr()) } != 0 {
        return Ok(awaitable.unbind());
    }
    match awaitable.call_method0(intern!(py, "__await__")) {
        Ok(iterator) => Ok(iterator.unbind()),
        Err(_) => {
            let name = awaitable.get_type().name()?;
            Err(PyTypeError::new_err(format!(
                "the application returned {name} instead of a coroutine: ASGI 3 applications are \
                 `async def app(scope, receive, send)`"
            )))
        }
    }
}
