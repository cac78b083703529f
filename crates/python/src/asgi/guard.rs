//! The coroutine of a session's Task: runs the application's coroutine and contains its exceptions.
//!
//! `SystemExit` and `KeyboardInterrupt` would end the event loop and every other session; here they
//! fail only their own session. A cancellation passes through.

use pyo3::exceptions::{PyKeyboardInterrupt, PyRuntimeError, PyStopIteration, PySystemExit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::coroutine::{Step, step};

#[pyclass(frozen, module = "tidegate._tidegate")]
pub(super) struct Guard(Py<PyAny>);

impl Guard {
    /// Takes a coroutine or an iterator.
    pub(super) fn new(coroutine: Py<PyAny>) -> Guard {
        Guard(coroutine)
    }

    /// Returns the object that the coroutine yields; `None` at its end.
    fn step(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        match step(&self.0, py) {
            Ok(Step::Yielded(yielded)) => Ok(Some(yielded)),
            Ok(Step::Returned) => Ok(None),
            Err(error) => Err(keep_loop_running(py, error)),
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
        thrown.map_err(|error| keep_loop_running(py, error))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.0.call_method0(py, intern!(py, "close")).map(drop)
    }
}

/// Replaces an exception that would end the event loop.
fn keep_loop_running(py: Python<'_>, error: PyErr) -> PyErr {
    let ends_all =
        error.is_instance_of::<PySystemExit>(py) || error.is_instance_of::<PyKeyboardInterrupt>(py);
    if !ends_all {
        return error;
    }
    let name = if error.is_instance_of::<PySystemExit>(py) { "SystemExit" } else { "an interrupt" };
    let contained = PyRuntimeError::new_err(format!("the application raised {name}"));
    contained.set_cause(py, Some(error));
    contained
}
