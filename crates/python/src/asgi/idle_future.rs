//! The object that the Task of an idle request loop awaits.
//!
//! A Task that awaits an object passes it the function that resumes the Task
//! (`add_done_callback`). With that function a drain resumes the Task directly, without a future, a
//! handle and an iteration of the event loop. Implements what `asyncio.Task` requires of a future
//! and nothing more.

use std::sync::Arc;

use pyo3::exceptions::asyncio::CancelledError;
use pyo3::prelude::*;

use crate::gil::{GilCell, GilFlag};

/// Maximum number of idle Tasks.
const IDLE_MAX: usize = 64;

/// The idle request loops.
#[derive(Default)]
pub(super) struct IdleList(GilCell<Vec<Py<IdleFuture>>>);

impl IdleList {
    pub(super) fn is_full(&self) -> bool {
        self.0.get().len() >= IDLE_MAX
    }

    pub(super) fn pop(&self) -> Option<Py<IdleFuture>> {
        self.0.get().pop()
    }
}

#[pyclass(frozen, module = "tidegate._tidegate")]
pub(super) struct IdleFuture {
    event_loop: Py<PyAny>,
    list: Arc<IdleList>,
    /// `asyncio.Task` sets it to detect that a future is awaited with `await`.
    blocking: GilFlag<bool>,
    cancelled: GilFlag<bool>,
    /// The function that resumes the Task.
    resume: GilCell<Option<Py<PyAny>>>,
}

impl IdleFuture {
    pub(super) fn new(event_loop: Py<PyAny>, list: Arc<IdleList>) -> IdleFuture {
        IdleFuture {
            event_loop,
            list,
            blocking: GilFlag::new(true),
            cancelled: GilFlag::new(false),
            resume: GilCell::default(),
        }
    }

    /// Prepares for the next `await`.
    pub(super) fn reset(&self) {
        self.blocking.set(true);
    }

    /// Resumes the Task immediately. Must not be called inside another Task.
    pub(super) fn resume(slf: &Bound<'_, Self>) -> PyResult<()> {
        let resume = slf.get().resume.take();
        match resume {
            Some(resume) => resume.call1(slf.py(), (slf,)).map(drop),
            None => Ok(()),
        }
    }
}

#[pymethods]
impl IdleFuture {
    #[getter(_asyncio_future_blocking)]
    fn blocking(&self) -> bool {
        self.blocking.get()
    }

    #[setter(_asyncio_future_blocking)]
    fn set_blocking(&self, blocking: bool) {
        self.blocking.set(blocking);
    }

    fn get_loop(&self, py: Python<'_>) -> Py<PyAny> {
        self.event_loop.clone_ref(py)
    }

    #[pyo3(signature = (callback, *, context = None))]
    fn add_done_callback(slf: &Bound<'_, Self>, callback: Py<PyAny>, context: Option<Py<PyAny>>) {
        drop(context); // the Task enters its own
        let this = slf.get();
        let before = this.resume.get().replace(callback);
        if before.is_none() {
            this.list.0.get().push(slf.clone().unbind());
        }
    }

    fn result(&self) -> PyResult<()> {
        match self.cancelled.get() {
            true => Err(CancelledError::new_err(())),
            false => Ok(()),
        }
    }

    fn done(&self) -> bool {
        self.cancelled.get()
    }

    fn cancelled(&self) -> bool {
        self.cancelled.get()
    }

    /// Cancels the wait: the event loop resumes the Task, which receives the CancelledError.
    #[pyo3(signature = (msg = None))]
    fn cancel(slf: &Bound<'_, Self>, msg: Option<Py<PyAny>>) -> PyResult<bool> {
        drop(msg);
        let this = slf.get();
        this.cancelled.set(true);
        this.list.0.get().retain(|idle| !idle.is(slf));
        let resume = this.resume.take();
        if let Some(resume) = resume {
            this.event_loop.call_method1(slf.py(), "call_soon", (resume, slf))?;
        }
        Ok(true)
    }
}
