//! The application, the event loop that runs it, and the state that its requests share.
//!
//! Everything happens on the thread of the event loop, except `send` and `receive`, which an
//! application may call from any thread.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use offload::{Arrival, Event, OffloadedRequest, RequestQueue, wake_batch};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{ffi, intern};

use super::disconnected::is_caused_by_disconnect;
use super::scope::Scopes;
use super::task_future::{IdleList, TaskFuture};
use crate::app_status::{AppMetrics, AppStatus};
use crate::gil::{GilCell, GilFlag};

/// Requests that a drain begins before it yields to the event loop, and how long it may take.
const DRAIN_REQUESTS_MAX: u32 = 64;
const DRAIN_US: u64 = 500;

#[pyclass(frozen, module = "tidegate._tidegate")]
pub(super) struct AppLoop {
    pub(super) status: Arc<AppStatus>,
    pub(super) application: Py<PyAny>,
    pub(super) event_loop: Py<PyAny>,
    pub(super) scopes: Scopes,
    /// The context of every request is a copy of this one.
    context: Py<PyAny>,
    current_task: Py<PyAny>,
    count_weak_references: Py<PyAny>,
    /// Called with an exception that the application raised, and the scope of its request.
    report: Py<PyAny>,
    pub(super) idle: Arc<IdleList>,
    /// What the Tasks of pending operations await, by the ids of these.
    pending_ops: GilCell<HashMap<u64, Py<TaskFuture>>>,
    next_op_id: GilFlag<u64>,
    /// The request for the request loop that is resumed next, or a session that a request loop took
    /// from the queue.
    pub(super) next: GilCell<Option<Arrival>>,
    draining: GilFlag<bool>,
    /// Requests that this drain may still begin, and when it must end.
    budget: GilFlag<u32>,
    deadline_us: GilFlag<u64>,
    taken_us: GilFlag<u64>,
    flush_scheduled: GilFlag<bool>,
}

impl AppLoop {
    pub(super) fn new(
        py: Python<'_>,
        status: Arc<AppStatus>,
        application: Py<PyAny>,
        event_loop: Py<PyAny>,
        (root_path, state): (String, Option<Py<PyDict>>),
        report: Py<PyAny>,
    ) -> PyResult<AppLoop> {
        let asyncio = PyModule::import(py, "asyncio")?;
        let weakref = PyModule::import(py, "weakref")?;
        // SAFETY: the call returns a new reference, or null with an error set.
        let context = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyContext_CopyCurrent()) }?;
        Ok(AppLoop {
            status,
            application,
            event_loop,
            scopes: Scopes::new(py, root_path, state)?,
            context: context.unbind(),
            current_task: asyncio.getattr("current_task")?.unbind(),
            count_weak_references: weakref.getattr("getweakrefcount")?.unbind(),
            report,
            idle: Arc::default(),
            pending_ops: GilCell::default(),
            next_op_id: GilFlag::new(1),
            next: GilCell::default(),
            draining: GilFlag::new(false),
            budget: GilFlag::new(0),
            deadline_us: GilFlag::new(0),
            taken_us: GilFlag::new(0),
            flush_scheduled: GilFlag::new(false),
        })
    }

    pub(super) fn queue(&self) -> &Arc<RequestQueue> {
        self.status.queue()
    }

    pub(super) fn metrics(&self) -> &AppMetrics {
        &self.status.metrics
    }

    pub(super) fn current_task<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.current_task.bind(py).call0()
    }

    /// Returns a context for a request.
    pub(super) fn context(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        // SAFETY: the argument is a context; the call returns a new reference, or null with an
        // error set.
        let copy =
            unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyContext_Copy(self.context.as_ptr())) };
        copy.map(Bound::unbind)
    }

    /// True if a context has the variables that every request begins with.
    pub(super) fn is_base_context(&self, context: &Bound<'_, PyAny>) -> PyResult<bool> {
        context.eq(&self.context)
    }

    /// Returns the number of weak references to an object.
    pub(super) fn weak_references(&self, object: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.count_weak_references.bind(object.py()).call1((object,))?.extract()
    }

    /// Logs and records an exception that the application raised for a request.
    pub(super) fn report(
        &self,
        py: Python<'_>,
        error: &PyErr,
        scope: Option<&Py<PyDict>>,
    ) -> PyResult<()> {
        if is_caused_by_disconnect(py, error) {
            return Ok(()); // a disconnect is not an error of the application
        }
        // Before CPython 3.12 a PyErr stores its traceback separately; `into_value` attaches it.
        self.report.bind(py).call1((error.clone_ref(py).into_value(py), scope)).map(drop)
    }

    // Drains.

    pub(super) fn begin_drain(&self, now_us: u64) {
        self.draining.set(true);
        self.budget.set(DRAIN_REQUESTS_MAX);
        self.deadline_us.set(now_us + DRAIN_US);
    }

    pub(super) fn end_drain(&self) {
        self.draining.set(false);
    }

    /// True if the drain must yield to the event loop.
    pub(super) fn is_budget_spent(&self, now_us: u64) -> bool {
        self.budget.get() == 0 || now_us >= self.deadline_us.get()
    }

    /// Returns the next request for a running request loop, while the budget of the drain lasts.
    pub(super) fn next_request(&self) -> Option<Box<OffloadedRequest>> {
        let next = self.next.take().or_else(|| self.take_arrival());
        match next {
            Some(Arrival::Exchange(request)) => Some(request),
            // A session begins outside the request loop's Task: it has its own.
            session => {
                *self.next.get() = session;
                None
            }
        }
    }

    fn take_arrival(&self) -> Option<Arrival> {
        if !self.draining.get() {
            return None;
        }
        let now_us = net::clock::precise_us();
        if self.is_budget_spent(now_us) {
            self.budget.set(0);
            return None;
        }
        match self.queue().take_arrival() {
            Some(Event::Arrived(arrival, at_us)) => {
                self.count_begin(at_us, now_us);
                Some(arrival)
            }
            _ => None,
        }
    }

    /// Counts a request that is taken now.
    pub(super) fn count_begin(&self, at_us: u64, now_us: u64) {
        self.budget.set(self.budget.get().saturating_sub(1));
        self.taken_us.set(now_us);
        let metrics = self.metrics();
        metrics.requests.inc();
        metrics.in_flight.fetch_add(1, Ordering::Relaxed);
        metrics.queue.record_us(now_us.saturating_sub(at_us));
    }

    /// When the request that begins now was taken.
    pub(super) fn taken_us(&self) -> u64 {
        self.taken_us.get()
    }

    /// Counts a request, taken at `taken_us`, that the application has completed.
    pub(super) fn count_end(&self, taken_us: u64) {
        let metrics = self.metrics();
        metrics.in_flight.fetch_sub(1, Ordering::Relaxed);
        metrics.call.record_us(net::clock::precise_us().saturating_sub(taken_us));
    }

    // Pending operations.

    pub(super) fn next_op_id(&self) -> u64 {
        let id = self.next_op_id.get();
        self.next_op_id.set(id + 1);
        id
    }

    /// Creates what the Task of an operation awaits until it is woken.
    pub(super) fn begin_op(&self, py: Python<'_>, id: u64) -> PyResult<Py<TaskFuture>> {
        let future = Py::new(py, TaskFuture::new(self.event_loop.clone_ref(py), None))?;
        self.pending_ops.get().insert(id, future.clone_ref(py));
        Ok(future)
    }

    /// Resumes the Task of an operation. Must not be called inside another Task.
    pub(super) fn resume_op(&self, py: Python<'_>, id: u64) -> PyResult<()> {
        let future = self.pending_ops.get().remove(&id);
        future.map_or(Ok(()), |future| TaskFuture::resume(future.bind(py)))
    }

    /// Lets the event loop resume the Task of an operation.
    pub(super) fn end_op(&self, py: Python<'_>, id: u64) {
        let future = self.pending_ops.get().remove(&id);
        if let Some(future) = future {
            // It fails if the event loop is closed: then no Task runs any more.
            let _ = TaskFuture::resume_soon(future.bind(py));
        }
    }

    /// Forgets an operation that is not awaited any more.
    pub(super) fn forget_op(&self, id: u64) {
        let future = self.pending_ops.get().remove(&id);
        drop(future);
    }

    /// Schedules a wake-up of the worker after the current callback of the event loop.
    pub(super) fn flush_soon(slf: &Py<Self>, py: Python<'_>) -> PyResult<()> {
        let this = slf.get();
        if this.draining.get() || this.flush_scheduled.get() || wake_batch::deferred_count() == 0 {
            return Ok(());
        }
        this.flush_scheduled.set(true);
        let flush = slf.bind(py).getattr(intern!(py, "flush"))?;
        this.event_loop.bind(py).call_method1(intern!(py, "call_soon"), (flush,)).map(drop)
    }
}

#[pymethods]
impl AppLoop {
    /// Wakes the worker for what was sent outside a drain.
    fn flush(&self) {
        self.flush_scheduled.set(false);
        wake_batch::flush();
    }
}
