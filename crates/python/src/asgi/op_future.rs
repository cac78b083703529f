//! The awaitable of a `receive` or `send` that has to wait.
//!
//! The queue reports which operation was woken, and the drain resumes the Task that awaits it.
//! Cancelling the Task cancels the operation.

use std::task::{Context, Poll, Waker};

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::app_loop::AppLoop;
use super::awaitable::{nothing, ready};
use super::pending_ops::{OpKind, PendingOps};
use super::task_future::TaskFuture;
use crate::gil::GilCell;

/// A request or session that has operations.
pub(super) trait Operations: Send + Sync {
    fn app(&self) -> &Py<AppLoop>;

    /// The result of the operation, if it can complete.
    fn poll(&self, py: Python<'_>, kind: OpKind, cx: &mut Context<'_>)
    -> Poll<PyResult<Py<PyAny>>>;

    /// Calls `with` for the pending operations.
    fn with_pending(&self, with: &mut dyn FnMut(&mut PendingOps));
}

/// The awaitable.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(super) struct OpFuture {
    owner: Box<dyn Operations>,
    kind: OpKind,
    suspended: GilCell<Option<Suspended>>,
}

struct Suspended {
    id: u64,
    future: Py<TaskFuture>,
}

/// Returns the awaitable of an operation, which is complete if the operation need not wait. Where
/// others of its kind wait, it is polled with a waker only: without one it would take their
/// wake-up.
pub(super) fn operation(
    owner: impl Operations + 'static,
    py: Python<'_>,
    kind: OpKind,
) -> PyResult<Bound<'_, PyAny>> {
    let mut others_wait = false;
    owner.with_pending(&mut |pending| others_wait = pending.any(kind));
    let mut cx = Context::from_waker(Waker::noop());
    if !others_wait && let Poll::Ready(result) = owner.poll(py, kind, &mut cx) {
        let result = result?;
        return if result.is_none(py) { nothing(py) } else { ready(result.into_bound(py)) };
    }
    let future = OpFuture { owner: Box::new(owner), kind, suspended: GilCell::default() };
    Ok(Bound::new(py, future)?.into_any())
}

#[pymethods]
impl OpFuture {
    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.resume(py)
    }

    fn send(&self, py: Python<'_>, _sent: Py<PyAny>) -> PyResult<Py<PyAny>> {
        self.resume(py)
    }

    #[pyo3(signature = (*arguments))]
    fn throw(&self, py: Python<'_>, arguments: Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        self.close(py);
        Err(PyErr::from_value(arguments.get_item(0)?))
    }

    fn close(&self, py: Python<'_>) {
        let suspended = self.suspended.take();
        if let Some(suspended) = suspended {
            self.remove(py, suspended.id);
        }
    }
}

impl OpFuture {
    fn resume(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        loop {
            let future =
                self.suspended.get().as_ref().map(|suspended| suspended.future.clone_ref(py));
            if let Some(future) = future
                && future.get().waits_again()
            {
                return Ok(future.into_any());
            }
            // The operation was woken; the owner knows whether it can complete.
            self.close(py);
            let polled = self.poll(py);
            // Polling may have made room for the worker.
            AppLoop::flush_soon(self.owner.app(), py)?;
            polled?;
        }
    }

    /// Raises `StopIteration` with the result, or suspends the operation again.
    fn poll(&self, py: Python<'_>) -> PyResult<()> {
        let app = self.owner.app().get();
        let id = app.next_op_id();
        let waker = app.queue().waker(id);
        let mut cx = Context::from_waker(&waker);
        if let Poll::Ready(result) = self.owner.poll(py, self.kind, &mut cx) {
            return Err(PyStopIteration::new_err((result?,)));
        }
        let future = app.begin_op(py, id)?;
        self.owner.with_pending(&mut |pending| pending.insert(self.kind, id));
        *self.suspended.get() = Some(Suspended { id, future });
        Ok(())
    }

    fn remove(&self, py: Python<'_>, id: u64) {
        let app = self.owner.app().get();
        app.forget_op(id);
        let mut others = Vec::new();
        self.owner.with_pending(&mut |pending| others = pending.remove(self.kind, id));
        for other in others {
            app.end_op(py, other);
        }
    }
}
