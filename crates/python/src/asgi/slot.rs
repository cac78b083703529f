//! The coroutine of a Task that goes on from one request to the next.
//!
//! A Task for each request is the largest part of what asyncio costs. A slot is the coroutine of
//! one Task in which application coroutines run one after another, each in a context of its own: a
//! coroutine that never suspends is begun and ended within a step, and the slot takes the next
//! arrival in the same step. One that suspends keeps its Task for itself, and with its end the Task
//! ends, as everybody expects of it. So does a Task on which a request has left any trace (see
//! [`Traces`]). Promises that `current_task()` is right from the first instruction of the
//! application, and that a request finds nothing of the one before it in its Task or context.

use exchange::offload::OffloadedRequest;
use pyo3::exceptions::PyStopIteration;
use pyo3::exceptions::asyncio::CancelledError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::exchange::Exchange;
use super::parked::Parked;
use super::server::Server;
use super::traces::Traces;
use crate::gil::{GilCell, GilFlag};

#[pyclass(frozen, weakref, module = "tidegate._tidegate")]
pub(super) struct Slot {
    server: Py<Server>,
    /// Made when there is nothing to do for the first time.
    parked: GilCell<Option<Py<Parked>>>,
    running: GilCell<Option<Running>>,
    /// Given before the Task had its first step.
    first: GilCell<Option<Box<OffloadedRequest>>>,
    /// The Task; borrowed, because it owns this coroutine.
    task: GilFlag<usize>,
    /// Of the Task; made when it may serve a second request.
    traces: GilCell<Option<Traces>>,
    /// Weak references to the Task before its requests, those of asyncio's registers; known from
    /// the begin of a request on.
    weak_references: GilFlag<Option<usize>>,
    /// The Task has waited once, so asyncio has registered it.
    registered: GilFlag<bool>,
    ended: GilFlag<bool>,
}

/// An application's coroutine under way.
struct Running {
    /// What is stepped: the coroutine, or the iterator of another awaitable.
    coroutine: Py<PyAny>,
    context: Py<PyAny>,
    exchange: Py<Exchange>,
    /// References to the Task when it began.
    references: isize,
    suspended: bool,
}

/// What a step of the application came to.
enum Step {
    Yielded(Py<PyAny>),
    Ended,
    Failed(PyErr),
}

impl Slot {
    pub(super) fn new(
        py: Python<'_>,
        server: &Py<Server>,
        first: Option<Box<OffloadedRequest>>,
    ) -> PyResult<Slot> {
        Ok(Slot {
            server: server.clone_ref(py),
            parked: GilCell::default(),
            running: GilCell::default(),
            first: GilCell::new(first),
            task: GilFlag::new(0),
            traces: GilCell::default(),
            weak_references: GilFlag::new(None),
            registered: GilFlag::new(false),
            ended: GilFlag::new(false),
        })
    }
}

#[pymethods]
impl Slot {
    /// As `asyncio` shows the Task.
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

    /// One step of the Task.
    fn __next__(slf: &Bound<'_, Self>) -> PyResult<Option<Py<PyAny>>> {
        Slot::go_on(slf, |py, running| running.step(py))
    }

    fn send(slf: &Bound<'_, Self>, _sent: Py<PyAny>) -> PyResult<Py<PyAny>> {
        let yielded = Slot::go_on(slf, |py, running| running.step(py))?;
        yielded.ok_or_else(|| PyStopIteration::new_err(()))
    }

    #[pyo3(signature = (*arguments))]
    fn throw(slf: &Bound<'_, Self>, arguments: Bound<'_, PyTuple>) -> PyResult<Py<PyAny>> {
        if slf.get().running.get().is_none() {
            slf.get().ended.set(true);
            return Err(PyErr::from_value(arguments.get_item(0)?));
        }
        let yielded = Slot::go_on(slf, |py, running| running.throw(py, &arguments))?;
        yielded.ok_or_else(|| PyStopIteration::new_err(()))
    }

    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        let this = slf.get();
        this.ended.set(true);
        let Some(running) = this.running.take() else { return Ok(()) };
        let py = slf.py();
        let closed =
            running.inside(py, || running.coroutine.call_method0(py, intern!(py, "close")));
        running.exchange.get().end(py, true);
        closed.map(drop)
    }
}

impl Slot {
    /// A step, however it was asked for. `None` ends the Task.
    fn go_on(
        slf: &Bound<'_, Self>,
        first: impl FnOnce(Python<'_>, &Running) -> Step,
    ) -> PyResult<Option<Py<PyAny>>> {
        let yielded = Slot::run(slf, first);
        // The worker hears of an exchange that has ended meanwhile.
        Server::flush_soon(&slf.get().server, slf.py())?;
        yielded
    }

    /// Steps what runs with `first`, then takes what has arrived until something is to be waited
    /// for.
    fn run(
        slf: &Bound<'_, Self>,
        first: impl FnOnce(Python<'_>, &Running) -> Step,
    ) -> PyResult<Option<Py<PyAny>>> {
        let py = slf.py();
        let this = slf.get();
        let server = this.server.get();
        if this.task.get() == 0 {
            this.task.set(server.current_task(py)?.as_ptr() as usize);
        }
        let mut first = Some(first);
        loop {
            let running = this.running.take();
            let (running, called) = match running {
                Some(running) => (running, Ok(())),
                None => match this.begin(py)? {
                    Some(begun) => begun,
                    None => return this.park(slf),
                },
            };
            let step = match (called, first.take()) {
                (Err(error), _) => Step::Failed(error),
                (Ok(()), Some(first)) => first(py, &running),
                (Ok(()), None) => running.step(py),
            };
            match step {
                Step::Yielded(yielded) => {
                    *this.running.get() = Some(Running { suspended: true, ..running });
                    return Ok(Some(yielded));
                }
                Step::Ended => running.exchange.get().end(py, false),
                Step::Failed(error) => this.failed(py, &running, error)?,
            }
            if !this.may_go_on(py, running)? {
                this.ended.set(true);
                return Ok(None);
            }
        }
    }

    /// Calls the application for the next request, if there is one; with what came of the call.
    fn begin(&self, py: Python<'_>) -> PyResult<Option<(Running, PyResult<()>)>> {
        let server = self.server.get();
        let Some(handed) = self.first.take().or_else(|| server.next_exchange()) else {
            return Ok(None);
        };
        if self.weak_references.get().is_none() {
            self.weak_references.set(Some(server.weak_references(&self.task(py))?));
        }
        let (exchange, head) = Exchange::new(self.server.clone_ref(py), *handed);
        let exchange = Bound::new(py, exchange)?;
        let mut running = Running {
            coroutine: py.None(),
            context: server.context(py)?,
            exchange: exchange.clone().unbind(),
            references: self.references(),
            suspended: false,
        };
        let called = running.inside(py, || server.call(&exchange, &head));
        let called = called.map(|coroutine| running.coroutine = coroutine);
        Ok(Some((running, called)))
    }

    /// The application raised: the client is answered, the error is logged, and the Task goes on
    /// unless it was the Task that was meant.
    fn failed(&self, py: Python<'_>, running: &Running, error: PyErr) -> PyResult<()> {
        // SystemExit and KeyboardInterrupt would end the event loop, and so every other request.
        if error.is_instance_of::<CancelledError>(py) {
            running.exchange.get().end(py, true);
            self.ended.set(true);
            return Err(error);
        }
        self.server.get().failed(py, running.exchange.bind(py), &error)
    }

    /// Whether the Task may serve another request: this one never waited, and left no trace.
    fn may_go_on(&self, py: Python<'_>, running: Running) -> PyResult<bool> {
        let Running { suspended, references, .. } = running;
        // What the coroutine held, it holds no longer.
        drop(running);
        if suspended || self.references() != references {
            return Ok(false);
        }
        let (server, task) = (self.server.get(), self.task(py));
        let known = self.traces.take();
        let traces = match known {
            Some(traces) => Some(traces),
            None => Traces::of(&task)?,
        };
        let Some(traces) = traces else { return Ok(false) };
        let weak_before = self.weak_references.get().unwrap_or_default();
        let is_clean = traces.are_none(server, &task, weak_before)?;
        *self.traces.get() = Some(traces);
        Ok(is_clean)
    }

    /// The Task, from inside of its step.
    fn task<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        // SAFETY: the Task runs this step, so it is alive.
        unsafe { Bound::from_borrowed_ptr(py, self.task.get() as *mut ffi::PyObject) }
    }

    /// References to the Task.
    fn references(&self) -> isize {
        // SAFETY: as above.
        unsafe { ffi::Py_REFCNT(self.task.get() as *mut ffi::PyObject) as isize }
    }

    /// Nothing has arrived: the Task waits until a drain goes on with it.
    fn park(&self, slf: &Bound<'_, Self>) -> PyResult<Option<Py<PyAny>>> {
        if !self.server.get().has_room_to_park() {
            self.ended.set(true);
            return Ok(None);
        }
        if !self.registered.get() {
            self.registered.set(true);
            self.weak_references.set(None);
        }
        let py = slf.py();
        let known = self.parked.get().as_ref().map(|parked| parked.clone_ref(py));
        let parked = match known {
            Some(parked) => parked,
            None => {
                let made = Py::new(py, Parked::new(self.server.clone_ref(py)))?;
                *self.parked.get() = Some(made.clone_ref(py));
                made
            }
        };
        parked.get().wait_for(slf.clone().unbind());
        Ok(Some(parked.into_any()))
    }
}

impl Running {
    /// Calls `with` in the context of the request.
    fn inside<R>(&self, py: Python<'_>, with: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
        // SAFETY: the context is one, and is left on every way out that is not a panic, which ends
        // the process.
        unsafe {
            if ffi::PyContext_Enter(self.context.as_ptr()) != 0 {
                return Err(PyErr::fetch(py));
            }
        }
        let outcome = with();
        // SAFETY: it was entered above.
        if unsafe { ffi::PyContext_Exit(self.context.as_ptr()) } != 0 {
            return Err(PyErr::fetch(py));
        }
        outcome
    }

    fn step(&self, py: Python<'_>) -> Step {
        let mut ended = false;
        let yielded = self.inside(py, || {
            let mut result = std::ptr::null_mut();
            // SAFETY: the coroutine is alive and the result is a place of ours; a result is ours.
            unsafe {
                match ffi::PyIter_Send(self.coroutine.as_ptr(), ffi::Py_None(), &raw mut result) {
                    ffi::PySendResult::PYGEN_NEXT => Ok(Bound::from_owned_ptr(py, result).unbind()),
                    ffi::PySendResult::PYGEN_RETURN => {
                        ended = true;
                        Ok(Bound::from_owned_ptr(py, result).unbind())
                    }
                    ffi::PySendResult::PYGEN_ERROR => Err(PyErr::fetch(py)),
                }
            }
        });
        match yielded {
            Ok(_) if ended => Step::Ended,
            Ok(yielded) => Step::Yielded(yielded),
            Err(error) => Step::Failed(error),
        }
    }

    fn throw(&self, py: Python<'_>, arguments: &Bound<'_, PyTuple>) -> Step {
        let thrown = self.inside(py, || {
            self.coroutine.call_method1(py, intern!(py, "throw"), arguments.clone())
        });
        match thrown {
            Ok(yielded) => Step::Yielded(yielded),
            Err(error) if error.is_instance_of::<PyStopIteration>(py) => Step::Ended,
            Err(error) => Step::Failed(error),
        }
    }
}
