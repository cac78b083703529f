//! Accepting on one listener of one worker.
//!
//! Survives whatever accepting can fail with; answers connections above the limit with a 503; ends
//! with its queue drained, so that no connection that the kernel has taken is reset.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use exchange::serve::{Service, refuse, serve};
use exchange::{ConnectionFacts, Protocol};
use net::{Accepted, Bind, Listener, is_exhausted};
use telemetry::log::Level;
use telemetry::{CloseReason, LimitHit, event_limited};

use crate::balance::Balance;
use crate::descriptors::Relief;
use crate::seats::{Seat, Seats};

/// Pause after accepting failed for want of descriptors or memory.
pub(crate) const EXHAUSTED_PAUSE: Duration = Duration::from_millis(50);
/// Connections above the limit that one listener answers at the same time; more are just closed.
const REFUSALS_AT_ONCE: usize = 64;

/// Ends an accept loop.
#[derive(Default)]
pub(crate) struct Stop {
    stopped: Cell<bool>,
    waker: Cell<Option<Waker>>,
}

impl Stop {
    /// Whether it is; if not, the waker is woken when it will be.
    pub(crate) fn is_stopped(&self, waker: &Waker) -> bool {
        if !self.stopped.get() {
            self.waker.set(Some(waker.clone()));
        }
        self.stopped.get()
    }

    pub(crate) fn stop(&self) {
        self.stopped.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// What the connections of a listener need.
pub(crate) struct Door {
    /// The listener's name in the current Plan.
    pub(crate) name: Rc<RefCell<Rc<str>>>,
    pub(crate) service: Rc<Service>,
    /// Seats of this listener and of the whole server.
    pub(crate) seats: [Arc<Seats>; 2],
    pub(crate) reserve: Option<Reserve>,
    /// What frees descriptors, on a worker.
    pub(crate) relief: Option<Rc<Relief>>,
    pub(crate) stop: Rc<Stop>,
    /// With other processes that accept on the same socket.
    pub(crate) balance: Option<Arc<Balance>>,
}

/// What a connection holds: in the reserve it is one seat.
type Taken = (Seat, Option<Seat>);

/// Where connections sit for which there is no seat, and on which terms.
pub(crate) struct Reserve {
    pub(crate) service: Rc<Service>,
    pub(crate) seats: Arc<Seats>,
}

/// Accepts until it is stopped; then takes what is queued and closes the listener.
pub(crate) async fn accept(listener: Listener, door: Door) {
    let local = Rc::new(listener.local().clone());
    let refusals = Rc::new(Cell::new(0));
    loop {
        if let Some(balance) = &door.balance {
            pending(&listener, &door).await;
            balance.turn(door.seats[1].taken()).await;
        }
        let accepted = poll_fn(|cx| {
            if door.stop.is_stopped(cx.waker()) {
                return Poll::Ready(None);
            }
            listener.poll_accept(cx).map(Some)
        })
        .await;
        match accepted {
            None => break,
            Some(Ok(accepted)) => door.admit(accepted, &local, &refusals),
            Some(Err(error)) => {
                door.service.metrics.accept_errors.inc();
                event_limited!(
                    1,
                    Level::Warn,
                    "accepting a connection failed",
                    listener = door.name.borrow(),
                    error = error
                );
                if is_exhausted(&error) {
                    door.relief.iter().for_each(|relief| relief.exhausted(&door.seats[1]));
                    net::timer::sleep(EXHAUSTED_PAUSE).await;
                }
            }
        }
    }
    match listener.drain() {
        Ok(queued) => {
            for accepted in queued {
                door.admit(accepted, &local, &refusals);
            }
        }
        Err(error) => {
            event_limited!(
                1,
                Level::Warn,
                "a listener could not be drained",
                listener = door.name.borrow(),
                error = error
            );
        }
    }
}

/// Returns when there may be a connection, or there shall be no more.
async fn pending(listener: &Listener, door: &Door) {
    poll_fn(|cx| {
        if door.stop.is_stopped(cx.waker()) {
            return Poll::Ready(());
        }
        // An error is found by who accepts.
        listener.poll_pending(cx).map(|_| ())
    })
    .await;
}

impl Door {
    /// A seat of the listener and of the server, or one in the reserve.
    fn seat(&self) -> Option<(Rc<Service>, Taken)> {
        let [own, all] = &self.seats;
        let of_all = || match &self.relief {
            Some(relief) => relief.take(all),
            None => all.take(),
        };
        if let Some(seats) = own.take().and_then(|own| Some((own, Some(of_all()?)))) {
            return Some((self.service.clone(), seats));
        }
        let reserve = self.reserve.as_ref()?;
        Some((reserve.service.clone(), (reserve.seats.take()?, None)))
    }

    /// Refused connections hold descriptors while their clients read the answer.
    fn refusals_at_once(&self) -> usize {
        let all = &self.seats[1];
        if all.is_capped() { REFUSALS_AT_ONCE.min(all.limit() / 16 + 1) } else { REFUSALS_AT_ONCE }
    }

    fn admit(&self, accepted: Accepted, local: &Rc<Bind>, refusals: &Rc<Cell<usize>>) {
        let Some((service, seats)) = self.seat() else {
            self.service.metrics.hit(LimitHit::Connections);
            self.service.metrics.closed(CloseReason::ConnectionLimit);
            self.service.metrics.count_response(503);
            if refusals.get() < self.refusals_at_once() {
                refusals.set(refusals.get() + 1);
                let refusals = refusals.clone();
                net::task::spawn_local(async move {
                    refuse(accepted).await;
                    refusals.set(refusals.get() - 1);
                });
            }
            return;
        };
        let facts = ConnectionFacts {
            peer: accepted.peer.clone(),
            local: local.clone(),
            listener: self.name.borrow().clone(),
            protocol: Protocol::Http1,
            tls: None,
        };
        net::task::spawn_local(async move {
            serve(accepted, service, facts).await;
            drop(seats);
        });
    }
}
