//! `handler: { app: NAME }`: an exchange leaves for its application.
//!
//! Owns how many may be in flight per worker, and nothing of what is behind the place. A request
//! that asks for WebSocket leaves as a session.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use exchange::offload::{Arrival, Limits, Local, leave};
use exchange::{Body, BodyStream, Fault, Frame, Handler, MaybeFuture, Outcome, Request, Takeover};

use wire::Known;

use crate::place::{Place, Refused};
use crate::websocket::{self, WebSocketSettings};

/// The handler of one worker.
pub struct AppHandler {
    place: Rc<dyn Place>,
    limits: Limits,
    /// Most that may be under way from this worker; the next are answered 503.
    in_flight_max: u32,
    in_flight: Rc<Cell<u32>>,
    /// Of sessions, where the application knows them.
    websocket: Option<WebSocketSettings>,
}

impl AppHandler {
    pub fn new(
        place: Rc<dyn Place>,
        limits: Limits,
        in_flight_max: u32,
        websocket: Option<WebSocketSettings>,
    ) -> AppHandler {
        AppHandler { place, limits, in_flight_max, in_flight: Rc::default(), websocket }
    }

    /// A session leaves; it keeps its seat until it ends.
    fn begin(&self, request: &Request, settings: &WebSocketSettings) -> MaybeFuture<'_, Outcome> {
        let (handed, upgrade) = match websocket::begin(request, settings) {
            Ok(parted) => parted,
            Err(fault) => return Err(fault).into(),
        };
        if let Err(refused) = self.place.offer(Arrival::Session(Box::new(handed))) {
            return Err(refused.fault()).into();
        }
        let seat = Seat::take(&self.in_flight);
        MaybeFuture::of(async move {
            let mut response = upgrade.await?;
            response.takeover = response.takeover.map(|takeover| seated(takeover, seat));
            Ok(response)
        })
    }
}

/// What goes on with the connection, in its seat.
fn seated(takeover: Takeover, seat: Seat) -> Takeover {
    Box::new(|duplex| {
        let session = takeover(duplex);
        Box::pin(async move {
            let ending = session.await;
            drop(seat);
            ending
        })
    })
}

impl Handler for AppHandler {
    fn name(&self) -> &'static str {
        "app"
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Outcome> {
        if self.in_flight.get() >= self.in_flight_max {
            return Err(Refused::Full.fault()).into();
        }
        if let Some(settings) = &self.websocket
            && self.place.takes_sessions()
            && websocket::asks(request)
        {
            return self.begin(request, settings);
        }
        let (handed, local) = leave(request, self.limits);
        match self.place.offer(Arrival::Exchange(Box::new(handed))) {
            Ok(()) => MaybeFuture::of(Waiting { local, seat: Some(Seat::take(&self.in_flight)) }),
            Err(refused) => Err(refused.fault()).into(),
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
    seat: Option<Seat>,
}

impl Future for Waiting {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let mut outcome = ready!(Pin::new(&mut self.local).poll(cx));
        if let (Ok(response), Some(seat)) = (&mut outcome, self.seat.take()) {
            // An application's way to end the connection, which uvicorn's and gunicorn's know.
            response.close = response.headers.lists_token(Known::Connection, "close");
            response.body = match std::mem::take(&mut response.body) {
                Body::Stream(stream) => Body::stream(Seated { stream, _seat: seat }),
                whole => whole,
            };
        }
        Poll::Ready(outcome)
    }
}

/// A body that is sent piece by piece keeps its seat until it ends.
struct Seated {
    stream: Box<dyn BodyStream>,
    _seat: Seat,
}

impl BodyStream for Seated {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        self.stream.poll_frame(cx)
    }

    fn length(&self) -> Option<u64> {
        self.stream.length()
    }
}
