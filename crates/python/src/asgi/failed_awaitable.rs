//! The awaitable of a `receive` or `send` that failed: awaiting it raises the exception.
//!
//! A coroutine behaves the same; code that gathers the awaitables of many calls does not expect an
//! exception from the call itself.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::gil::GilCell;

/// The awaitable; it raises once.
#[pyclass(frozen, module = "tidegate._tidegate")]
struct FailedAwaitable(GilCell<Option<PyErr>>);

/// Converts an exception to an awaitable that raises it.
pub(super) fn into_awaitable<'py>(
    py: Python<'py>,
    result: PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    result
        .or_else(|error| Ok(Bound::new(py, FailedAwaitable(GilCell::new(Some(error))))?.into_any()))
}

#[pymethods]
impl FailedAwaitable {
    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self) -> PyResult<Option<Py<PyAny>>> {
        let error = self.0.take();
        error.map_or(Ok(None), Err)
    }

    fn send(&self, py: Python<'_>, _sent: Py<PyAny>) -> PyResult<Py<PyAny>> {
        let error = self.0.take();
        error.map_or_else(|| Ok(py.None()), Err)
    }

    #[pyo3(signature = (*arguments))]
    fn throw(&self, arguments: Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        self.close();
        Err(PyErr::from_value(arguments.get_item(0)?))
    }

    fn close(&self) {
        drop(self.0.take());
    }
}
