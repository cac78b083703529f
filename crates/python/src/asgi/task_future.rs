//! The object that a waiting Task awaits.
//!
//! A Task that awaits an object passes it the function that resumes the Task
//! (`add_done_callback`). With that function a drain resumes the Task directly, without a handle
//! and an iteration of the event loop. Implements what `asyncio.Task` requires of a future and
//! nothing more. The event loop resumes a Task that is cancelled, or woken inside of another Task's
//! step.

use std::sync::Arc;

use pyo3::exceptions::asyncio::CancelledError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::context::in_context;
use crate::gil::{GilCell, GilFlag};

/// Maximum number of idle Tasks.
const IDLE_MAX: usize = 64;

/// The Tasks of request loops that wait for a request.
#[derive(Default)]
pub(super) struct IdleList(GilCell<Vec<Py<TaskFuture>>>);

impl IdleList {
    pub(super) fn is_full(&self) -> bool {
        self.0.get().len() >= IDLE_MAX
    }

    pub(super) fn pop(&self) -> Option<Py<TaskFuture>> {
        self.0.get().pop()
    }
}

#[pyclass(frozen, module = "tidegate._tidegate")]
pub(super) struct TaskFuture {
    event_loop: Py<PyAny>,
    /// The list that a waiting Task is added to, if it is that of a request loop.
    list: Option<Arc<IdleList>>,
    /// `asyncio.Task` sets it to detect that a future is awaited with `await`.
    blocking: GilFlag<bool>,
    state: GilCell<WaitState>,
}

enum WaitState {
    Waiting(Option<Waiter>),
    Done,
    /// With the message of the cancellation.
    Cancelled(Option<Py<PyAny>>),
}

/// The function that resumes the Task, and the Task's context.
struct Waiter {
    resume: Py<PyAny>,
    context: Option<Py<PyAny>>,
}

impl TaskFuture {
    pub(super) fn new(event_loop: Py<PyAny>, list: Option<Arc<IdleList>>) -> TaskFuture {
        TaskFuture {
            event_loop,
            list,
            blocking: GilFlag::new(true),
            state: GilCell::new(WaitState::Waiting(None)),
        }
    }

    /// Prepares for the next `await`.
    pub(super) fn reset(&self) {
        self.blocking.set(true);
        let before = std::mem::replace(&mut *self.state.get(), WaitState::Waiting(None));
        drop(before);
    }

    /// Prepares for another `await` if the wait has not ended; otherwise returns false.
    pub(super) fn waits_again(&self) -> bool {
        self.blocking.set(true);
        matches!(*self.state.get(), WaitState::Waiting(_))
    }

    /// Ends the wait and resumes the Task immediately. Must not be called inside another Task.
    pub(super) fn resume(slf: &Bound<'_, Self>) -> PyResult<()> {
        match slf.get().change(WaitState::Done) {
            Some(Waiter { resume, context: Some(context) }) => {
                in_context(slf.py(), &context, || resume.call1(slf.py(), (slf,)).map(drop))
            }
            Some(Waiter { resume, context: None }) => resume.call1(slf.py(), (slf,)).map(drop),
            None => Ok(()),
        }
    }

    /// Ends the wait; the event loop resumes the Task.
    pub(super) fn resume_soon(slf: &Bound<'_, Self>) -> PyResult<()> {
        match slf.get().change(WaitState::Done) {
            Some(waiter) => TaskFuture::schedule(slf, waiter),
            None => Ok(()),
        }
    }

    /// Changes the state, unless the wait has ended; returns what was to be called.
    fn change(&self, to: WaitState) -> Option<Waiter> {
        let mut state = self.state.get();
        match &mut *state {
            WaitState::Waiting(waiter) => {
                let waiter = waiter.take();
                *state = to;
                waiter
            }
            WaitState::Done | WaitState::Cancelled(_) => None,
        }
    }

    fn schedule(slf: &Bound<'_, Self>, waiter: Waiter) -> PyResult<()> {
        let py = slf.py();
        let options = PyDict::new(py);
        options.set_item(intern!(py, "context"), waiter.context)?;
        let event_loop = slf.get().event_loop.bind(py);
        event_loop
            .call_method(intern!(py, "call_soon"), (waiter.resume, slf), Some(&options))
            .map(drop)
    }
}

#[pymethods]
impl TaskFuture {
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
    fn add_done_callback(
        slf: &Bound<'_, Self>,
        callback: Py<PyAny>,
        context: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let this = slf.get();
        let waiter = Waiter { resume: callback, context };
        if this.done() {
            return TaskFuture::schedule(slf, waiter);
        }
        // One Task awaits it.
        let before = this.change(WaitState::Waiting(Some(waiter)));
        drop(before);
        if let Some(list) = &this.list {
            list.0.get().push(slf.clone().unbind());
        }
        Ok(())
    }

    fn result(&self, py: Python<'_>) -> PyResult<()> {
        match &*self.state.get() {
            WaitState::Cancelled(Some(message)) => {
                Err(CancelledError::new_err((message.clone_ref(py),)))
            }
            WaitState::Cancelled(None) => Err(CancelledError::new_err(())),
            WaitState::Waiting(_) | WaitState::Done => Ok(()),
        }
    }

    fn done(&self) -> bool {
        !matches!(*self.state.get(), WaitState::Waiting(_))
    }

    fn cancelled(&self) -> bool {
        matches!(*self.state.get(), WaitState::Cancelled(_))
    }

    /// Cancels the wait: the event loop resumes the Task, which receives the CancelledError.
    #[pyo3(signature = (msg = None))]
    fn cancel(slf: &Bound<'_, Self>, msg: Option<Py<PyAny>>) -> PyResult<bool> {
        let this = slf.get();
        if this.done() {
            return Ok(false);
        }
        if let Some(list) = &this.list {
            list.0.get().retain(|idle| !idle.is(slf));
        }
        if let Some(waiter) = this.change(WaitState::Cancelled(msg)) {
            TaskFuture::schedule(slf, waiter)?;
        }
        Ok(true)
    }
}
