//! The application and its event loop: what arrives is drained here.
//!
//! Owns the desk's other side, the idle slots and the waits of coroutines. Everything happens on
//! the thread of the event loop, but for `send` and `receive`, which an application may call from
//! wherever it likes.

use std::collections::HashMap;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use exchange::offload::session::HandedSession;
use exchange::offload::{Arrival, Event, Head, OffloadedRequest, RequestQueue, wake_batch};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{ffi, intern};
use telemetry::event_limited;
use telemetry::log::Level;

use super::exchange::Exchange;
use super::guard::Guard;
use super::parked::Parked;
use super::scope::Scopes;
use super::slot::Slot;
use super::websocket::WebSocket;
use crate::gil::{GilCell, GilFlag};
use crate::life::{Life, Numbers};

/// Exchanges a drain begins before the event loop has its turn, and how long it may take.
const DRAINED_MAX: u32 = 64;
const DRAIN_US: u64 = 500;
/// Events of one kind in a second; the next one says how many were held back.
const LINES_PER_SECOND: u32 = 10;
/// Tasks that wait for requests.
const IDLE_MAX: usize = 64;

#[pyclass(frozen, module = "tidegate._tidegate")]
pub struct Server {
    life: Arc<Life>,
    /// Called when the I/O thread has ended and the application is to shut down.
    on_stop: Py<PyAny>,
    application: Py<PyAny>,
    event_loop: Py<PyAny>,
    scopes: Scopes,
    /// What every request's context is a copy of.
    context: Py<PyAny>,
    task: Py<PyAny>,
    ensure_future: Py<PyAny>,
    current_task: Py<PyAny>,
    count_weak_references: Py<PyAny>,
    /// How one begins: on our loop and, where it can (CPython 3.12.5), at once.
    task_options: Py<PyDict>,
    /// Whether the loop's next turn begins with a drain.
    goes_on: GilFlag<bool>,
    /// Called with an exception that an application raised.
    report: Py<PyAny>,
    idle: GilCell<Vec<Py<Parked>>>,
    waits: GilCell<HashMap<u64, Py<PyAny>>>,
    next_wait: GilFlag<u64>,
    /// What the slot that continues next is to run, or a session that a slot has come across.
    next: GilCell<Option<Arrival>>,
    draining: GilFlag<bool>,
    /// Exchanges that this drain may still begin, and when it has to end.
    left: GilFlag<u32>,
    until_us: GilFlag<u64>,
    taken_us: GilFlag<u64>,
    flush_is_due: GilFlag<bool>,
}

/// What a server is made of.
pub struct Hosted {
    pub application: Py<PyAny>,
    pub event_loop: Py<PyAny>,
    pub root_path: String,
    /// What the application put into its state when it started.
    pub state: Option<Py<PyDict>>,
    /// Called with an exception that the application raised.
    pub report: Py<PyAny>,
    /// Called when the application is to shut down.
    pub on_stop: Py<PyAny>,
}

impl Server {
    /// The server of an application on the running thread's event loop.
    pub fn new(py: Python<'_>, life: Arc<Life>, hosted: Hosted) -> PyResult<Server> {
        let Hosted { application, event_loop, root_path, state, report, on_stop } = hosted;
        let asyncio = PyModule::import(py, "asyncio")?;
        let weakref = PyModule::import(py, "weakref")?;
        // SAFETY: takes nothing; gives a new reference or null with an error set.
        let context = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyContext_CopyCurrent()) }?;
        let task_options = PyDict::new(py);
        task_options.set_item("loop", &event_loop)?;
        if py.version_info() >= (3, 12, 5) {
            task_options.set_item("eager_start", true)?;
        }
        wake_batch::hold();
        Ok(Server {
            life,
            on_stop,
            application,
            event_loop,
            scopes: Scopes::new(py, root_path, state)?,
            context: context.unbind(),
            task: asyncio.getattr("Task")?.unbind(),
            ensure_future: asyncio.getattr("ensure_future")?.unbind(),
            current_task: asyncio.getattr("current_task")?.unbind(),
            count_weak_references: weakref.getattr("getweakrefcount")?.unbind(),
            report,
            idle: GilCell::default(),
            waits: GilCell::default(),
            next_wait: GilFlag::new(1),
            next: GilCell::default(),
            draining: GilFlag::new(false),
            left: GilFlag::new(0),
            until_us: GilFlag::new(0),
            taken_us: GilFlag::new(0),
            goes_on: GilFlag::new(false),
            task_options: task_options.unbind(),
            flush_is_due: GilFlag::new(false),
        })
    }

    pub(super) fn desk(&self) -> &Arc<RequestQueue> {
        self.life.desk()
    }

    pub(super) fn event_loop<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.event_loop.bind(py).clone()
    }

    pub(super) fn current_task<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.current_task.bind(py).call0()
    }

    /// A context for a request.
    pub(super) fn context(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        // SAFETY: the context is one; the call gives a new reference or null with an error set.
        let copy =
            unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyContext_Copy(self.context.as_ptr())) };
        copy.map(Bound::unbind)
    }

    /// Whether a context has the variables that every request begins with.
    pub(super) fn is_base_context(&self, context: &Bound<'_, PyAny>) -> PyResult<bool> {
        context.eq(&self.context)
    }

    /// How many weak references to an object there are.
    pub(super) fn weak_references(&self, object: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.count_weak_references.bind(object.py()).call1((object,))?.extract()
    }

    /// Calls the application; what it gives can be stepped.
    pub(super) fn call(&self, exchange: &Bound<'_, Exchange>, head: &Head) -> PyResult<Py<PyAny>> {
        let py = exchange.py();
        let scope = self.scopes.http(py, head)?;
        let receive = super::functions::receive(exchange)?;
        let send = super::functions::send(exchange)?;
        let awaitable = self.application.bind(py).call1((scope, receive, send))?;
        stepped(awaitable)
    }

    /// An exception of the application: reported, and the client answered.
    pub(super) fn failed(
        &self,
        py: Python<'_>,
        exchange: &Bound<'_, Exchange>,
        error: &PyErr,
    ) -> PyResult<()> {
        let this = exchange.get();
        // What fails after the response is complete is of no consequence to the client.
        this.end(py, true);
        let Some(fault) = this.failure() else { return self.report(py, error) };
        // It failed because its request did: a line on that, and no traceback.
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

    // Slots.

    /// The next exchange for a slot that runs, as long as the drain may go on.
    pub(super) fn next_exchange(&self) -> Option<Box<OffloadedRequest>> {
        let next = self.next.take().or_else(|| self.next_arrival());
        match next {
            Some(Arrival::Exchange(handed)) => Some(handed),
            // A session begins outside of the slot's Task, which is none of its own.
            session => {
                *self.next.get() = session;
                None
            }
        }
    }

    fn next_arrival(&self) -> Option<Arrival> {
        if !self.draining.get() {
            return None;
        }
        let left = self.left.get();
        let now_us = net::clock::precise_us();
        if left == 0 || now_us >= self.until_us.get() {
            self.left.set(0);
            return None;
        }
        match self.desk().take_arrival() {
            Some(Event::Arrived(arrival, at_us)) => {
                self.left.set(left - 1);
                self.count(at_us, now_us);
                Some(arrival)
            }
            _ => None,
        }
    }

    /// Counts what is taken now.
    fn count(&self, at_us: u64, now_us: u64) {
        self.taken_us.set(now_us);
        let numbers = &self.life.numbers;
        numbers.requests.inc();
        numbers.in_flight.fetch_add(1, Ordering::Relaxed);
        numbers.queue.record_us(now_us.saturating_sub(at_us));
    }

    /// When the exchange that begins now was taken.
    pub(super) fn taken_us(&self) -> u64 {
        self.taken_us.get()
    }

    /// The application is done with an exchange that was taken at `taken_us`.
    pub(super) fn counted(&self, taken_us: u64) {
        let numbers = &self.life.numbers;
        numbers.in_flight.fetch_sub(1, Ordering::Relaxed);
        numbers.call.record_us(net::clock::precise_us().saturating_sub(taken_us));
    }

    pub(super) fn has_room_to_park(&self) -> bool {
        self.idle.get().len() < IDLE_MAX
    }

    /// A slot waits.
    pub(super) fn park(&self, parked: &Bound<'_, Parked>, slot: Py<Slot>) {
        drop(slot); // its Task holds it
        self.idle.get().push(parked.clone().unbind());
    }

    /// A slot's Task was cancelled while it waited.
    pub(super) fn unpark(&self, parked: &Bound<'_, Parked>) {
        self.idle.get().retain(|idle| !idle.is(parked));
    }

    /// Has the arrival answered: a request by a slot, one that waits or a new one.
    fn run(slf: &Bound<'_, Self>, arrival: Arrival) -> PyResult<()> {
        let this = slf.get();
        let handed = match arrival {
            Arrival::Exchange(handed) => handed,
            session => return Server::begin_session(slf, session),
        };
        let idle = this.idle.get().pop();
        match idle {
            Some(idle) => {
                *this.next.get() = Some(Arrival::Exchange(handed));
                Parked::go_on(idle.bind(slf.py()))?;
            }
            None => this.begin_task(slf, Some(handed))?,
        }
        let left = this.next.take();
        match left {
            None => Ok(()),
            // Its slot was cancelled.
            Some(Arrival::Exchange(handed)) => this.begin_task(slf, Some(handed)),
            Some(session) => Server::begin_session(slf, session),
        }
    }

    /// A Task with a slot. Where Tasks cannot begin at once it begins in the loop's next turn.
    fn begin_task(
        &self,
        slf: &Bound<'_, Self>,
        first: Option<Box<OffloadedRequest>>,
    ) -> PyResult<()> {
        let py = slf.py();
        let slot = Bound::new(py, Slot::new(py, slf.as_unbound(), first)?)?;
        self.task.bind(py).call((slot,), Some(self.task_options.bind(py))).map(drop)
    }

    /// A session of WebSocket: a Task of its own.
    fn begin_session(slf: &Bound<'_, Self>, arrival: Arrival) -> PyResult<()> {
        let Arrival::Session(handed) = arrival else { return Ok(()) };
        let (py, this) = (slf.py(), slf.get());
        let HandedSession { head, session } = *handed;
        let socket = WebSocket::new(slf.clone().unbind(), session, &head.headers);
        let socket = Bound::new(py, socket)?;
        match this.begin_talk(&socket, &head) {
            Ok(task) => {
                socket.get().keep(task.clone().unbind());
                let ended = super::functions::talk_ended(&socket)?;
                task.call_method1(intern!(py, "add_done_callback"), (ended,)).map(drop)
            }
            Err(error) => {
                socket.get().end(true);
                this.report(py, &error)
            }
        }
    }

    /// Calls the application in a context of its own; the Task of what it gives.
    fn begin_talk<'py>(
        &self,
        socket: &Bound<'py, WebSocket>,
        head: &Head,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = socket.py();
        let scope = self.scopes.websocket(py, head)?;
        let receive = super::functions::talk_receive(socket)?;
        let send = super::functions::talk_send(socket)?;
        let context = self.context(py)?.into_bound(py);
        let run = intern!(py, "run");
        let called = (&self.application, scope, receive, send);
        let coroutine = Guard::new(stepped(context.call_method1(run, called)?)?);
        let options = PyDict::new(py);
        options.set_item(intern!(py, "loop"), &self.event_loop)?;
        context.call_method(run, (&self.ensure_future, coroutine), Some(&options))
    }

    /// Logs what an application raised.
    pub(super) fn report(&self, py: Python<'_>, error: &PyErr) -> PyResult<()> {
        if super::send::is_of_gone(py, error) {
            return Ok(()); // what clients do is no error of the application
        }
        // Before 3.12 its traceback lies beside it, and `into_value` puts it inside.
        self.report.bind(py).call1((error.clone_ref(py).into_value(py),)).map(drop)
    }

    pub(super) fn numbers(&self) -> &Numbers {
        &self.life.numbers
    }

    // Waits of coroutines.

    pub(super) fn next_wait(&self) -> u64 {
        let number = self.next_wait.get();
        self.next_wait.set(number + 1);
        number
    }

    /// A future that is completed when the wait ends; its iterator.
    pub(super) fn begin_wait(&self, py: Python<'_>, number: u64) -> PyResult<Py<PyAny>> {
        let future = self.event_loop.bind(py).call_method0(intern!(py, "create_future"))?;
        let iterator = future.call_method0(intern!(py, "__await__"))?;
        self.waits.get().insert(number, future.unbind());
        Ok(iterator.unbind())
    }

    /// The wait has ended.
    pub(super) fn end_wait(&self, py: Python<'_>, number: u64) {
        let future = self.waits.get().remove(&number);
        if let Some(future) = future {
            // One that was cancelled is done already, and says so.
            let _ = future.call_method1(py, intern!(py, "set_result"), (py.None(),));
        }
    }

    /// Nobody waits any more.
    pub(super) fn forget_wait(&self, _py: Python<'_>, number: u64) {
        let future = self.waits.get().remove(&number);
        drop(future);
    }

    /// Has the worker woken once the loop has done what it does now.
    pub(super) fn flush_soon(slf: &Py<Self>, py: Python<'_>) -> PyResult<()> {
        let this = slf.get();
        if this.draining.get() || this.flush_is_due.get() || wake_batch::held() == 0 {
            return Ok(());
        }
        this.flush_is_due.set(true);
        let flush = slf.bind(py).getattr(intern!(py, "flush"))?;
        this.event_loop.bind(py).call_method1(intern!(py, "call_soon"), (flush,)).map(drop)
    }
}

#[pymethods]
impl Server {
    /// The descriptor that is readable when [`Server::drain`] is to be called.
    fn fileno(&self) -> i32 {
        self.life.bell().as_fd().as_raw_fd()
    }

    /// Answers what has arrived, for as long as a drain may take.
    fn drain(slf: &Bound<'_, Self>) -> PyResult<()> {
        let this = slf.get();
        // A drain that goes on was not rung for; who rings meanwhile is heard in its own turn.
        if !this.goes_on.get() {
            this.life.bell().reset();
        }
        this.goes_on.set(false);
        super::probe::forget(slf.py());
        this.desk().awake();
        this.draining.set(true);
        this.left.set(DRAINED_MAX);
        let now_us = net::clock::precise_us();
        this.until_us.set(now_us + DRAIN_US);
        // What blocks does so here, where the bell has been heard already.
        this.life.set_oldest_call_us(now_us);
        let outcome = Server::drain_desk(slf);
        // One that is to go on is waited for as well.
        let goes_on = *outcome.as_ref().unwrap_or(&false);
        this.life.set_oldest_call_us(if goes_on { net::clock::precise_us() } else { 0 });
        this.draining.set(false);
        wake_batch::flush();
        if this.life.is_stopping() {
            this.on_stop.call0(slf.py())?;
        }
        outcome.map(drop)
    }

    /// Wakes the worker for what was sent outside of a drain.
    fn flush(&self) {
        self.flush_is_due.set(false);
        wake_batch::flush();
    }

    /// Makes Tasks that wait for requests.
    fn warm_up(slf: &Bound<'_, Self>) -> PyResult<()> {
        for _ in 0..4 {
            slf.get().begin_task(slf, None)?;
        }
        Ok(())
    }
}

impl Server {
    /// Whether the rest is left to the loop's next turn.
    fn drain_desk(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let py = slf.py();
        let this = slf.get();
        loop {
            match this.desk().take() {
                Some(Event::Ended(number)) => this.end_wait(py, number),
                Some(Event::Arrived(arrival, at_us)) => {
                    this.left.set(this.left.get().saturating_sub(1));
                    this.count(at_us, net::clock::precise_us());
                    Server::run(slf, arrival)?;
                }
                None if this.desk().sleep() => return Ok(false),
                None => {}
            }
            if this.left.get() == 0 || net::clock::precise_us() >= this.until_us.get() {
                // The loop's other work has its turn; nobody has to ring meanwhile.
                this.goes_on.set(true);
                let drain = slf.getattr(intern!(py, "drain"))?;
                let event_loop = this.event_loop.bind(py);
                event_loop.call_method1(intern!(py, "call_soon"), (drain,))?;
                return Ok(true);
            }
        }
    }
}

/// What can be stepped of an awaitable.
fn stepped(awaitable: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let py = awaitable.py();
    // SAFETY: the object is alive; the check looks at its type.
    if unsafe { ffi::PyCoro_CheckExact(awaitable.as_ptr()) } != 0 {
        return Ok(awaitable.unbind());
    }
    match awaitable.call_method0(intern!(py, "__await__")) {
        Ok(iterator) => Ok(iterator.unbind()),
        Err(_) => {
            let name = awaitable.get_type().name()?;
            let why = format!(
                "the application returned {name} instead of a coroutine: ASGI 3 applications are \
                 `async def app(scope, receive, send)`"
            );
            Err(PyTypeError::new_err(why))
        }
    }
}
