//! A worker process, as `tidegate/_worker.py` sees it: what it was started with, its I/O thread,
//! and the server of its application.

use std::sync::Arc;
use std::thread::JoinHandle;

use exchange::offload::RequestQueue;
use net::EventFd;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use python::asgi;
use python::life::{Life, dump_signal};
use python::wsgi::{self, Crew};
use server::{
    Application, HostedApplication, ReadinessSender, Stats, WorkerSpec, readiness_channel,
    run_worker,
};

/// Exchanges that may wait for the application.
const WAITING_MAX: usize = 4096;

/// What `server` knows of the application.
struct Known(Arc<Life>);

impl Application for Known {
    fn stats(&self) -> Stats {
        let numbers = &self.0.numbers;
        let level = |level: &std::sync::atomic::AtomicI64| {
            u64::try_from(level.load(std::sync::atomic::Ordering::Relaxed)).unwrap_or(0)
        };
        Stats {
            requests: numbers.requests.get(),
            in_flight: level(&numbers.in_flight),
            websockets: level(&numbers.websockets),
            queue: numbers.queue.snapshot(),
            call: numbers.call.snapshot(),
            gil_wait: numbers.gil_wait.snapshot(),
            ..Stats::default()
        }
    }

    fn lag_ms(&self) -> u64 {
        self.0.lag_ms()
    }

    fn is_in_one_call(&self) -> bool {
        self.0.is_in_one_call()
    }

    fn oldest_call_ms(&self) -> u64 {
        self.0.oldest_call_ms()
    }

    fn drain(&self) {
        self.0.drain();
    }

    fn stop(&self) {
        self.0.stop();
    }

    fn dump(&self) -> String {
        self.0.dump()
    }
}

/// The process.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct Worker {
    spec: WorkerSpec,
    life: Arc<Life>,
    crew: Arc<Crew>,
    ready_sender: python::Guarded<Option<ReadinessSender>>,
    thread: python::Guarded<Option<JoinHandle<u8>>>,
}

/// The worker that this process was started as; `None` where it is none.
#[pyfunction]
pub(crate) fn worker() -> PyResult<Option<Worker>> {
    let Some(spec) = WorkerSpec::from_environment() else { return Ok(None) };
    begin(spec.map_err(PyValueError::new_err)?).map(Some)
}

/// A worker inside of a program that runs already, from what a supervisor would write.
#[pyfunction]
pub(crate) fn embedded(spec: &str) -> PyResult<Worker> {
    let spec = WorkerSpec::from_json(spec).map_err(PyValueError::new_err)?;
    begin(WorkerSpec { embedded: true, ..spec })
}

fn begin(spec: WorkerSpec) -> PyResult<Worker> {
    let bell = Arc::new(EventFd::new()?);
    let (rings, crew) = (bell.clone(), Crew::new());
    // Who reads the desk is known when the application is: threads, or an event loop.
    let threads = crew.clone();
    let desk = RequestQueue::new(WAITING_MAX, move || {
        if !threads.alarm() {
            rings.notify();
        }
    });
    let life = Life::new(desk.clone(), bell);
    let (ready_sender, readiness) = readiness_channel();
    let hosted =
        HostedApplication { application: Arc::new(Known(life.clone())), queue: desk, readiness };
    let of_the_thread = spec.clone();
    let thread = std::thread::Builder::new()
        .name("io".to_owned())
        .spawn(move || run_worker(&of_the_thread, hosted))
        .map_err(|error| PyOSError::new_err(format!("no thread for sockets: {error}")))?;
    Ok(Worker {
        spec,
        life,
        crew,
        ready_sender: python::Guarded::new(Some(ready_sender)),
        thread: python::Guarded::new(Some(thread)),
    })
}

#[pymethods]
impl Worker {
    /// What was said of the application, as JSON.
    #[getter]
    fn settings(&self) -> String {
        self.spec.python.to_string()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.spec.app
    }

    /// How the server's own events are written: `text` or `json`.
    #[getter]
    fn log_format(&self) -> &str {
        &self.spec.log_format
    }

    #[getter]
    fn slot(&self) -> usize {
        self.spec.slot
    }

    #[getter]
    fn store(&self) -> Option<String> {
        self.spec.store.as_ref().map(|path| path.to_string_lossy().into_owned())
    }

    /// The signal for which `faulthandler` is to be registered.
    #[getter]
    fn dump_signal(&self) -> i32 {
        dump_signal()
    }

    /// The descriptor of the file that `faulthandler` writes to.
    fn keep_stacks(&self, descriptor: i32) -> PyResult<()> {
        Ok(self.life.keep_stacks(descriptor)?)
    }

    /// The server of an ASGI application on the running thread's event loop.
    #[pyo3(signature = (application, event_loop, *, root_path, state, report, on_stop))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn asgi(
        &self,
        py: Python<'_>,
        application: Py<PyAny>,
        event_loop: Py<PyAny>,
        root_path: String,
        state: Option<Py<PyDict>>,
        report: Py<PyAny>,
        on_stop: Py<PyAny>,
    ) -> PyResult<asgi::Server> {
        let hosted = asgi::Hosted { application, event_loop, root_path, state, report, on_stop };
        asgi::Server::new(py, self.life.clone(), hosted)
    }

    /// The server of a WSGI application.
    #[pyo3(signature = (
        application, *, root_path, threads, multiprocess, errors, report, complain,
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn wsgi(
        &self,
        py: Python<'_>,
        application: Py<PyAny>,
        root_path: String,
        threads: usize,
        multiprocess: bool,
        errors: Py<PyAny>,
        report: Py<PyAny>,
        complain: Py<PyAny>,
    ) -> PyResult<wsgi::Server> {
        let given = wsgi::Application {
            application,
            root_path,
            threads,
            multiprocess,
            errors,
            report,
            complain,
        };
        wsgi::Server::new(py, self.life.clone(), self.crew.clone(), given)
    }

    /// The application takes requests.
    fn ready(&self) {
        if let Some(sender) = &*self.ready_sender.get() {
            sender.ready();
        }
    }

    /// The application cannot begin.
    fn failed(&self, why: String) {
        if let Some(sender) = &*self.ready_sender.get() {
            sender.failed(why);
        }
    }

    /// Waits for the I/O thread; the exit code of the process.
    fn join(&self, py: Python<'_>) -> PyResult<u8> {
        drop(self.ready_sender.get().take());
        let thread = self.thread.get().take();
        let Some(thread) = thread else { return Ok(0) };
        let joined = py.detach(|| thread.join());
        joined.map_err(|_| PyRuntimeError::new_err("the thread of the sockets has failed"))
    }
}
