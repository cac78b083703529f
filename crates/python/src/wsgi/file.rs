//! `wsgi.file_wrapper`: PEP 3333, "Optional Platform-Specific File Handling".
//!
//! A regular file is sent with `sendfile`. That applies only to file objects whose descriptor holds
//! the bytes that `read` returns: not to a `gzip.GzipFile`, which has a descriptor too.

use std::fs::File;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::Arc;

use net::FileRange;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use super::limits::FILE_BLOCK_BYTES;
use super::reply::Reply;

#[pyclass(frozen, module = "tidegate._tidegate")]
pub(super) struct FileWrapper {
    #[pyo3(get)]
    filelike: Py<PyAny>,
    #[pyo3(get)]
    blksize: usize,
}

#[pymethods]
impl FileWrapper {
    #[new]
    #[pyo3(signature = (filelike, block_size = FILE_BLOCK_BYTES))]
    fn new(filelike: Py<PyAny>, block_size: usize) -> FileWrapper {
        FileWrapper { filelike, blksize: block_size }
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let block = self.filelike.bind(py).call_method1(intern!(py, "read"), (self.blksize,))?;
        Ok(if block.is_truthy()? { Some(block) } else { None })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match self.filelike.bind(py).getattr_opt(intern!(py, "close"))? {
            Some(close) => close.call0().map(drop),
            None => Ok(()),
        }
    }
}

/// Sends the wrapped object with `sendfile` if it is a regular file; returns whether it was.
pub(super) fn send(reply: &Reply, wrapper: &Bound<'_, FileWrapper>) -> PyResult<bool> {
    send_file(reply, wrapper.get().filelike.bind(wrapper.py()))
}

/// Sends the rest of a regular file with `sendfile`; returns whether it is one.
pub(super) fn send_file(reply: &Reply, file: &Bound<'_, PyAny>) -> PyResult<bool> {
    let Some(range) = rest_of(file)? else { return Ok(false) };
    Ok(reply.file(file.py(), range)?.is_some())
}

/// The unread part of a regular file. An error here occurs again when the file is read.
fn rest_of(file: &Bound<'_, PyAny>) -> PyResult<Option<FileRange>> {
    let py = file.py();
    let [raw, reader, random] = kinds(py)?;
    let kind = file.get_type();
    let is_random = kind.is(random);
    if kind.is(reader) || is_random {
        let unbuffered = file.getattr(intern!(py, "raw"))?;
        if !unbuffered.get_type().is(raw) {
            return Ok(None);
        }
    } else if !kind.is(raw) {
        return Ok(None);
    }
    if is_random {
        file.call_method0(intern!(py, "flush"))?;
    }
    let number: i32 = file.call_method0(intern!(py, "fileno"))?.extract()?;
    let Ok(at) = file.call_method0(intern!(py, "tell")) else { return Ok(None) };
    let at: u64 = at.extract()?;
    // SAFETY: duplicates the descriptor; an invalid number fails.
    let own = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if own < 0 {
        return Ok(None);
    }
    // SAFETY: the call has just returned it, so it has no other owner.
    let own = File::from(unsafe { OwnedFd::from_raw_fd(own) });
    let regular = own.metadata().ok().filter(std::fs::Metadata::is_file);
    let length = regular.and_then(|about| about.len().checked_sub(at));
    Ok(length.map(|length| FileRange { file: Arc::new(own), offset: at, length }))
}

/// `io.FileIO` and its buffering wrappers.
fn kinds(py: Python<'_>) -> PyResult<&[Py<PyType>; 3]> {
    static KINDS: PyOnceLock<[Py<PyType>; 3]> = PyOnceLock::new();
    KINDS.get_or_try_init(py, || {
        let io = PyModule::import(py, "io")?;
        let kind = |name| Ok::<_, PyErr>(io.getattr(name)?.cast_into::<PyType>()?.unbind());
        Ok([kind("FileIO")?, kind("BufferedReader")?, kind("BufferedRandom")?])
    })
}
