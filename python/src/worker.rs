//! The worker process: its specification, its I/O thread and the server of its application.
//! `tidegate/_worker.py` drives it.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use net::EventFd;
use offload::RequestQueue;
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use python::app_status::{AppStatus, dump_signal};
use python::asgi;
use python::wsgi::{self, ThreadPool};
use server::{
    Application, HostedApplication, ReadinessSender, Stats, WorkerSpec, readiness_channel,
    run_worker,
};
use telemetry::ErrorRecord;

/// Maximum number of requests in the queue.
const QUEUED_MAX: usize = 4096;

/// Gives the crate `server` access to the application's status.
struct StatusAdapter(Arc<AppStatus>);

impl Application for StatusAdapter {
    fn stats(&self) -> Stats {
        let metrics = &self.0.metrics;
        let gauge = |level: &std::sync::atomic::AtomicI64| {
            u64::try_from(level.load(std::sync::atomic::Ordering::Relaxed)).unwrap_or(0)
        };
        Stats {
            requests: metrics.requests.get(),
            in_flight: gauge(&metrics.in_flight),
            websockets: gauge(&metrics.websockets),
            queue: metrics.queue.snapshot(),
            call: metrics.call.snapshot(),
            gil_wait: metrics.gil_wait.snapshot(),
            ..Stats::default()
        }
    }

    fn take_errors(&self) -> Vec<ErrorRecord> {
        self.0.errors.take()
    }

    fn check_progress(&self) {
        self.0.check_progress();
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

    fn begin_draining(&self, within: Duration) {
        self.0.begin_draining(within);
    }

    fn interrupted(&self) {
        self.0.set_interrupted();
    }

    fn metrics(&self) -> String {
        self.0.own_metrics()
    }

    fn stop(&self) {
        self.0.stop();
    }

    fn dump(&self) -> String {
        self.0.dump()
    }
}

/// The worker process.
#[pyclass(frozen, module = "tidegate._tidegate")]
pub(crate) struct Worker {
    spec: WorkerSpec,
    status: Arc<AppStatus>,
    pool: Arc<ThreadPool>,
    ready_sender: python::Guarded<Option<ReadinessSender>>,
    thread: python::Guarded<Option<JoinHandle<u8>>>,
}

/// Starts the worker that the environment of this process specifies; `None` if it specifies none.
#[pyfunction]
pub(crate) fn worker() -> PyResult<Option<Worker>> {
    let Some(spec) = WorkerSpec::from_environment() else { return Ok(None) };
    begin(spec.map_err(PyValueError::new_err)?).map(Some)
}

/// Starts a worker inside a running program, from the specification that a supervisor would write.
#[pyfunction]
pub(crate) fn embedded(spec: &str) -> PyResult<Worker> {
    let spec = WorkerSpec::from_json(spec).map_err(PyValueError::new_err)?;
    begin(WorkerSpec { embedded: true, ..spec })
}

fn begin(spec: WorkerSpec) -> PyResult<Worker> {
    let event = Arc::new(EventFd::new()?);
    let pool = ThreadPool::new();
    // The interface of the application decides whether threads or an event loop read the queue.
    let (notified_event, notified_pool) = (event.clone(), pool.clone());
    let queue = RequestQueue::new(QUEUED_MAX, move || {
        if !notified_pool.notify() {
            notified_event.notify();
        }
    });
    let status = AppStatus::new(queue.clone(), event);
    let (ready_sender, readiness) = readiness_channel();
    let application = Arc::new(StatusAdapter(status.clone()));
    let hosted = HostedApplication { application, queue, readiness };
    let thread_spec = spec.clone();
    let thread = std::thread::Builder::new()
        .name("io".to_owned())
        .spawn(move || run_worker(&thread_spec, hosted))
        .map_err(|error| {
            PyOSError::new_err(format!("the I/O thread cannot be started: {error}"))
        })?;
    Ok(Worker {
        spec,
        status,
        pool,
        ready_sender: python::Guarded::new(Some(ready_sender)),
        thread: python::Guarded::new(Some(thread)),
    })
}

#[pymethods]
impl Worker {
    /// The settings of the application, as JSON.
    #[getter]
    fn settings(&self) -> String {
        self.spec.python.to_string()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.spec.app
    }

    /// The format of the server's events: `text` or `json`.
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

    /// The signal for which `faulthandler` must be registered.
    #[getter]
    fn dump_signal(&self) -> i32 {
        dump_signal()
    }

    /// The rest of the time that the process has to finish what is in flight, in seconds.
    #[getter]
    fn drain_left(&self) -> f64 {
        self.status.drain_left().as_secs_f64()
    }

    /// True if an interrupt ends the server.
    #[getter]
    fn is_interrupted(&self) -> bool {
        self.status.is_interrupted()
    }

    /// True if a supervisor shows the exceptions of requests and jobs.
    #[getter]
    fn is_supervised(&self) -> bool {
        !self.spec.embedded
    }

    /// Records an exception that a request or a job raised, and the trace of the request.
    fn record_error(
        &self,
        request: String,
        message: String,
        traceback: String,
        trace_id: Option<String>,
    ) {
        let request = Some(request);
        let error = ErrorRecord { request, message, traceback, trace_id, ..ErrorRecord::default() };
        self.status.errors.add(error);
    }

    /// Sets the descriptor of the file that `faulthandler` writes to.
    fn set_stack_file(&self, descriptor: i32) -> PyResult<()> {
        Ok(self.status.set_stack_file(descriptor)?)
    }

    /// Sets the function that returns the application's own metrics, in the Prometheus text format.
    fn set_own_metrics(&self, function: Py<PyAny>) {
        self.status.set_own_metrics(function);
    }

    /// Creates the server of an ASGI application on the running thread's event loop.
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
        let options =
            asgi::AppOptions { application, event_loop, root_path, state, report, on_stop };
        asgi::Server::new(py, self.status.clone(), options)
    }

    /// Creates the server of a WSGI application.
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
        let options = wsgi::AppOptions {
            application,
            root_path,
            threads,
            multiprocess,
            errors,
            file_wrapper: None,
            report,
            complain,
        };
        wsgi::Server::new(py, self.status.clone(), self.pool.clone(), options)
    }

    /// Creates the server of a WSGI application that runs in greenlets.
    #[pyo3(signature = (
        application, *, root_path, multiprocess, errors, file_wrapper, report, complain,
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords of Python")]
    fn greenlets(
        &self,
        py: Python<'_>,
        application: Py<PyAny>,
        root_path: String,
        multiprocess: bool,
        errors: Py<PyAny>,
        file_wrapper: Py<PyAny>,
        report: Py<PyAny>,
        complain: Py<PyAny>,
    ) -> PyResult<wsgi::GreenletServer> {
        let options = wsgi::AppOptions {
            application,
            root_path,
            // `wsgi.multithread`: gunicorn says so too.
            threads: 2,
            multiprocess,
            errors,
            file_wrapper: Some(file_wrapper),
            report,
            complain,
        };
        wsgi::GreenletServer::new(py, self.status.clone(), self.pool.clone(), options)
    }

    /// Reports that the application is ready for requests.
    fn ready(&self) {
        if let Some(sender) = &*self.ready_sender.get() {
            sender.ready();
        }
    }

    /// Reports that the application cannot start.
    fn failed(&self, reason: String) {
        if let Some(sender) = &*self.ready_sender.get() {
            sender.failed(reason);
        }
    }

    /// Waits for the I/O thread; returns the exit code of the process.
    fn join(&self, py: Python<'_>) -> PyResult<u8> {
        drop(self.ready_sender.get().take());
        let thread = self.thread.get().take();
        let Some(thread) = thread else { return Ok(0) };
        let joined = py.detach(|| thread.join());
        joined.map_err(|_| PyRuntimeError::new_err("the I/O thread has panicked"))
    }
}
