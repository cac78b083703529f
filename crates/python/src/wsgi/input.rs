//! `wsgi.input`: PEP 3333, "Input and Error Streams".
//!
//! The whole body is in memory or in a file before a thread takes the request. Only a body that
//! another process forwards may still be arriving; then reading waits without the GIL.

mod source;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use crate::gil::GilCell;
pub(super) use source::Source;

#[pyclass(frozen, freelist = 64, module = "tidegate._tidegate")]
pub(super) struct Input(GilCell<Source>);

impl Input {
    pub(super) fn new(source: Source) -> Input {
        Input(GilCell::new(source))
    }

    /// Calls `with` for the unread part. The part is moved out for that time, because `with` may
    /// release the GIL; another thread that reads at the same time gets nothing.
    fn with<R>(&self, with: impl FnOnce(&mut Source) -> PyResult<R>) -> PyResult<R> {
        let mut source = self.0.take();
        let result = with(&mut source);
        *self.0.get() = source;
        result
    }
}

/// Converts a size argument of Python's file objects: `None` or a negative size means no limit.
fn limit(size: Option<isize>) -> usize {
    size.and_then(|size| usize::try_from(size).ok()).unwrap_or(usize::MAX)
}

#[pymethods]
impl Input {
    #[pyo3(signature = (size = None, /))]
    fn read<'py>(&self, py: Python<'py>, size: Option<isize>) -> PyResult<Bound<'py, PyBytes>> {
        self.with(|source| source.read(py, limit(size)))
    }

    #[pyo3(signature = (size = None, /))]
    fn readline<'py>(&self, py: Python<'py>, size: Option<isize>) -> PyResult<Bound<'py, PyBytes>> {
        self.with(|source| source.line(py, limit(size)))
    }

    /// Returns all lines, or with a hint, lines until their total length reaches it.
    #[pyo3(signature = (hint = None, /))]
    fn readlines<'py>(&self, py: Python<'py>, hint: Option<isize>) -> PyResult<Bound<'py, PyList>> {
        let most = limit(hint.filter(|hint| *hint > 0));
        let lines = PyList::empty(py);
        let mut length = 0;
        while length < most {
            let line = self.with(|source| source.line(py, usize::MAX))?;
            if line.as_bytes().is_empty() {
                break;
            }
            length += line.as_bytes().len();
            lines.append(line)?;
        }
        Ok(lines)
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let line = self.with(|source| source.line(py, usize::MAX))?;
        Ok(if line.as_bytes().is_empty() { None } else { Some(line) })
    }

    /// Does nothing: the server discards the unread part.
    fn close(&self) {}
}
