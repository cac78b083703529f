//! What the Task of an idle slot waits for.
//!
//! A Task that awaits something gives it the function that goes on with the Task
//! (`add_done_callback`). Kept, that function lets a drain go on with the Task at once, with no
//! future, no handle and no turn of the loop between. Implements what `asyncio.Task` asks of a
//! future and nothing more.

use pyo3::exceptions::asyncio::CancelledError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::server::Server;
use super::slot::Slot;
use crate::gil::{GilCell, GilFlag};

#[pyclass(frozen, module = "tidegate._tidegate")]
pub(super) struct Parked {
    server: Py<Server>,
    /// `asyncio.Task` sets it, to see that a future is awaited with `await`.
    blocking: GilFlag<bool>,
    cancelled: GilFlag<bool>,
    go_on: GilCell<Option<Py<PyAny>>>,
    slot: GilCell<Option<Py<Slot>>>,
}

impl Parked {
    pub(super) fn new(server: Py<Server>) -> Parked {
        Parked {
            server,
            blocking: GilFlag::new(true),
            cancelled: GilFlag::new(false),
            go_on: GilCell::default(),
            slot: GilCell::default(),
        }
    }

    /// The slot whose Task is about to wait for this.
    pub(super) fn wait_for(&self, slot: Py<Slot>) {
        self.blocking.set(true);
        *self.slot.get() = Some(slot);
    }

    /// Goes on with the Task, here and now. Must not be called from inside of another Task.
    pub(super) fn go_on(slf: &Bound<'_, Self>) -> PyResult<()> {
        let go_on = slf.get().go_on.take();
        match go_on {
            Some(go_on) => go_on.call1(slf.py(), (slf,)).map(drop),
            None => Ok(()),
        }
    }
}

#[pymethods]
impl Parked {
    #[getter(_asyncio_future_blocking)]
    fn blocking(&self) -> bool {
        self.blocking.get()
    }

    #[setter(_asyncio_future_blocking)]
    fn set_blocking(&self, blocking: bool) {
        self.blocking.set(blocking);
    }

    fn get_loop(&self, py: Python<'_>) -> Py<PyAny> {
        self.server.get().event_loop(py).unbind()
    }

    #[pyo3(signature = (callback, *, context = None))]
    fn add_done_callback(
        slf: &Bound<'_, Self>,
        callback: Py<PyAny>,
        context: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        drop(context); // the Task enters its own
        let this = slf.get();
        *this.go_on.get() = Some(callback);
        if let Some(slot) = this.slot.take() {
            this.server.get().park(slf, slot);
        }
        Ok(())
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

    /// The Task is cancelled while it waits: it goes on, to hear of it, in a turn of its own.
    #[pyo3(signature = (msg = None))]
    fn cancel(slf: &Bound<'_, Self>, msg: Option<Py<PyAny>>) -> PyResult<bool> {
        drop(msg);
        let this = slf.get();
        this.cancelled.set(true);
        this.server.get().unpark(slf);
        if let Some(go_on) = this.go_on.take() {
            let server = this.server.get();
            let arguments = (go_on, slf);
            server.event_loop(slf.py()).call_method(
                "call_soon",
                arguments,
                None::<&Bound<'_, PyDict>>,
            )?;
        }
        Ok(true)
    }
}
