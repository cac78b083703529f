//! The application and what its threads share.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::environ::Environs;
use super::thread_pool::ThreadPool;
use crate::app_status::AppStatus;

pub(super) struct Application {
    pub(super) status: Arc<AppStatus>,
    pub(super) pool: Arc<ThreadPool>,
    pub(super) callable: Py<PyAny>,
    pub(super) environs: Environs,
    pub(super) threads_max: usize,
    /// Called with an exception that the application raised, and the environ of its request.
    pub(super) report: Py<PyAny>,
    /// Called with a description of a violation of WSGI.
    pub(super) complain: Py<PyAny>,
}

impl Application {
    /// Runs `with` without the GIL, and measures how long taking it back lasts.
    pub(super) fn without_gil<R: Send>(
        &self,
        py: Python<'_>,
        with: impl FnOnce() -> R + Send,
    ) -> R {
        let (result, done_us) = py.detach(|| (with(), net::clock::precise_us()));
        let waited_us = net::clock::precise_us().saturating_sub(done_us);
        self.status.metrics.gil_wait.record_us(waited_us);
        result
    }

    /// Logs an exception of the application, and records it if a request raised it.
    pub(super) fn report(
        &self,
        py: Python<'_>,
        error: &PyErr,
        environ: Option<&Bound<'_, PyDict>>,
    ) {
        // Before CPython 3.12 a PyErr stores its traceback separately; `into_value` attaches it.
        let error = error.clone_ref(py).into_value(py);
        if let Err(failed) = self.report.bind(py).call1((error, environ)) {
            failed.write_unraisable(py, None);
        }
    }

    /// Logs a violation of WSGI by the application.
    pub(super) fn log_violation(&self, py: Python<'_>, problem: &str) -> PyResult<()> {
        self.complain.bind(py).call1((problem,)).map(drop)
    }
}
