//! One connection from a gateway's worker to a process, and the streams on it.
//!
//! Takes exchanges at any time and sends all of a turn together. Ends when the process has gone or
//! said something malformed, which fails what is under way, or when it takes nothing new and
//! nothing is left.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use bytes::Bytes;
use exchange::offload::Arrival;
use exchange::{Fault, Retry};
use net::Stream;
use wire::frames::{self, Data, Frame, Kind, Malformed};

use super::carried::Carried;
use crate::conduit::{self, Conduit, End, Ended, PROGRAM, Step};
use crate::limits::FRAMES_WINDOW;

/// A connection in its life.
pub(super) struct Link {
    state: RefCell<State>,
    /// What is told when exchanges may be given to it, or none any more.
    changed: Rc<dyn Fn()>,
}

struct State {
    conduit: Conduit<Carried>,
    /// The credit that the process gives each stream; none before its greeting.
    window: Option<u32>,
    /// The process takes nothing new, or we give it nothing new.
    leaving: bool,
    /// Its task.
    waker: Option<Waker>,
    changed: Cell<bool>,
    /// Something was turned away because there are as many streams as may be.
    full: bool,
}

impl Link {
    pub(super) fn new(changed: Rc<dyn Fn()>) -> Rc<Link> {
        let mut conduit = Conduit::new();
        frames::hello(conduit.outbox.frames(), FRAMES_WINDOW, PROGRAM);
        let state = State {
            conduit,
            window: None,
            leaving: false,
            waker: None,
            changed: Cell::new(false),
            full: false,
        };
        Rc::new(Link { state: RefCell::new(state), changed })
    }

    /// Whether it takes exchanges.
    pub(super) fn is_open(&self) -> bool {
        let state = self.state.borrow();
        state.window.is_some() && !state.leaving
    }

    /// Whether it takes none any more.
    pub(super) fn is_leaving(&self) -> bool {
        self.state.borrow().leaving
    }

    pub(super) fn in_flight(&self) -> usize {
        self.state.borrow().conduit.streams.len()
    }

    /// Sends an exchange; it comes back if there is no room or the connection is not open.
    pub(super) fn send(&self, arrival: Arrival) -> Result<(), Arrival> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let Some(window) = state.window.filter(|_| !state.leaving) else { return Err(arrival) };
        let Some((number, waker)) = state.conduit.streams.number() else {
            state.full = true;
            return Err(arrival);
        };
        state.begin(arrival, number, window, &waker);
        if let Some(waker) = &state.waker {
            waker.wake_by_ref();
        }
        Ok(())
    }

    /// Gives it nothing new; it ends when nothing is left.
    pub(super) fn retire(&self) {
        let mut state = self.state.borrow_mut();
        state.leaving = true;
        if let Some(waker) = &state.waker {
            waker.wake_by_ref();
        }
    }

    /// Drives the connection to its end; what it was, and how many exchanges it cost.
    pub(super) async fn run(&self, stream: Stream) -> (Ended, usize) {
        let ended = poll_fn(|cx| {
            let mut state = self.state.borrow_mut();
            if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                state.waker = Some(cx.waker().clone());
            }
            let ended = conduit::poll(&stream, &mut *state, cx);
            let changed = state.changed.take();
            drop(state);
            if changed {
                (self.changed)();
            }
            match ended {
                Poll::Ready(ended) => Poll::Ready(ended),
                Poll::Pending => Poll::Pending,
            }
        });
        let ended = ended.await;
        let mut state = self.state.borrow_mut();
        state.leaving = true;
        let streams = state.conduit.streams.drain();
        drop(state);
        let lost = streams.len();
        for mut carried in streams {
            carried.fail(broken(&ended));
        }
        (ended, lost)
    }
}

/// What clients are told whose exchanges the process had.
fn broken(ended: &Ended) -> Fault {
    let detail = match ended {
        Ended::Malformed(malformed) => malformed.text(),
        Ended::Done | Ended::Closed | Ended::Failed(_) => "the process of the application has gone",
    };
    Fault::upstream(502, "connection_terminated", Retry::IfIdempotent, detail)
}

impl State {
    fn begin(&mut self, arrival: Arrival, number: u32, window: u32, waker: &Waker) {
        let outbox = &mut self.conduit.outbox;
        let Some(carried) = Carried::begin(arrival, number, window, waker, outbox) else { return };
        // The place is free: its number was given out just now.
        if self.conduit.streams.open(number, carried).is_ok() {
            conduit::step(self, number);
        }
    }

    fn greeted(&mut self, window: u32, program: &[u8]) -> Result<(), Malformed> {
        if program != PROGRAM.as_bytes() {
            return Err(Malformed::Version);
        }
        self.window = Some(window);
        self.changed.set(true);
        Ok(())
    }

    /// The process takes nothing new: it is told that nothing more comes.
    fn leave(&mut self) {
        if !self.leaving {
            self.leaving = true;
            self.changed.set(true);
        }
        frames::bare(self.conduit.outbox.frames(), Kind::GoAway, 0);
    }

    fn close(&mut self, number: u32) {
        drop(self.conduit.streams.close(number));
        if std::mem::take(&mut self.full) {
            self.changed.set(true);
        }
    }

    /// Has a stream act on a frame. One that is over hears of nothing.
    fn with(
        &mut self,
        number: u32,
        act: impl FnOnce(&mut Carried) -> Result<Step, Malformed>,
    ) -> Result<(), Malformed> {
        let Some((carried, _)) = self.conduit.streams.get(number) else { return Ok(()) };
        match act(carried)? {
            Step::Waits => {}
            Step::Again => conduit::step(self, number),
            Step::Over => self.close(number),
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
            Frame::Hello { window, program } => self.greeted(window, program),
            Frame::Response { stream, end, head, body } => {
                self.with(stream, |carried| carried.answering()?.answered(head, body, end))
            }
            Frame::Data(Data { stream, bytes, cost, end }) => self.with(stream, |carried| {
                carried.exchange()?.data(conduit::kept(bytes, chunk), cost, end)
            }),
            Frame::Plain { kind, stream, payload } => {
                self.with(stream, |carried| carried.told(kind, payload))
            }
            Frame::Window { stream, credit } => {
                self.with(stream, |carried| carried.granted(credit))
            }
            Frame::Stop { stream } => self.with(stream, |carried| {
                carried.exchange()?.stopped();
                Ok(Step::Waits)
            }),
            Frame::Message { stream, binary, end, bytes } => {
                self.with(stream, |carried| carried.talk()?.message(binary, end, bytes))
            }
            Frame::Close { stream, code, reason } => {
                self.with(stream, |carried| Ok(carried.talk()?.closed(code, reason)))
            }
            Frame::GoAway => {
                self.leave();
                Ok(())
            }
            Frame::Ping(number) => {
                frames::ping(self.conduit.outbox.frames(), Kind::Pong, number);
                Ok(())
            }
            Frame::Pong(_) => Ok(()),
            _ => Err(Malformed::Kind),
        }
    }

    fn step(&mut self, number: u32) -> Step {
        let Conduit { streams, outbox, .. } = &mut self.conduit;
        let Some((carried, waker)) = streams.get(number) else { return Step::Over };
        let step = carried.step(number, outbox, waker);
        if step == Step::Over {
            self.close(number);
        }
        step
    }

    fn is_done(&mut self) -> bool {
        self.leaving && self.conduit.streams.is_empty()
    }
}
