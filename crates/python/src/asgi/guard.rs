//! What a session's Task runs: the application's coroutine, and a bound around what it may raise.
//!
//! `SystemExit` and `KeyboardInterrupt` would end the event loop, and with it every other session:
//! they fail the session alone. Cancelling passes through.

use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyStopIteration, PySystemExit};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// The coroutine.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(super) struct Guard(Py<PyAny>);

impl Guard {
    /// Of what can be stepped.
    pub(super) fn new(coroutine: Py<PyAny>) -> Guard {
        Guard(coroutine)
    }

    /// What the coroutine yields; `None` at its end.
    fn step(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let mut result = std::ptr::null_mut();
        // SAFETY: the coroutine is alive and the result is a place of ours; a result is ours.
        unsafe {
            match ffi::PyIter_Send(self.0.as_ptr(), ffi::Py_None(), &raw mut result) {
                ffi::PySendResult::PYGEN_NEXT => {
                    Ok(Some(Bound::from_owned_ptr(py, result).unbind()))
                }
                ffi::PySendResult::PYGEN_RETURN => {
                    drop(Bound::from_owned_ptr(py, result).unbind());
                    Ok(None)
                }
                ffi::PySendResult::PYGEN_ERROR => Err(bounded(py, PyErr::fetch(py))),
            }
        }
    }
}

#[pymethods]
impl Guard {
    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.step(py)
    }

    fn send(&self, py: Python<'_>, _sent: Py<PyAny>) -> PyResult<Py<PyAny>> {
        self.step(py)?.ok_or_else(|| PyStopIteration::new_err(()))
    }

    #[pyo3(signature = (*arguments))]
    fn throw(&self, py: Python<'_>, arguments: Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        let thrown = self.0.call_method1(py, intern!(py, "throw"), arguments);
        thrown.map_err(|error| bounded(py, error))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.call_method0(py, intern!(py, "close")).map(drop)
    }
}

/// The error, or one that ends no more than the session.
fn bounded(py: Python<'_>, error: PyErr) -> PyErr {
    let ends_all =
        error.is_instance_of::<PySystemExit>(py) || error.is_instance_of::<PyKeyboardInterrupt>(py);
    if !ends_all {
        return error;
    }
    let name = if error.is_instance_of::<PySystemExit>(py) { "SystemExit" } else { "an interrupt" };
    let bounded = PyRuntimeError::new_err(format!("the application raised {name}"));
    bounded.set_cause(py, Some(error));
    bounded
}
