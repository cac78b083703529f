//! The application, and the loop of each of its threads.
//!
//! A thread takes an exchange, calls the application, answers, and takes the next one without
//! releasing the GIL in between; it releases it when there is nothing to take.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use exchange::offload::{Arrival, Event, OffloadedRequest, wake_batch};
use exchange::{BodyStream, Fault, FaultKind};
use pyo3::ffi;
use pyo3::prelude::*;
use wire::Method;

use super::body;
use super::crew::{Crew, Rested};
use super::environ::{Common, Environs};
use super::file::FileWrapper;
use super::functions::start_response;
use super::input::{Input, Source};
use super::limits::{
    CAUTIOUS_CALLS, ENDING, HELD_MAX, QUICK_CALL_US, SLOW_CALL_US, STACK_BYTES, THREADS_MAX,
    THREADS_PER_PROCESSOR,
};
use super::reply::Reply;
use super::seat::Seat;
use super::watch::watch;
use crate::life::Life;

/// What a server is made of.
pub struct Application {
    pub application: Py<PyAny>,
    pub root_path: String,
    /// Most threads; 0 chooses.
    pub threads: usize,
    /// Whether other processes run the application too.
    pub multiprocess: bool,
    /// `wsgi.errors`.
    pub errors: Py<PyAny>,
    /// Called with an exception that the application raised.
    pub report: Py<PyAny>,
    /// Called with a sentence on what the application does wrong.
    pub complain: Py<PyAny>,
}

#[pyclass(frozen, module = "tidegate._tidegate")]
pub struct Server(Arc<Hosted>);

/// What the threads share.
pub(super) struct Hosted {
    life: Arc<Life>,
    crew: Arc<Crew>,
    application: Py<PyAny>,
    environs: Environs,
    threads: usize,
    report: Py<PyAny>,
    complain: Py<PyAny>,
}

/// What a thread uses for one request after the other.
struct Bench {
    reply: Py<Reply>,
    start_response: Py<PyAny>,
}

impl Bench {
    fn new(py: Python<'_>, hosted: &Arc<Hosted>) -> PyResult<Bench> {
        let reply = Bound::new(py, Reply::new(hosted.clone()))?;
        let start_response = start_response(&reply)?.unbind();
        Ok(Bench { reply: reply.unbind(), start_response })
    }

    /// Cuts the ring of references between the reply and `write`.
    fn part(&self) {
        let write = self.reply.get().write.take();
        drop(write);
    }

    /// Whether nobody else holds any of it: the application may have kept `start_response`.
    fn is_ours(&self) -> bool {
        let write = self.reply.get().write.get().as_ref().map(|write| write.as_ptr());
        // SAFETY: the objects are alive.
        let references = |object: *mut ffi::PyObject| unsafe { ffi::Py_REFCNT(object) };
        references(self.start_response.as_ptr()) == 1
            && write.is_none_or(|write| references(write) == 1)
            && references(self.reply.as_ptr()) == 2 + isize::from(write.is_some())
    }
}

impl Server {
    pub fn new(
        py: Python<'_>,
        life: Arc<Life>,
        crew: Arc<Crew>,
        given: Application,
    ) -> PyResult<Server> {
        let threads = match given.threads {
            0 => {
                let processors = std::thread::available_parallelism().map_or(1, usize::from);
                THREADS_MAX.min(processors * THREADS_PER_PROCESSOR)
            }
            threads => threads,
        };
        let environs = Environs::new(
            py,
            Common {
                root_path: given.root_path,
                multithread: threads > 1,
                multiprocess: given.multiprocess,
                errors: given.errors.into_bound(py),
                file_wrapper: py.get_type::<FileWrapper>().into_any(),
                no_input: Bound::new(py, Input::new(Source::default()))?.into_any(),
            },
        )?;
        life.desk().serve_threads();
        crew.begin(life.clone());
        Ok(Server(Arc::new(Hosted {
            life,
            crew,
            application: given.application,
            environs,
            threads,
            report: given.report,
            complain: given.complain,
        })))
    }
}

#[pymethods]
impl Server {
    /// Serves on this thread, and on others as they are needed, until the process is to end.
    /// Whether all of them have ended.
    fn run(&self, py: Python<'_>) -> PyResult<bool> {
        let hosted = &self.0;
        let Some(seat) = hosted.crew.take_seat(hosted.threads) else { return Ok(true) };
        let of_watcher = hosted.clone();
        let watcher = std::thread::Builder::new().name("watch".to_owned()).spawn(move || {
            watch(&of_watcher.life, &of_watcher.crew, || Hosted::start(&of_watcher));
        })?;
        let served = hosted.serve(py, &seat, true);
        hosted.crew.leave(&seat);
        py.detach(|| {
            hosted.crew.wake_all();
            hosted.crew.watch();
            // It has nothing to do with what is reported here.
            drop(watcher.join());
        });
        served?;
        Ok(py.detach(|| hosted.crew.wait_for_end(ENDING)))
    }
}

impl Hosted {
    /// Starts another thread, if there may be one more.
    fn start(this: &Arc<Hosted>) {
        let Some(seat) = this.crew.take_seat(this.threads) else { return };
        let (hosted, taken) = (this.clone(), seat.clone());
        let name = format!("wsgi-{}", seat.number());
        let thread = std::thread::Builder::new().name(name.clone()).stack_size(STACK_BYTES);
        let spawned = thread.spawn(move || {
            Python::attach(|py| {
                let served = named(py, &name).and_then(|()| hosted.serve(py, &taken, false));
                if let Err(error) = served {
                    hosted.report(py, &error);
                }
            });
            hosted.crew.leave(&taken);
        });
        if spawned.is_err() {
            this.crew.leave(&seat);
        }
    }

    /// The loop of a thread.
    fn serve(self: &Arc<Self>, py: Python<'_>, seat: &Arc<Seat>, stays: bool) -> PyResult<()> {
        seat.sit_down();
        wake_batch::hold();
        let mut bench = Bench::new(py, self)?;
        let mut now_us = net::clock::precise_us();
        let mut cautious = 0;
        while !self.life.is_stopping() {
            match self.life.desk().take_arrival() {
                Some(Event::Arrived(arrival, at_us)) => {
                    seat.gets_on(now_us);
                    self.taken(now_us.saturating_sub(at_us));
                    self.answer(py, &mut bench, arrival)?;
                    seat.has_ended();
                    let ended_us = net::clock::precise_us();
                    let took_us = ended_us.saturating_sub(now_us);
                    self.answered(took_us);
                    cautious = match took_us {
                        SLOW_CALL_US.. => CAUTIOUS_CALLS,
                        _ => cautious.saturating_sub(1),
                    };
                    if cautious > 0 || took_us > QUICK_CALL_US || wake_batch::held() >= HELD_MAX {
                        wake_batch::flush();
                    }
                    now_us = ended_us;
                }
                Some(Event::Ended(_)) => {}
                None => {
                    wake_batch::flush();
                    let rested = self.crew.rest(seat, stays, |sleep| self.without_gil(py, sleep));
                    if rested == Rested::End {
                        break;
                    }
                    now_us = net::clock::precise_us();
                }
            }
        }
        wake_batch::release();
        bench.part();
        Ok(())
    }

    fn taken(&self, waited_us: u64) {
        let numbers = &self.life.numbers;
        numbers.requests.inc();
        numbers.in_flight.fetch_add(1, Ordering::Relaxed);
        numbers.queue.record_us(waited_us);
        self.crew.waited(waited_us);
    }

    fn answered(&self, took_us: u64) {
        let numbers = &self.life.numbers;
        numbers.in_flight.fetch_sub(1, Ordering::Relaxed);
        numbers.call.record_us(took_us);
    }

    /// Runs `with` without the GIL, and counts how long it takes to get it back.
    pub(super) fn without_gil<R: Send>(
        &self,
        py: Python<'_>,
        with: impl FnOnce() -> R + Send,
    ) -> R {
        let (result, done_us) = py.detach(|| (with(), net::clock::precise_us()));
        let waited_us = net::clock::precise_us().saturating_sub(done_us);
        self.life.numbers.gil_wait.record_us(waited_us);
        result
    }

    /// A thread that waited for a client goes on: somebody is to look after it.
    pub(super) fn is_busy_again(&self) {
        self.crew.watch();
    }

    /// Answers one exchange.
    fn answer(
        self: &Arc<Self>,
        py: Python<'_>,
        bench: &mut Bench,
        arrival: Arrival,
    ) -> PyResult<()> {
        let handed = match arrival {
            Arrival::Exchange(handed) => handed,
            Arrival::Session(mut session) => {
                if let Some(answering) = session.session.deny() {
                    let why = "the application knows no WebSocket";
                    answering.fail(Fault::new(FaultKind::WebSocketUnknown, why));
                }
                return Ok(());
            }
        };
        let OffloadedRequest { head, body, answer } = *handed;
        let reply = bench.reply.bind(py).get();
        reply.begin(answer, head.method == Method::Head);
        let called = self.call(py, bench, head, body);
        let failed = called.is_err();
        if let Err(error) = called {
            self.report(py, &error);
        }
        if let Err(error) = reply.end(py, failed) {
            self.report(py, &error);
        }
        if !bench.is_ours() {
            // Late calls find a reply that is done.
            bench.part();
            *bench = Bench::new(py, self)?;
        }
        Ok(())
    }

    /// Calls the application, and sends what it returns.
    fn call(
        &self,
        py: Python<'_>,
        bench: &Bench,
        head: exchange::offload::Head,
        body: exchange::offload::Incoming,
    ) -> PyResult<()> {
        let input = match body.length() {
            Some(0) => None,
            _ => Some(Bound::new(py, Input::new(Source::new(body)))?.into_any()),
        };
        let environ = self.environs.environ(py, &head, input)?;
        drop(head);
        let arguments = [environ.as_ptr(), bench.start_response.as_ptr()];
        // SAFETY: the application and both arguments are alive across the call; what it returns is
        // ours, or null with an error set.
        let result = unsafe {
            let result = ffi::PyObject_Vectorcall(
                self.application.as_ptr(),
                arguments.as_ptr(),
                arguments.len(),
                std::ptr::null_mut(),
            );
            Bound::from_owned_ptr_or_err(py, result)?
        };
        drop(environ);
        let reply = bench.reply.get();
        let sent = body::send(reply, &result);
        // Whatever became of it (PEP 3333: "regardless of whether the request was completed").
        if let Err(error) = body::close(&result) {
            self.report(py, &error);
        }
        sent
    }

    /// An exception of the application goes to the log.
    fn report(&self, py: Python<'_>, error: &PyErr) {
        // Before 3.12 its traceback lies beside it, and `into_value` puts it inside.
        if let Err(failed) = self.report.bind(py).call1((error.clone_ref(py).into_value(py),)) {
            failed.write_unraisable(py, None);
        }
    }

    /// What the application does wrong goes to the log.
    pub(super) fn complain(&self, py: Python<'_>, what: &str) -> PyResult<()> {
        self.complain.bind(py).call1((what,)).map(drop)
    }
}

/// Gives the running thread a name in Python.
fn named(py: Python<'_>, name: &str) -> PyResult<()> {
    let thread = PyModule::import(py, "threading")?.call_method0("current_thread")?;
    thread.setattr("name", name)
}
