//! A `receive` or `send` that fails: the error comes to whoever awaits it.
//!
//! As with a coroutine, and not from the call: what gathers the awaitables of many calls would not
//! expect an exception there.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::gil::GilCell;

/// The awaitable; it raises once.
#[pyclass(frozen, module = "tidegate._tidegate")]
struct Failed(GilCell<Option<PyErr>>);

/// What a call has come to, as an awaitable.
pub(super) fn awaited<'py>(
    py: Python<'py>,
    outcome: PyResult<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    outcome.or_else(|error| Ok(Bound::new(py, Failed(GilCell::new(Some(error))))?.into_any()))
}

#[pymethods]
impl Failed {
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
