//! The gateway's end of the connections to an application in processes of its own.
//!
//! Owns, for one worker and one application, a connection of frames to each live process
//! ([`crate::LiveWorkers`]). Each exchange goes to the process with the fewest exchanges of this
//! worker in flight. While no process can take one, exchanges are queued here, bounded in number
//! and time. Promises that a broken connection fails only the exchanges it carries, and that a
//! draining process is given nothing new.

mod connection;
mod exchange;
mod process_link;
mod stream_payload;
mod ws_session;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use net::Timer;
use net::clock::{self, Moment};
use net::task::{self, JoinHandle};
use offload::Arrival;
use plugin::WorkerContext;

use telemetry::{SharedCounter, Telemetry, families};

use crate::backend::{AppBackend, OfferError};
use crate::limits::{REMOTE_WAIT, REMOTE_WAITING};
use crate::live_workers::{LiveWorker, LiveWorkers};
use connection::RemoteConnection;
use process_link::ProcessLink;

/// The backend of an application in other processes. Connects at the first exchange.
pub struct Remote {
    pool: Rc<ProcessPool>,
    live_workers: Arc<LiveWorkers>,
    maintainer: OnceCell<JoinHandle<()>>,
}

/// Counters of connections that failed.
#[derive(Clone)]
struct BrokenCounters {
    /// With exchanges in flight.
    gone: Arc<SharedCounter>,
    malformed: Arc<SharedCounter>,
}

impl BrokenCounters {
    fn new(telemetry: &Telemetry, app: &str) -> BrokenCounters {
        let counter = |reason| telemetry.counter(&families::APP_BROKEN, &[app, reason]);
        BrokenCounters { gone: counter("gone"), malformed: counter("malformed") }
    }
}

/// The processes of an application, as one worker reaches them.
struct ProcessPool {
    processes: RefCell<Vec<ProcessLink>>,
    waiting: RefCell<VecDeque<QueuedArrival>>,
    /// The index where the next search begins: equally busy processes are used in rotation.
    turn: Cell<usize>,
    broken: BrokenCounters,
    /// Longest time an exchange is queued.
    queue_timeout: Duration,
    /// Expires with the oldest queued exchange.
    timer: Timer,
}

struct QueuedArrival {
    arrival: Arrival,
    until: Moment,
}

impl Remote {
    fn new(
        live_workers: Arc<LiveWorkers>,
        broken: BrokenCounters,
        queue_timeout: Duration,
    ) -> Remote {
        let pool = Rc::new(ProcessPool {
            processes: RefCell::default(),
            waiting: RefCell::default(),
            turn: Cell::new(0),
            broken,
            queue_timeout,
            timer: Timer::new(),
        });
        Remote { pool, live_workers, maintainer: OnceCell::new() }
    }

    /// The backend of this worker for an application, shared by its routes.
    pub fn of(worker: &WorkerContext, app: &str) -> Rc<Remote> {
        worker.local.get(app.to_owned(), || {
            let broken = BrokenCounters::new(&worker.telemetry, app);
            Remote::new(LiveWorkers::of(&worker.shared, app), broken, REMOTE_WAIT)
        })
    }

    fn begin(&self) -> JoinHandle<()> {
        self.pool.reconcile(&self.live_workers.live());
        task::spawn_local(maintain(self.pool.clone(), self.live_workers.clone()))
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.maintainer.get().into_iter().for_each(JoinHandle::abort);
        self.pool.processes.borrow_mut().clear();
        self.pool.waiting.borrow_mut().drain(..).for_each(refuse);
    }
}

impl AppBackend for Rc<Remote> {
    fn offer(&self, arrival: Arrival) -> Result<(), OfferError> {
        self.maintainer.get_or_init(|| self.begin());
        let Err(arrival) = self.pool.send(arrival) else { return Ok(()) };
        self.pool.wait(arrival)
    }
}

/// Follows the live set, and rejects exchanges that were queued too long.
async fn maintain(pool: Rc<ProcessPool>, live_workers: Arc<LiveWorkers>) {
    let mut watch = live_workers.watch();
    loop {
        let live = watch.borrow_and_update().clone();
        pool.reconcile(&live);
        tokio::select! {
            changed = watch.changed() => if changed.is_err() {
                // The supervisor is gone: the live processes continue.
                return pool.expire().await;
            },
            () = pool.expire() => {}
        }
    }
}

impl ProcessPool {
    fn reconcile(self: &Rc<Self>, live: &[LiveWorker]) {
        let mut processes = self.processes.borrow_mut();
        let (kept, gone): (Vec<ProcessLink>, _) =
            processes.drain(..).partition(|process| live.contains(process.worker()));
        *processes = kept;
        for worker in live {
            if processes.iter().any(|process| process.worker() == worker) {
                continue;
            }
            let pool = Rc::downgrade(self);
            let opened = move || {
                if let Some(pool) = Weak::upgrade(&pool) {
                    pool.send_queued();
                }
            };
            processes.push(ProcessLink::new(worker.clone(), Rc::new(opened), self.broken.clone()));
        }
        drop(processes);
        drop::<Vec<ProcessLink>>(gone);
    }

    fn send(&self, arrival: Arrival) -> Result<(), Arrival> {
        match self.choose() {
            Some(connection) => connection.send(arrival),
            None => Err(arrival),
        }
    }

    /// Chooses the open connection with the fewest exchanges in flight.
    fn choose(&self) -> Option<Rc<RemoteConnection>> {
        let processes = self.processes.borrow();
        let first = self.turn.get() % processes.len().max(1);
        let mut best: Option<(usize, usize, Rc<RemoteConnection>)> = None;
        for (index, process) in
            processes.iter().enumerate().cycle().skip(first).take(processes.len())
        {
            let Some(connection) = process.connection().filter(|connection| connection.is_open())
            else {
                continue;
            };
            let busy = connection.in_flight();
            if best.as_ref().is_none_or(|(least, ..)| busy < *least) {
                best = Some((busy, index, connection));
            }
        }
        let (_, index, connection) = best?;
        self.turn.set(index + 1);
        Some(connection)
    }

    fn wait(&self, arrival: Arrival) -> Result<(), OfferError> {
        if self.processes.borrow().is_empty() {
            return Err(OfferError::Absent);
        }
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() >= REMOTE_WAITING {
            return Err(OfferError::Full);
        }
        let until = clock::now().after(self.queue_timeout);
        if waiting.is_empty() {
            self.timer.set_at(until);
        }
        waiting.push_back(QueuedArrival { arrival, until });
        Ok(())
    }

    /// Sends queued exchanges to processes that can take them.
    fn send_queued(&self) {
        loop {
            let Some(QueuedArrival { arrival, until }) = self.waiting.borrow_mut().pop_front()
            else {
                break;
            };
            if let Err(arrival) = self.send(arrival) {
                self.waiting.borrow_mut().push_front(QueuedArrival { arrival, until });
                break;
            }
        }
    }

    /// Rejects exchanges that were queued too long; never ends.
    async fn expire(&self) {
        loop {
            std::future::poll_fn(|cx| self.timer.poll(cx)).await;
            self.timer.clear();
            let now = clock::now();
            loop {
                let mut waiting = self.waiting.borrow_mut();
                match waiting.front() {
                    Some(oldest) if oldest.until <= now => {}
                    Some(oldest) => break self.timer.set_at(oldest.until),
                    None => break,
                }
                let oldest = waiting.pop_front();
                drop(waiting);
                oldest.into_iter().for_each(refuse);
            }
        }
    }
}

fn refuse(waiting: QueuedArrival) {
    let fault = OfferError::Absent.fault();
    match waiting.arrival {
        Arrival::Exchange(handed) => handed.answer.fail(fault),
        Arrival::Session(mut handed) => {
            if let Some(answering) = handed.session.deny() {
                answering.fail(fault);
            }
        }
    }
}

#[cfg(test)]
mod tests;
