//! One connection from a gateway's worker, at the process's end.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Waker;

use bytes::Bytes;
use exchange::offload::{Arrival, Head};
use net::Stream;
use wire::frames::{self, Data, Frame, Kind, Malformed};

use super::Service;
use super::exchange::Exchange;
use super::feed::Asides;
use super::talk::{Talk, Talked};
use crate::conduit::{self, Conduit, End, Ended, PROGRAM, Step, write_fault};
use crate::limits::FRAMES_WINDOW;

pub(super) struct Connection(RefCell<State>);

struct State {
    conduit: Conduit<Carried>,
    service: Rc<Service>,
    asides: Asides,
    /// The credit that the gateway gives each stream; none before its greeting.
    window: Option<u32>,
    /// We have said that we take nothing new...
    leaving: bool,
    /// ... and the gateway that it sends nothing new.
    released: bool,
    /// The connection's task.
    waker: Option<Waker>,
}

/// What a stream carries. An exchange is the usual: to put it elsewhere would cost more than the
/// room that a session leaves.
#[allow(clippy::large_enum_variant)]
enum Carried {
    Exchange(Exchange),
    Talk(Talk),
}

impl Carried {
    fn exchange(&mut self) -> Result<&mut Exchange, Malformed> {
        match self {
            Carried::Exchange(exchange) => Ok(exchange),
            Carried::Talk(_) => Err(Malformed::Stream),
        }
    }

    fn talk(&mut self) -> Result<&mut Talk, Malformed> {
        match self {
            Carried::Talk(talk) => Ok(talk),
            Carried::Exchange(_) => Err(Malformed::Stream),
        }
    }

    fn granted(&mut self, credit: u32) -> Result<Step, Malformed> {
        match self {
            Carried::Exchange(exchange) => exchange.granted(credit),
            Carried::Talk(talk) => talk.granted(credit),
        }
    }
}

impl Connection {
    pub(super) fn new(service: Rc<Service>) -> Rc<Connection> {
        let mut conduit = Conduit::new();
        frames::hello(conduit.outbox.frames(), FRAMES_WINDOW, PROGRAM);
        Rc::new(Connection(RefCell::new(State {
            conduit,
            service,
            asides: Asides::default(),
            window: None,
            leaving: false,
            released: false,
            waker: None,
        })))
    }

    pub(super) fn in_flight(&self) -> usize {
        self.0.borrow().conduit.streams.len()
    }

    /// Tells the gateway to send nothing new; the connection ends when that has been heard and
    /// nothing is under way.
    pub(super) fn leave(&self) {
        let mut state = self.0.borrow_mut();
        if std::mem::replace(&mut state.leaving, true) {
            return;
        }
        frames::bare(state.conduit.outbox.frames(), Kind::GoAway, 0);
        state.end_talks();
        if let Some(waker) = &state.waker {
            waker.wake_by_ref();
        }
    }

    /// Drives the connection to its end; whoever answers learns that nobody waits any more.
    pub(super) async fn run(&self, stream: Stream) -> Ended {
        let ended = poll_fn(|cx| {
            let state = &mut *self.0.borrow_mut();
            if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                state.waker = Some(cx.waker().clone());
            }
            conduit::poll(&stream, state, cx)
        });
        let ended = ended.await;
        let streams = self.0.borrow_mut().conduit.streams.drain();
        drop(streams);
        ended
    }
}

impl State {
    fn begin(&mut self, number: u32, head: &[u8], body: &[u8], end: bool) -> Result<(), Malformed> {
        let (window, head) = self.head(head)?;
        let limits = self.service.limits;
        let (handed, exchange) =
            Exchange::begin(number, head, body, end, window, limits, &self.asides);
        let arrival = Arrival::Exchange(Box::new(handed));
        self.open(number, Carried::Exchange(exchange), arrival)
    }

    fn begin_talk(&mut self, number: u32, head: &[u8]) -> Result<(), Malformed> {
        let (window, head) = self.head(head)?;
        let (handed, mut talk) = Talk::begin(head, window, self.service.limits);
        if self.leaving {
            talk.leave();
        }
        self.open(number, Carried::Talk(talk), Arrival::Session(Box::new(handed)))
    }

    /// Exchanges are finished; sessions might last for ever.
    fn end_talks(&mut self) {
        for number in self.conduit.streams.numbers() {
            if let Some((Carried::Talk(talk), _)) = self.conduit.streams.get(number) {
                talk.leave();
                conduit::step(self, number);
            }
        }
    }

    fn head(&self, head: &[u8]) -> Result<(u32, Head), Malformed> {
        let window = self.window.ok_or(Malformed::Hello)?;
        Ok((window, Head::decode(head).map_err(|_| Malformed::Payload)?))
    }

    fn open(&mut self, number: u32, carried: Carried, arrival: Arrival) -> Result<(), Malformed> {
        self.conduit.streams.open(number, carried)?;
        if let Err(refused) = (self.service.sink)(arrival) {
            write_fault(self.conduit.outbox.frames(), number, &refused.fault());
            self.close(number);
            return Ok(());
        }
        conduit::step(self, number);
        Ok(())
    }

    fn close(&mut self, number: u32) {
        drop(self.conduit.streams.close(number));
        // What its end has left there is for nobody; every step empties it for the others.
        self.asides.borrow_mut().clear();
    }

    /// Has a stream act on a frame. One that is over hears of nothing.
    fn with(
        &mut self,
        number: u32,
        act: impl FnOnce(&mut Carried) -> Result<Step, Malformed>,
    ) -> Result<(), Malformed> {
        let Some((carried, _)) = self.conduit.streams.get(number) else { return Ok(()) };
        if act(carried)? == Step::Again {
            conduit::step(self, number);
        }
        Ok(())
    }
}

impl End for State {
    type Stream = Carried;

    fn conduit(&mut self) -> &mut Conduit<Carried> {
        &mut self.conduit
    }

    fn frame(&mut self, frame: Frame<'_>, chunk: Option<&Bytes>) -> Result<(), Malformed> {
        match frame {
            Frame::Hello { program, .. } if program != PROGRAM.as_bytes() => {
                return Err(Malformed::Version);
            }
            Frame::Hello { window, .. } => self.window = Some(window),
            Frame::Request { stream, end, head, body } => {
                return self.begin(stream, head, body, end);
            }
            Frame::Data(Data { stream, bytes, cost, end }) => {
                return self.with(stream, |carried| {
                    carried.exchange()?.data(conduit::kept(bytes, chunk), cost, end)
                });
            }
            Frame::Plain { kind: Kind::Trailers, stream, payload } => {
                return self.with(stream, |carried| carried.exchange()?.trailers(payload));
            }
            Frame::Plain { kind: Kind::Fault, stream, payload } => {
                return self.with(stream, |carried| carried.exchange()?.body_failed(payload));
            }
            Frame::Plain { kind: Kind::Session, stream, payload } => {
                return self.begin_talk(stream, payload);
            }
            Frame::Window { stream, credit } => {
                return self.with(stream, |carried| carried.granted(credit));
            }
            Frame::Message { stream, binary, end, bytes } => {
                return self.with(stream, |carried| carried.talk()?.message(binary, end, bytes));
            }
            Frame::Close { stream, code, reason } => {
                self.with(stream, |carried| {
                    carried.talk()?.closed(code, reason);
                    Ok(Step::Waits)
                })?;
                self.close(stream);
            }
            Frame::Cancel { stream } => self.close(stream),
            Frame::GoAway => self.released = true,
            Frame::Ping(number) => {
                frames::ping(self.conduit.outbox.frames(), Kind::Pong, number);
            }
            Frame::Pong(_) => {}
            _ => return Err(Malformed::Kind),
        }
        Ok(())
    }

    fn step(&mut self, number: u32) -> Step {
        let Conduit { streams, outbox, .. } = &mut self.conduit;
        let Some((carried, waker)) = streams.get(number) else { return Step::Over };
        let step = match carried {
            Carried::Exchange(exchange) => exchange.step(number, outbox, waker),
            Carried::Talk(talk) => match talk.step(number, outbox, waker) {
                Talked::Goes(step) => step,
                Talked::Denied(outcome) => {
                    // From here on it is answered like any request.
                    let credit = talk.credit();
                    let mut exchange = Exchange::answered(credit, &self.asides);
                    let step = exchange.answer_with(outcome, number, outbox, waker);
                    *carried = Carried::Exchange(exchange);
                    step
                }
            },
        };
        if step == Step::Over {
            self.close(number);
        }
        step
    }

    fn is_done(&mut self) -> bool {
        self.leaving && self.released && self.conduit.streams.is_empty()
    }
}
