//! `handler: { app: NAME }`: an exchange leaves for its application.
//!
//! Owns how many may be in flight per worker, and nothing of what is behind the place. A request
//! that asks for WebSocket leaves as a session.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use exchange::handover::{Arrival, Limits, Local, leave};
use exchange::{Handler, LocalFuture, Outcome, Request};

use crate::place::{Place, Refused};

/// The handler of one worker.
pub struct AppHandler {
    place: Rc<dyn Place>,
    limits: Limits,
    /// Most that may be under way from this worker; the next are answered 503.
    in_flight_max: u32,
    in_flight: Rc<Cell<u32>>,
}

impl AppHandler {
    pub fn new(place: Rc<dyn Place>, limits: Limits, in_flight_max: u32) -> AppHandler {
        AppHandler { place, limits, in_flight_max, in_flight: Rc::default() }
    }
}

impl Handler for AppHandler {
    fn name(&self) -> &'static str {
        "app"
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> LocalFuture<'a, Outcome> {
        if self.in_flight.get() >= self.in_flight_max {
            return Box::pin(std::future::ready(Err(Refused::Full.fault())));
        }
        let (handed, local) = leave(request, self.limits);
        match self.place.offer(Arrival::Exchange(Box::new(handed))) {
            Ok(()) => Box::pin(Waiting { local, _seat: Seat::take(&self.in_flight) }),
            Err(refused) => Box::pin(std::future::ready(Err(refused.fault()))),
        }
    }
}

/// One of those in flight.
struct Seat(Rc<Cell<u32>>);

impl Seat {
    fn take(seats: &Rc<Cell<u32>>) -> Seat {
        seats.set(seats.get() + 1);
        Seat(seats.clone())
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// The outcome to come, in its seat.
struct Waiting {
    local: Local,
    _seat: Seat,
}

impl Future for Waiting {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        Pin::new(&mut self.local).poll(cx)
    }
}
