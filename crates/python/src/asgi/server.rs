//! The ASGI server: drains the queue on the event loop.
//!
//! A drain resumes idle request loops, starts new ones and the Tasks of WebSocket sessions, and
//! resumes the Tasks of operations that were woken.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;

use offload::session::HandedSession;
use offload::{Arrival, Event, Head, OffloadedRequest, wake_batch};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::app_loop::AppLoop;
use super::call_objects::SpareObjects;
use super::coroutine::of_awaitable;
use super::guard::Guard;
use super::request_loop::RequestLoop;
use super::task_future::TaskFuture;
use super::websocket::WebSocket;
use crate::app_status::AppStatus;
use crate::gil::GilFlag;

/// Idle request loops that exist before the first request.
const WARM_REQUEST_LOOPS: usize = 4;

#[pyclass(frozen, module = "tidegate._tidegate")]
pub struct Server {
    app: Py<AppLoop>,
    spare: Arc<SpareObjects>,
    /// Called when the I/O thread has ended and the application must shut down.
    on_stop: Py<PyAny>,
    task: Py<PyAny>,
    /// Keyword arguments of `task`: the event loop and, from CPython 3.12.5, an eager start.
    task_options: Py<PyDict>,
    ensure_future: Py<PyAny>,
    /// True if the previous drain scheduled the next one.
    is_scheduled: GilFlag<bool>,
}

/// The application and its settings.
pub struct AppOptions {
    pub application: Py<PyAny>,
    pub event_loop: Py<PyAny>,
    pub root_path: String,
    /// The state that the application's lifespan has set.
    pub state: Option<Py<PyDict>>,
    /// Called with an exception that the application raised, and the scope of its request.
    pub report: Py<PyAny>,
    /// Called when the application must shut down.
    pub on_stop: Py<PyAny>,
}

impl Server {
    /// Creates the server of an application on the running thread's event loop.
    pub fn new(py: Python<'_>, status: Arc<AppStatus>, options: AppOptions) -> PyResult<Server> {
        let AppOptions { application, event_loop, root_path, state, report, on_stop } = options;
        let asyncio = PyModule::import(py, "asyncio")?;
        let task_options = PyDict::new(py);
        task_options.set_item("loop", &event_loop)?;
        if py.version_info() >= (3, 12, 5) {
            task_options.set_item("eager_start", true)?;
        }
        wake_batch::hold();
        let app = AppLoop::new(py, status, application, event_loop, (root_path, state), report)?;
        Ok(Server {
            app: Py::new(py, app)?,
            spare: Arc::default(),
            on_stop,
            task: asyncio.getattr("Task")?.unbind(),
            task_options: task_options.unbind(),
            ensure_future: asyncio.getattr("ensure_future")?.unbind(),
            is_scheduled: GilFlag::new(false),
        })
    }

    /// Starts a request on an idle request loop or a new one, or a session.
    fn begin(&self, py: Python<'_>, arrival: Arrival) -> PyResult<()> {
        let app = self.app.get();
        let request = match arrival {
            Arrival::Exchange(request) => request,
            Arrival::Session(session) => return self.begin_session(py, *session),
        };
        match app.idle.pop() {
            Some(idle) => {
                *app.next.get() = Some(Arrival::Exchange(request));
                TaskFuture::resume(idle.bind(py))?;
            }
            None => self.begin_request_loop(py, Some(request))?,
        }
        let remaining = app.next.take();
        match remaining {
            None => Ok(()),
            // The request loop was cancelled.
            Some(Arrival::Exchange(request)) => self.begin_request_loop(py, Some(request)),
            Some(Arrival::Session(session)) => self.begin_session(py, *session),
        }
    }

    /// Starts a Task with a request loop: immediately, or without eager Tasks in the next iteration
    /// of the event loop.
    fn begin_request_loop(
        &self,
        py: Python<'_>,
        first: Option<Box<OffloadedRequest>>,
    ) -> PyResult<()> {
        let request_loop =
            Bound::new(py, RequestLoop::new(self.app.clone_ref(py), self.spare.clone(), first))?;
        self.task.bind(py).call((request_loop,), Some(self.task_options.bind(py))).map(drop)
    }

    /// Starts the Task of a WebSocket session.
    fn begin_session(&self, py: Python<'_>, session: HandedSession) -> PyResult<()> {
        let HandedSession { head, session } = session;
        let socket = WebSocket::new(self.app.clone_ref(py), session, &head.headers);
        let socket = Bound::new(py, socket)?;
        match self.begin_session_task(&socket, &head) {
            Ok(task) => {
                socket.get().set_task(task.clone().unbind());
                let ended = super::functions::websocket_ended(&socket)?;
                task.call_method1(intern!(py, "add_done_callback"), (ended,)).map(drop)
            }
            Err(error) => {
                let scope = socket.get().end(true);
                self.app.get().report(py, &error, scope.as_ref())
            }
        }
    }

    /// Calls the application in its own context; returns the Task of its coroutine.
    fn begin_session_task<'py>(
        &self,
        socket: &Bound<'py, WebSocket>,
        head: &Head,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = socket.py();
        let app = self.app.get();
        let scope = app.scopes.websocket(py, head)?;
        socket.get().set_scope(scope.clone().unbind());
        let receive = super::functions::websocket_receive(socket)?;
        let send = super::functions::websocket_send(socket)?;
        let context = app.context(py)?.into_bound(py);
        let run = intern!(py, "run");
        let awaitable = context.call_method1(run, (&app.application, scope, receive, send))?;
        let coroutine = Guard::new(of_awaitable(awaitable)?);
        let options = PyDict::new(py);
        options.set_item(intern!(py, "loop"), &app.event_loop)?;
        context.call_method(run, (&self.ensure_future, coroutine), Some(&options))
    }

    /// Drains the queue; true if the rest remains for the next iteration of the event loop.
    fn drain_queue(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let (py, this) = (slf.py(), slf.get());
        let app = this.app.get();
        let queue = app.queue();
        loop {
            match queue.take() {
                Some(Event::Ended(id)) => app.resume_op(py, id)?,
                Some(Event::Arrived(arrival, at_us)) => {
                    app.count_begin(at_us, net::clock::precise_us());
                    this.begin(py, arrival)?;
                }
                None if queue.sleep() => return Ok(false),
                None => {}
            }
            if app.is_budget_spent(net::clock::precise_us()) {
                // Other callbacks of the event loop run first; no notification is needed.
                this.is_scheduled.set(true);
                let drain = slf.getattr(intern!(py, "drain"))?;
                app.event_loop.call_method1(py, intern!(py, "call_soon"), (drain,))?;
                return Ok(true);
            }
        }
    }
}

#[pymethods]
impl Server {
    /// The descriptor that is readable when [`Server::drain`] must be called.
    fn fileno(&self) -> i32 {
        self.app.get().status.event().as_fd().as_raw_fd()
    }

    /// Runs the requests in the queue, for as long as a drain may take.
    fn drain(slf: &Bound<'_, Self>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        let app = this.app.get();
        let status = &app.status;
        // A scheduled drain was not notified; a notification since then triggers its own drain.
        if !this.is_scheduled.get() {
            status.event().reset();
        }
        this.is_scheduled.set(false);
        super::probe::reset();
        app.queue().mark_awake();
        let now_us = net::clock::precise_us();
        app.begin_drain(now_us);
        // A call that blocks from here on blocks after the notification was acknowledged.
        status.set_oldest_call_us(now_us);
        let result = Server::drain_queue(slf);
        // The lag includes the time until a scheduled drain.
        let continues = *result.as_ref().unwrap_or(&false);
        status.set_oldest_call_us(if continues { net::clock::precise_us() } else { 0 });
        app.end_drain();
        wake_batch::flush();
        if status.is_stopping() {
            this.on_stop.call0(py)?;
        }
        result.map(drop)
    }

    /// Starts idle request loops.
    fn warm_up(&self, py: Python<'_>) -> PyResult<()> {
        (0..WARM_REQUEST_LOOPS).try_for_each(|_| self.begin_request_loop(py, None))
    }
}
