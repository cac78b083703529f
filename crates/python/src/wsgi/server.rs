//! The WSGI server and the loop of its threads.
//!
//! A thread takes a request, calls the application, responds, and takes the next request without
//! releasing the GIL in between; it releases the GIL when the queue is empty.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use message::{BodyStream, Fault, FaultKind};
use offload::session::HandedSession;
use offload::{Arrival, Event, OffloadedRequest, wake_batch};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use wire::Method;

use super::application::Application;
use super::body;
use super::environ::{Common, Environs};
use super::file::FileWrapper;
use super::functions::{early_hints, start_response};
use super::input::{Input, Source};
use super::limits::{
    BATCHED_WAKES_MAX, EXIT_TIMEOUT, QUICK_CALL_US, SLOW_CALL_US, STACK_BYTES, THREADS_MAX,
    THREADS_PER_PROCESSOR, UNBATCHED_CALLS,
};
use super::pool_thread::PoolThread;
use super::reply::Reply;
use super::thread_pool::{AfterIdle, ThreadPool};
use super::watcher::watch;
use crate::app_status::AppStatus;

/// The application and its settings.
pub struct AppOptions {
    pub application: Py<PyAny>,
    pub root_path: String,
    /// Maximum number of threads; 0 selects the default.
    pub threads: usize,
    /// True if other processes run the application too.
    pub multiprocess: bool,
    /// `wsgi.errors`.
    pub errors: Py<PyAny>,
    /// `wsgi.file_wrapper`; by default one that sends regular files in the kernel.
    pub file_wrapper: Option<Py<PyAny>>,
    /// Called with an exception that the application raised, and the environ of its request.
    pub report: Py<PyAny>,
    /// Called with a description of a violation of WSGI.
    pub complain: Py<PyAny>,
}

#[pyclass(frozen, module = "tidegate._tidegate")]
pub struct Server(Arc<Application>);

/// The Python objects that a thread reuses for consecutive requests.
struct CallObjects {
    reply: Py<Reply>,
    start_response: Py<PyAny>,
    early_hints: Py<PyAny>,
}

impl CallObjects {
    fn new(py: Python<'_>, application: &Arc<Application>) -> PyResult<CallObjects> {
        let reply = Bound::new(py, Reply::new(application.clone()))?;
        let start_response = start_response(&reply)?.unbind();
        let early_hints = early_hints(&reply)?.unbind();
        Ok(CallObjects { reply: reply.unbind(), start_response, early_hints })
    }

    /// Breaks the reference cycle between the reply and `write`.
    fn break_cycle(&self) {
        let write = self.reply.get().write.take();
        drop(write);
    }

    /// False if the application still references one of the objects, such as `start_response`.
    fn is_unshared(&self) -> bool {
        let write = self.reply.get().write.get().as_ref().map(|write| write.as_ptr());
        // SAFETY: the objects are alive.
        let references = |object: *mut ffi::PyObject| unsafe { ffi::Py_REFCNT(object) };
        references(self.start_response.as_ptr()) == 1
            && references(self.early_hints.as_ptr()) == 1
            && write.is_none_or(|write| references(write) == 1)
            && references(self.reply.as_ptr()) == 3 + isize::from(write.is_some())
    }
}

impl Server {
    pub fn new(
        py: Python<'_>,
        status: Arc<AppStatus>,
        pool: Arc<ThreadPool>,
        options: AppOptions,
    ) -> PyResult<Server> {
        status.queue().serve_threads();
        pool.activate(status.clone());
        application(py, status, pool, options).map(Server)
    }
}

/// Prepares what all requests of an application share.
pub(super) fn application(
    py: Python<'_>,
    status: Arc<AppStatus>,
    pool: Arc<ThreadPool>,
    options: AppOptions,
) -> PyResult<Arc<Application>> {
    let threads_max = match options.threads {
        0 => {
            let processors = std::thread::available_parallelism().map_or(1, usize::from);
            THREADS_MAX.min(processors * THREADS_PER_PROCESSOR)
        }
        threads => threads,
    };
    let file_wrapper = match options.file_wrapper {
        Some(file_wrapper) => file_wrapper.into_bound(py),
        None => py.get_type::<FileWrapper>().into_any(),
    };
    let environs = Environs::new(
        py,
        Common {
            root_path: options.root_path,
            multithread: threads_max > 1,
            multiprocess: options.multiprocess,
            errors: options.errors.into_bound(py),
            file_wrapper,
            no_input: Bound::new(py, Input::new(Source::default()))?.into_any(),
        },
    )?;
    Ok(Arc::new(Application {
        status,
        pool,
        callable: options.application,
        environs,
        threads_max,
        report: options.report,
        complain: options.complain,
    }))
}

#[pymethods]
impl Server {
    /// Serves on this thread, and on others as needed, until the process stops. Returns whether all
    /// threads have exited.
    fn run(&self, py: Python<'_>) -> PyResult<bool> {
        let application = &self.0;
        let pool = &application.pool;
        let Some(thread) = pool.add(application.threads_max) else { return Ok(true) };
        let watched = application.clone();
        let watcher = std::thread::Builder::new().name("watch".to_owned()).spawn(move || {
            watch(&watched.status, &watched.pool, || start_thread(&watched));
        })?;
        let served = serve(py, application, &thread, true);
        pool.remove(&thread);
        py.detach(|| {
            pool.wake_all();
            pool.wake_watcher();
            // A panic of the watcher does not change the result.
            drop(watcher.join());
        });
        served?;
        Ok(py.detach(|| pool.wait_until_empty(EXIT_TIMEOUT)))
    }
}

/// Starts another thread, if the limit allows.
fn start_thread(application: &Arc<Application>) {
    let Some(thread) = application.pool.add(application.threads_max) else { return };
    let (served, entry) = (application.clone(), thread.clone());
    let name = format!("wsgi-{}", thread.number());
    let builder = std::thread::Builder::new().name(name.clone()).stack_size(STACK_BYTES);
    let spawned = builder.spawn(move || {
        Python::attach(|py| {
            let result = set_name(py, &name).and_then(|()| serve(py, &served, &entry, false));
            if let Err(error) = result {
                served.report(py, &error, None);
            }
        });
        served.pool.remove(&entry);
    });
    if spawned.is_err() {
        application.pool.remove(&thread);
    }
}

/// The loop of a thread.
fn serve(
    py: Python<'_>,
    application: &Arc<Application>,
    thread: &Arc<PoolThread>,
    permanent: bool,
) -> PyResult<()> {
    thread.bind_current();
    wake_batch::hold();
    let status = &application.status;
    let mut objects = CallObjects::new(py, application)?;
    let mut now_us = net::clock::precise_us();
    let mut unbatched = 0;
    while !status.is_stopping() {
        match status.queue().take_arrival() {
            Some(Event::Arrived(arrival, at_us)) => {
                thread.set_progress(now_us);
                count_begin(application, now_us.saturating_sub(at_us));
                respond(py, application, &mut objects, arrival)?;
                thread.set_idle();
                let ended_us = net::clock::precise_us();
                let took_us = ended_us.saturating_sub(now_us);
                count_end(status, took_us);
                unbatched = match took_us {
                    SLOW_CALL_US.. => UNBATCHED_CALLS,
                    _ => unbatched.saturating_sub(1),
                };
                if unbatched > 0
                    || took_us > QUICK_CALL_US
                    || wake_batch::deferred_count() >= BATCHED_WAKES_MAX
                {
                    wake_batch::flush();
                }
                now_us = ended_us;
            }
            Some(Event::Ended(_)) => {}
            None => {
                wake_batch::flush();
                let without_gil =
                    |sleep: &mut (dyn FnMut() -> bool + Send)| application.without_gil(py, sleep);
                if application.pool.idle(thread, permanent, without_gil) == AfterIdle::Exit {
                    break;
                }
                now_us = net::clock::precise_us();
            }
        }
    }
    wake_batch::release();
    objects.break_cycle();
    Ok(())
}

pub(super) fn count_begin(application: &Application, waited_us: u64) {
    let metrics = &application.status.metrics;
    metrics.requests.inc();
    metrics.in_flight.fetch_add(1, Ordering::Relaxed);
    metrics.queue.record_us(waited_us);
    application.pool.set_last_wait_us(waited_us);
}

pub(super) fn count_end(status: &AppStatus, took_us: u64) {
    status.metrics.in_flight.fetch_sub(1, Ordering::Relaxed);
    status.metrics.call.record_us(took_us);
}

/// Responds to one request.
fn respond(
    py: Python<'_>,
    application: &Arc<Application>,
    objects: &mut CallObjects,
    arrival: Arrival,
) -> PyResult<()> {
    let request = match arrival {
        Arrival::Exchange(request) => request,
        Arrival::Session(session) => {
            deny(*session);
            return Ok(());
        }
    };
    let OffloadedRequest { head, body, answer } = *request;
    let reply = objects.reply.bind(py).get();
    reply.begin(answer, head.method == Method::Head);
    // Until the response is complete, for the report of an exception.
    let mut environ = None;
    let called = call(py, application, objects, head, body, &mut environ);
    let failed = called.is_err();
    if let Err(error) = called {
        application.report(py, &error, environ.as_ref());
    }
    if let Err(error) = reply.end(py, failed) {
        application.report(py, &error, environ.as_ref());
    }
    // It refers to one of the objects.
    drop(environ);
    if !objects.is_unshared() {
        // Late calls get a reply that is complete.
        objects.break_cycle();
        *objects = CallObjects::new(py, application)?;
    }
    Ok(())
}

/// Rejects a WebSocket: WSGI has none.
pub(super) fn deny(mut session: HandedSession) {
    if let Some(answering) = session.session.deny() {
        let reason = "the application does not support WebSocket";
        answering.fail(Fault::new(FaultKind::WebSocketUnknown, reason));
    }
}

/// Calls the application and sends the body that it returns. Sets `environ` to what it is called
/// with.
fn call<'py>(
    py: Python<'py>,
    application: &Application,
    objects: &CallObjects,
    head: offload::Head,
    body: offload::Incoming,
    environ: &mut Option<Bound<'py, PyDict>>,
) -> PyResult<()> {
    let input = match body.length() {
        Some(0) => None,
        _ => Some(Bound::new(py, Input::new(Source::new(body)))?.into_any()),
    };
    let early_hints = objects.early_hints.bind(py);
    let made = application.environs.environ(py, &head, input, early_hints)?;
    let environ = &*environ.insert(made);
    drop(head);
    let arguments = [environ.as_ptr(), objects.start_response.as_ptr()];
    // SAFETY: the application and both arguments are alive across the call; the result is an owned
    // reference, or null with an error set.
    let result = unsafe {
        let result = ffi::PyObject_Vectorcall(
            application.callable.as_ptr(),
            arguments.as_ptr(),
            arguments.len(),
            std::ptr::null_mut(),
        );
        Bound::from_owned_ptr_or_err(py, result)?
    };
    let reply = objects.reply.get();
    let sent = body::send(reply, &result);
    // PEP 3333: "regardless of whether the request was completed".
    if let Err(error) = body::close(&result) {
        application.report(py, &error, Some(environ));
    }
    sent
}

/// Names the running thread in Python.
fn set_name(py: Python<'_>, name: &str) -> PyResult<()> {
    let thread = PyModule::import(py, "threading")?.call_method0("current_thread")?;
    thread.setattr("name", name)
}
