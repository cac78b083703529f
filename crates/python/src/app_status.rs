//! State shared by the I/O thread and the application's threads: metrics, lag, shutdown.
//!
//! Promises that nothing here waits for the interpreter but [`AppStatus::dump`]: the I/O thread
//! calls all else.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use net::EventFd;
use offload::RequestQueue;
use pyo3::prelude::*;
use telemetry::{Counter, Histogram, RecentErrors};

/// Maximum size of a stack dump.
const DUMP_BYTES: usize = 64 * 1024;
/// Time in which an interpreter that runs Python code releases the GIL: a hundred times its
/// interval of 5 ms, for a busy machine.
const GIL_WITHIN: Duration = Duration::from_millis(500);
/// Time in which the application's own metrics are read: below the supervisor's time-out.
const METRICS_WITHIN: Duration = Duration::from_secs(1);
/// Readers of the same metrics: while the interpreter is blocked, each scrape adds one.
const METRICS_READERS_MAX: usize = 16;

/// Metrics of the application. Threads that hold the GIL update them, one at a time.
#[derive(Default)]
pub struct AppMetrics {
    pub requests: Counter,
    pub in_flight: AtomicI64,
    pub websockets: AtomicI64,
    /// Time that requests spend in the queue.
    pub queue: Histogram,
    /// Duration of the application's calls.
    pub call: Histogram,
    pub gil_wait: Histogram,
}

/// The status of the application in this process.
pub struct AppStatus {
    pub metrics: AppMetrics,
    /// Exceptions that requests have raised.
    pub errors: RecentErrors,
    queue: Arc<RequestQueue>,
    /// Wakes the event loop's thread.
    event: Arc<EventFd>,
    stopping: AtomicBool,
    /// An interrupt ends the server.
    interrupted: AtomicBool,
    /// When the time for requests in flight ends; 0 before the process drains.
    drain_end_us: AtomicU64,
    /// When the longest blocked call last made progress; 0 without one.
    oldest_call_us: AtomicU64,
    /// Since when no thread takes queued requests; 0 while one does.
    untaken_us: AtomicU64,
    /// How many requests had been taken when the wait for the GIL was measured last.
    measured_at: AtomicU64,
    /// True while a thread measures the wait for the GIL.
    measuring: AtomicBool,
    stacks: Mutex<Option<File>>,
    /// Returns the application's own metrics as text.
    own_metrics: Arc<Mutex<Option<Py<PyAny>>>>,
    /// The readers that wait for them. A thread reads them for all, while there is one.
    metrics_readers: Arc<Mutex<Vec<mpsc::Sender<String>>>>,
}

impl AppStatus {
    pub fn new(queue: Arc<RequestQueue>, event: Arc<EventFd>) -> Arc<AppStatus> {
        Arc::new(AppStatus {
            metrics: AppMetrics::default(),
            errors: RecentErrors::default(),
            queue,
            event,
            stopping: AtomicBool::new(false),
            interrupted: AtomicBool::new(false),
            drain_end_us: AtomicU64::new(0),
            oldest_call_us: AtomicU64::new(0),
            untaken_us: AtomicU64::new(0),
            measured_at: AtomicU64::new(0),
            measuring: AtomicBool::new(false),
            stacks: Mutex::default(),
            own_metrics: Arc::default(),
            metrics_readers: Arc::default(),
        })
    }

    pub fn queue(&self) -> &Arc<RequestQueue> {
        &self.queue
    }

    pub fn event(&self) -> &Arc<EventFd> {
        &self.event
    }

    /// Alerts an event loop that has requests in flight: its lag grows until it handles that. So a
    /// request that blocks the loop is noticed although nothing else waits. Threads of WSGI report
    /// the progress of each call, and how long they wait for the GIL.
    pub fn check_progress(self: &Arc<Self>) {
        if self.queue.serves_threads() {
            return;
        }
        let is_busy = self.metrics.in_flight.load(Ordering::Relaxed) > 0;
        if is_busy {
            self.queue.alert();
        }
        let requests = self.metrics.requests.get();
        if is_busy || self.measured_at.swap(requests, Ordering::Relaxed) != requests {
            self.measure_gil_wait();
        }
    }

    /// Measures how long a thread waits for the GIL, unless one still does. A thread of its own: it
    /// may wait for as long as the process lives.
    fn measure_gil_wait(self: &Arc<Self>) {
        if self.measuring.swap(true, Ordering::Relaxed) {
            return;
        }
        let status = self.clone();
        let measure = move || {
            let began_us = net::clock::precise_us();
            // Nothing is measured while the interpreter ends.
            let _ = Python::try_attach(|_| {
                let waited_us = net::clock::precise_us().saturating_sub(began_us);
                status.metrics.gil_wait.record_us(waited_us);
            });
            status.measuring.store(false, Ordering::Relaxed);
        };
        if thread::Builder::new().name("gil".to_owned()).spawn(measure).is_err() {
            self.measuring.store(false, Ordering::Relaxed);
        }
    }

    /// For how many milliseconds queued work has made no progress.
    pub fn lag_ms(&self) -> u64 {
        self.queue.unheard_us().max(since_us(&self.untaken_us)) / 1000
    }

    /// True if a single call delays the queue, not many short ones; takes the next sample. WSGI
    /// threads take queued requests between any two calls.
    pub fn is_in_one_call(&self) -> bool {
        self.queue.serves_threads() || crate::asgi::probe::is_in_one_callback()
    }

    /// For how many milliseconds the longest blocked call has made no progress.
    pub fn oldest_call_ms(&self) -> u64 {
        since_us(&self.oldest_call_us) / 1000
    }

    /// Sets when the running call of the event loop's thread began, which blocks the queue; 0 where
    /// none runs.
    pub fn set_oldest_call_us(&self, began: u64) {
        self.untaken_us.store(began, Ordering::Relaxed);
    }

    /// Sets, for WSGI, when the longest blocked call last made progress, and since when no
    /// queued request is taken; 0 where that does not apply.
    pub(crate) fn set_blocked(&self, oldest_call_us: u64, untaken_us: u64) {
        self.oldest_call_us.store(oldest_call_us, Ordering::Relaxed);
        self.untaken_us.store(untaken_us, Ordering::Relaxed);
    }

    /// Records that requests in flight have this time to finish.
    pub fn begin_draining(&self, within: Duration) {
        let within_us = u64::try_from(within.as_micros()).unwrap_or(u64::MAX);
        let end_us = net::clock::precise_us().saturating_add(within_us);
        self.drain_end_us.store(end_us, Ordering::Relaxed);
    }

    /// Returns the rest of that time; nothing if the process does not drain.
    pub fn drain_left(&self) -> Duration {
        let end_us = self.drain_end_us.load(Ordering::Relaxed);
        Duration::from_micros(end_us.saturating_sub(net::clock::precise_us()))
    }

    /// Asks the application to shut down.
    pub fn stop(&self) {
        self.queue.close();
        self.stopping.store(true, Ordering::Release);
        // Wakes whichever consumer reads the queue: the event loop or a WSGI thread.
        self.queue.wake_driver();
    }

    pub fn set_interrupted(&self) {
        self.interrupted.store(true, Ordering::Release);
    }

    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire)
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Sets the file into which `faulthandler` writes stacks when the signal arrives.
    pub fn set_stack_file(&self, descriptor: i32) -> io::Result<()> {
        // SAFETY: duplicates the descriptor; an invalid number fails.
        let own = unsafe { libc::fcntl(descriptor, libc::F_DUPFD_CLOEXEC, 3) };
        if own < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call has just returned it, so it has no other owner.
        let file = File::from(unsafe { OwnedFd::from_raw_fd(own) });
        *lock(&self.stacks) = Some(file);
        Ok(())
    }

    /// Sets the function that returns the application's own metrics.
    pub fn set_own_metrics(&self, function: Py<PyAny>) {
        *lock(&self.own_metrics) = Some(function);
    }

    /// Returns the application's own metrics in the Prometheus text format; nothing if the
    /// interpreter does not return them within a second. Calls at the same time share one result.
    pub fn own_metrics(&self) -> String {
        let (reader, text) = mpsc::channel();
        let is_first = {
            let mut readers = lock(&self.metrics_readers);
            if readers.len() >= METRICS_READERS_MAX {
                return String::new();
            }
            readers.push(reader);
            readers.len() == 1
        };
        if is_first && self.read_own_metrics().is_err() {
            lock(&self.metrics_readers).clear();
        }
        text.recv_timeout(METRICS_WITHIN).unwrap_or_default()
    }

    /// Starts a thread that sends the metrics to all that wait for them by then. A thread of its
    /// own: it may wait for as long as the process lives.
    fn read_own_metrics(&self) -> io::Result<()> {
        let (function, readers) = (self.own_metrics.clone(), self.metrics_readers.clone());
        let read = move |py: Python<'_>| -> PyResult<String> {
            let function = lock(&function).as_ref().map(|function| function.clone_ref(py));
            function.map_or_else(|| Ok(String::new()), |function| function.call0(py)?.extract(py))
        };
        let reading = thread::Builder::new().name("metrics".to_owned());
        reading.spawn(move || {
            let text = Python::try_attach(read).and_then(Result::ok).unwrap_or_default();
            for reader in std::mem::take(&mut *lock(&readers)) {
                // One that has stopped waiting has dropped its end.
                let _ = reader.send(text.clone());
            }
        })?;
        Ok(())
    }

    /// Returns the stacks of the Python threads as one line. Waits half a second for the GIL: no
    /// frame changes while this thread holds it. An interpreter that does not release it is inside
    /// a call of C code; then a signal handler reads the frames without the interpreter's help.
    /// Frames that change while they are read end the process.
    pub fn dump(&self) -> String {
        let stacks = lock(&self.stacks);
        let Some(file) = &*stacks else { return String::new() };
        let descriptor = file.as_raw_fd();
        // SAFETY: an open descriptor.
        unsafe {
            libc::ftruncate(descriptor, 0);
            libc::lseek(descriptor, 0, libc::SEEK_SET);
        }
        // Set by whichever of the two writes the file.
        let is_begun = Arc::new(AtomicBool::new(false));
        let (done, written) = mpsc::channel();
        let holder = is_begun.clone();
        let write = move |py: Python<'_>| {
            if !holder.swap(true, Ordering::Relaxed) {
                // Without a stack the log says the rest.
                let _ = dump_with_gil(py, descriptor);
                let _ = done.send(());
            }
        };
        // A thread of its own: it may wait for as long as the process lives.
        let waiting = thread::Builder::new().name("stacks".to_owned());
        if waiting.spawn(move || Python::try_attach(write)).is_err() {
            return String::new();
        }
        if written.recv_timeout(GIL_WITHIN).is_err() {
            if is_begun.swap(true, Ordering::Relaxed) {
                // It has got the GIL just now.
                let _ = written.recv();
            } else {
                // SAFETY: a signal with a handler, which runs on this thread, within the call.
                unsafe { libc::raise(dump_signal()) };
            }
        }
        let mut text = vec![0; DUMP_BYTES];
        let length = file.read_at(&mut text, 0).unwrap_or(0);
        text.truncate(length);
        crate::stack::readable(&String::from_utf8_lossy(&text), self.queue.serves_threads())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn dump_with_gil(py: Python<'_>, descriptor: i32) -> PyResult<()> {
    let module = PyModule::import(py, "faulthandler")?;
    module.call_method1("dump_traceback", (descriptor, true)).map(drop)
}

fn since_us(began: &AtomicU64) -> u64 {
    match began.load(Ordering::Relaxed) {
        0 => 0,
        began => net::clock::precise_us().saturating_sub(began),
    }
}

/// The signal for which the process registers `faulthandler`.
pub fn dump_signal() -> i32 {
    libc::SIGRTMIN() + 7
}
