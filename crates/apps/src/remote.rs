//! The gateway's end of the way to an application in processes of its own.
//!
//! Owns, for one worker and one application, a connection of frames to each process that is live
//! ([`crate::Slots`]). Gives each exchange to the process with the fewest of this worker's under
//! way. While none can take one, exchanges wait here, bounded in number and time. Promises that a
//! connection which breaks fails what it carried and nothing else, and that a process which drains
//! is given nothing new.

mod carried;
mod exchange;
mod link;
mod seat;
mod talk;

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use ::exchange::WorkerContext;
use ::exchange::offload::Arrival;
use net::Timer;
use net::clock::{self, Moment};
use net::task::{self, JoinHandle};

use telemetry::{SharedCounter, Telemetry, families};

use crate::limits::{REMOTE_WAIT, REMOTE_WAITING};
use crate::place::{Place, Refused};
use crate::slots::{Slot, Slots};
use link::Link;
use seat::Seat;

/// The place of an application that runs elsewhere. It connects when the first exchange comes.
pub struct Remote {
    fleet: Rc<Fleet>,
    slots: Arc<Slots>,
    keeper: OnceCell<JoinHandle<()>>,
}

/// Connections that ended as they should not have.
#[derive(Clone)]
struct Broken {
    /// With exchanges under way.
    gone: Arc<SharedCounter>,
    malformed: Arc<SharedCounter>,
}

impl Broken {
    fn new(telemetry: &Telemetry, app: &str) -> Broken {
        let counter = |reason| telemetry.counter(&families::APP_BROKEN, &[app, reason]);
        Broken { gone: counter("gone"), malformed: counter("malformed") }
    }
}

/// The processes, as one worker reaches them.
struct Fleet {
    seats: RefCell<Vec<Seat>>,
    waiting: RefCell<VecDeque<Waiting>>,
    /// Where the next search begins: processes that are equally busy take turns.
    turn: Cell<usize>,
    broken: Broken,
    /// How long an exchange waits for somebody to take it.
    patience: Duration,
    /// Up at the end of the oldest one's patience.
    timer: Timer,
}

struct Waiting {
    arrival: Arrival,
    until: Moment,
}

impl Remote {
    fn new(slots: Arc<Slots>, broken: Broken, patience: Duration) -> Remote {
        let fleet = Rc::new(Fleet {
            seats: RefCell::default(),
            waiting: RefCell::default(),
            turn: Cell::new(0),
            broken,
            patience,
            timer: Timer::new(),
        });
        Remote { fleet, slots, keeper: OnceCell::new() }
    }

    /// That of this worker for an application, which all its routes share.
    pub fn of(worker: &WorkerContext, app: &str) -> Rc<Remote> {
        worker.local.get(app.to_owned(), || {
            let broken = Broken::new(&worker.telemetry, app);
            Remote::new(Slots::of(&worker.shared, app), broken, REMOTE_WAIT)
        })
    }

    fn begin(&self) -> JoinHandle<()> {
        self.fleet.reconcile(&self.slots.live());
        task::spawn_local(keep(self.fleet.clone(), self.slots.clone()))
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        self.keeper.get().into_iter().for_each(JoinHandle::abort);
        self.fleet.seats.borrow_mut().clear();
        self.fleet.waiting.borrow_mut().drain(..).for_each(refuse);
    }
}

impl Place for Rc<Remote> {
    fn offer(&self, arrival: Arrival) -> Result<(), Refused> {
        self.keeper.get_or_init(|| self.begin());
        let Err(arrival) = self.fleet.send(arrival) else { return Ok(()) };
        self.fleet.wait(arrival)
    }
}

/// Brings the seats in line with the live set, and gives up on exchanges that have waited long.
async fn keep(fleet: Rc<Fleet>, slots: Arc<Slots>) {
    let mut watch = slots.watch();
    loop {
        let live = watch.borrow_and_update().clone();
        fleet.reconcile(&live);
        tokio::select! {
            changed = watch.changed() => if changed.is_err() {
                // Nobody supervises the processes any more: those that live go on.
                return fleet.expire().await;
            },
            () = fleet.expire() => {}
        }
    }
}

impl Fleet {
    fn reconcile(self: &Rc<Self>, live: &[Slot]) {
        let mut seats = self.seats.borrow_mut();
        let (kept, gone): (Vec<Seat>, _) =
            seats.drain(..).partition(|seat| live.contains(seat.slot()));
        *seats = kept;
        for slot in live {
            if seats.iter().any(|seat| seat.slot() == slot) {
                continue;
            }
            let fleet = Rc::downgrade(self);
            let opened = move || {
                if let Some(fleet) = Weak::upgrade(&fleet) {
                    fleet.give_out();
                }
            };
            seats.push(Seat::new(slot.clone(), Rc::new(opened), self.broken.clone()));
        }
        drop(seats);
        drop::<Vec<Seat>>(gone);
    }

    fn send(&self, arrival: Arrival) -> Result<(), Arrival> {
        match self.choose() {
            Some(link) => link.send(arrival),
            None => Err(arrival),
        }
    }

    /// The open connection with the fewest exchanges under way.
    fn choose(&self) -> Option<Rc<Link>> {
        let seats = self.seats.borrow();
        let first = self.turn.get() % seats.len().max(1);
        let mut best: Option<(usize, usize, Rc<Link>)> = None;
        for (index, seat) in seats.iter().enumerate().cycle().skip(first).take(seats.len()) {
            let Some(link) = seat.link().filter(|link| link.is_open()) else { continue };
            let busy = link.in_flight();
            if best.as_ref().is_none_or(|(least, ..)| busy < *least) {
                best = Some((busy, index, link));
            }
        }
        let (_, index, link) = best?;
        self.turn.set(index + 1);
        Some(link)
    }

    fn wait(&self, arrival: Arrival) -> Result<(), Refused> {
        if self.seats.borrow().is_empty() {
            return Err(Refused::Absent);
        }
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() >= REMOTE_WAITING {
            return Err(Refused::Full);
        }
        let until = clock::now().after(self.patience);
        if waiting.is_empty() {
            self.timer.set_at(until);
        }
        waiting.push_back(Waiting { arrival, until });
        Ok(())
    }

    /// Gives what waits to whoever can take it now.
    fn give_out(&self) {
        loop {
            let Some(Waiting { arrival, until }) = self.waiting.borrow_mut().pop_front() else {
                break;
            };
            if let Err(arrival) = self.send(arrival) {
                self.waiting.borrow_mut().push_front(Waiting { arrival, until });
                break;
            }
        }
    }

    /// Refuses what has waited too long, for ever.
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

fn refuse(waiting: Waiting) {
    let fault = Refused::Absent.fault();
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
