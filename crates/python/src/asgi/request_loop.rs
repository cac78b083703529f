//! The coroutine of a Task that runs one request after another.
//!
//! A Task for each request is the largest part of asyncio's cost. A request loop is the coroutine
//! of one Task that runs application coroutines one after another, each in its own context: a
//! coroutine that never suspends begins and ends within one step, and the request loop takes the
//! next request in the same step. A coroutine that suspends keeps the Task for itself, and the Task
//! ends with it, as libraries expect. So does a Task on which a request has left any trace (see
//! [`Traces`]). Promises that `current_task()` is correct from the first instruction of the
//! application, and that a request finds nothing of the previous one in its Task or context.

use std::sync::Arc;

use offload::OffloadedRequest;
use pyo3::exceptions::PyStopIteration;
use pyo3::exceptions::asyncio::CancelledError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use telemetry::event_limited;
use telemetry::log::Level;

use super::app_loop::AppLoop;
use super::call_objects::{CallObjects, SpareObjects};
use super::context::in_context;
use super::coroutine::{Step, of_awaitable, step};
use super::exchange::Exchange;
use super::task_future::TaskFuture;
use super::traces::Traces;
use crate::gil::{GilCell, GilFlag};

/// Events of one kind per second; the next one states how many were suppressed.
const LINES_PER_SECOND: u32 = 10;

#[pyclass(frozen, weakref, module = "tidegate._tidegate")]
pub(super) struct RequestLoop {
    app: Py<AppLoop>,
    spare: Arc<SpareObjects>,
    /// Created when the queue is empty for the first time.
    idle: GilCell<Option<Py<TaskFuture>>>,
    running: GilCell<Option<RunningCall>>,
    /// The request for the Task's first step.
    first: GilCell<Option<Box<OffloadedRequest>>>,
    /// The Task; borrowed, because it owns this coroutine.
    task: GilFlag<usize>,
    /// Of the Task; created when it may serve a second request.
    traces: GilCell<Option<Traces>>,
    /// Weak references to the Task without its requests, those of asyncio's registers; known from
    /// the beginning of a request on.
    weak_references: GilFlag<Option<usize>>,
    /// True once the Task has waited, so that asyncio has registered it.
    registered: GilFlag<bool>,
}

/// A running coroutine of the application.
struct RunningCall {
    /// The coroutine, or the iterator of another awaitable.
    coroutine: Py<PyAny>,
    context: Py<PyAny>,
    /// For the report of an exception; `None` if it could not be created.
    scope: Option<Py<PyDict>>,
    objects: CallObjects,
    /// References to the Task when the call began.
    references: isize,
    suspended: bool,
}

impl RequestLoop {
    pub(super) fn new(
        app: Py<AppLoop>,
        spare: Arc<SpareObjects>,
        first: Option<Box<OffloadedRequest>>,
    ) -> RequestLoop {
        RequestLoop {
            app,
            spare,
            idle: GilCell::default(),
            running: GilCell::default(),
            first: GilCell::new(first),
            task: GilFlag::new(0),
            traces: GilCell::default(),
            weak_references: GilFlag::new(None),
            registered: GilFlag::new(false),
        }
    }
}

#[pymethods]
impl RequestLoop {
    /// The name that `asyncio` shows for the Task.
    #[getter]
    fn __qualname__(&self) -> &'static str {
        "tidegate.request"
    }

    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// Runs one step of the Task.
    fn __next__(slf: &Bound<'_, Self>) -> PyResult<Option<Py<PyAny>>> {
        RequestLoop::resume(slf, |py, running| running.step(py))
    }

    fn send(slf: &Bound<'_, Self>, _sent: Py<PyAny>) -> PyResult<Py<PyAny>> {
        let yielded = RequestLoop::resume(slf, |py, running| running.step(py))?;
        yielded.ok_or_else(|| PyStopIteration::new_err(()))
    }

    #[pyo3(signature = (*arguments))]
    fn throw(slf: &Bound<'_, Self>, arguments: Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        if slf.get().running.get().is_none() {
            return Err(PyErr::from_value(arguments.get_item(0)?));
        }
        let yielded = RequestLoop::resume(slf, |py, running| running.throw(py, &arguments))?;
        yielded.ok_or_else(|| PyStopIteration::new_err(()))
    }

    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        let this = slf.get();
        let Some(running) = this.running.take() else { return Ok(()) };
        let py = slf.py();
        let closed = in_context(py, &running.context, || {
            running.coroutine.call_method0(py, intern!(py, "close"))
        });
        running.exchange().end(py, true);
        closed.map(drop)
    }
}

impl RequestLoop {
    /// Runs a step that begins with `first`. `None` ends the Task.
    fn resume(
        slf: &Bound<'_, Self>,
        first: impl FnOnce(Python<'_>, &RunningCall) -> PyResult<Step>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let yielded = RequestLoop::run(slf, first);
        // Responses may have ended in this step.
        AppLoop::flush_soon(&slf.get().app, slf.py())?;
        yielded
    }

    /// Resumes the running coroutine with `first`, then takes requests until one suspends or the
    /// queue is empty.
    fn run(
        slf: &Bound<'_, Self>,
        first: impl FnOnce(Python<'_>, &RunningCall) -> PyResult<Step>,
    ) -> PyResult<Option<Py<PyAny>>> {
        let py = slf.py();
        let this = slf.get();
        if this.task.get() == 0 {
            this.task.set(this.app.get().current_task(py)?.as_ptr() as usize);
        }
        let running = this.running.take();
        let mut stepped = match running {
            Some(running) => {
                let result = first(py, &running);
                Some((running, result))
            }
            None => this.begin(py)?,
        };
        while let Some((running, result)) = stepped {
            match result {
                Ok(Step::Yielded(yielded)) => {
                    *this.running.get() = Some(RunningCall { suspended: true, ..running });
                    return Ok(Some(yielded));
                }
                Ok(Step::Returned) => running.exchange().end(py, false),
                Err(error) => this.failed(py, &running, error)?,
            }
            if !this.is_reusable(py, running)? {
                return Ok(None);
            }
            stepped = this.begin(py)?;
        }
        this.wait_idle(py)
    }

    /// Calls the application for the next request, if there is one, and runs its first step.
    fn begin(&self, py: Python<'_>) -> PyResult<Option<(RunningCall, PyResult<Step>)>> {
        let app = self.app.get();
        let Some(request) = self.first.take().or_else(|| app.next_request()) else {
            return Ok(None);
        };
        if self.weak_references.get().is_none() {
            self.weak_references.set(Some(app.weak_references(&self.task(py))?));
        }
        let (objects, head) = self.spare.begin(py, &self.app, *request)?;
        let (context, references) = (app.context(py)?, self.references());
        let (mut coroutine, mut scope) = (py.None(), None);
        let result = in_context(py, &context, || {
            let scope = scope.insert(app.scopes.http(py, &head)?);
            coroutine = call(py, app, &objects, scope)?;
            step(&coroutine, py)
        });
        let scope = scope.map(Bound::unbind);
        let running =
            RunningCall { coroutine, context, scope, objects, references, suspended: false };
        Ok(Some((running, result)))
    }

    /// Handles an exception of the application: fails the response and logs the exception. The Task
    /// continues unless it was cancelled.
    fn failed(&self, py: Python<'_>, running: &RunningCall, error: PyErr) -> PyResult<()> {
        let exchange = running.exchange();
        // An exception after the end of the response does not affect the client.
        exchange.end(py, true);
        // SystemExit and KeyboardInterrupt do not pass: they would end the event loop, and with it
        // every other request.
        if error.is_instance_of::<CancelledError>(py) {
            return Err(error);
        }
        let Some(fault) = exchange.failure() else {
            return self.app.get().report(py, &error, running.scope.as_ref());
        };
        // The exception follows from the failed request: the traceback is not logged.
        event_limited!(
            LINES_PER_SECOND,
            Level::Info,
            "the body of a request failed while the application received it",
            status = fault.status,
            fault = fault.slug(),
            reason = fault.detail,
            raised = error
        );
        Ok(())
    }

    /// True if the Task may serve another request: this one never suspended and left no trace.
    fn is_reusable(&self, py: Python<'_>, running: RunningCall) -> PyResult<bool> {
        let RunningCall { coroutine, context, scope, objects, references, suspended } = running;
        // Releases the references that the coroutine held.
        drop((coroutine, context, scope));
        self.spare.add(objects);
        if suspended || self.references() != references {
            return Ok(false);
        }
        let (app, task) = (self.app.get(), self.task(py));
        let known = self.traces.take();
        let traces = match known {
            Some(traces) => Some(traces),
            None => Traces::of(&task)?,
        };
        let Some(traces) = traces else { return Ok(false) };
        let weak_before = self.weak_references.get().unwrap_or_default();
        let is_clean = traces.are_none(app, &task, weak_before)?;
        *self.traces.get() = Some(traces);
        Ok(is_clean)
    }

    /// The Task; for use inside its step.
    fn task<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        // SAFETY: the Task runs this step, so it is alive.
        unsafe { Bound::from_borrowed_ptr(py, self.task.get() as *mut ffi::PyObject) }
    }

    /// The number of references to the Task.
    fn references(&self) -> isize {
        // SAFETY: as above.
        unsafe { ffi::Py_REFCNT(self.task.get() as *mut ffi::PyObject) as isize }
    }

    /// Lets the Task wait until a drain resumes it; ends it if enough Tasks are idle.
    fn wait_idle(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let app = self.app.get();
        if app.idle.is_full() {
            return Ok(None);
        }
        if !self.registered.get() {
            self.registered.set(true);
            self.weak_references.set(None);
        }
        let known = self.idle.get().as_ref().map(|idle| idle.clone_ref(py));
        let idle = match known {
            Some(idle) => idle,
            None => {
                let list = Some(app.idle.clone());
                let idle = TaskFuture::new(app.event_loop.clone_ref(py), list);
                let idle = Py::new(py, idle)?;
                *self.idle.get() = Some(idle.clone_ref(py));
                idle
            }
        };
        idle.get().reset();
        Ok(Some(idle.into_any()))
    }
}

/// Calls the application; returns its coroutine.
fn call(
    py: Python<'_>,
    app: &AppLoop,
    objects: &CallObjects,
    scope: &Bound<'_, PyDict>,
) -> PyResult<Py<PyAny>> {
    of_awaitable(app.application.bind(py).call1((scope, &objects.receive, &objects.send))?)
}

impl RunningCall {
    fn exchange(&self) -> &Exchange {
        self.objects.exchange.get()
    }

    fn step(&self, py: Python<'_>) -> PyResult<Step> {
        in_context(py, &self.context, || step(&self.coroutine, py))
    }

    fn throw(&self, py: Python<'_>, arguments: &Bound<'_, PyTuple>) -> PyResult<Step> {
        let thrown = in_context(py, &self.context, || {
            self.coroutine.call_method1(py, intern!(py, "throw"), arguments.clone())
        });
        match thrown {
            Ok(yielded) => Ok(Step::Yielded(yielded)),
            Err(error) if error.is_instance_of::<PyStopIteration>(py) => Ok(Step::Returned),
            Err(error) => Err(error),
        }
    }
}
