//! What a stream carries at the gateway's end: an exchange, or a session of WebSocket.

use std::task::Waker;

use exchange::Fault;
use exchange::offload::Arrival;
use wire::frames::{Kind, Malformed};

use super::exchange::Exchange;
use super::talk::Talk;
use crate::conduit::{Outbox, Step};

pub(super) enum Carried {
    Exchange(Exchange),
    Talk(Talk),
}

impl Carried {
    /// Sends what there is of it. `None` where it was answered instead.
    pub(super) fn begin(
        arrival: Arrival,
        number: u32,
        window: u32,
        waker: &Waker,
        outbox: &mut Outbox,
    ) -> Option<Carried> {
        match arrival {
            Arrival::Exchange(handed) => {
                Exchange::begin(*handed, number, window, waker, outbox).map(Carried::Exchange)
            }
            Arrival::Session(handed) => {
                Talk::begin(*handed, number, window, outbox).map(Carried::Talk)
            }
        }
    }

    pub(super) fn step(&mut self, number: u32, outbox: &mut Outbox, waker: &Waker) -> Step {
        match self {
            Carried::Exchange(exchange) => exchange.step(number, outbox, waker),
            Carried::Talk(talk) => talk.step(number, outbox, waker),
        }
    }

    pub(super) fn exchange(&mut self) -> Result<&mut Exchange, Malformed> {
        match self {
            Carried::Exchange(exchange) => Ok(exchange),
            Carried::Talk(_) => Err(Malformed::Stream),
        }
    }

    pub(super) fn talk(&mut self) -> Result<&mut Talk, Malformed> {
        match self {
            Carried::Talk(talk) => Ok(talk),
            Carried::Exchange(_) => Err(Malformed::Stream),
        }
    }

    /// The exchange that is answered: a session that is denied becomes one.
    pub(super) fn answering(&mut self) -> Result<&mut Exchange, Malformed> {
        if let Carried::Talk(talk) = self {
            let answering = talk.deny().ok_or(Malformed::Stream)?;
            *self = Carried::Exchange(Exchange::denied(answering));
        }
        self.exchange()
    }

    /// A frame whose payload is ours to read.
    pub(super) fn told(&mut self, kind: Kind, payload: &[u8]) -> Result<Step, Malformed> {
        match kind {
            Kind::Trailers => self.exchange()?.ended_by_trailers(payload),
            Kind::Fault => self.answering()?.failed(payload),
            Kind::Inform => self.exchange()?.informed(payload).map(|()| Step::Waits),
            Kind::Accept => self.talk()?.accepted(payload),
            _ => Err(Malformed::Kind),
        }
    }

    pub(super) fn granted(&mut self, credit: u32) -> Result<Step, Malformed> {
        match self {
            Carried::Exchange(exchange) => exchange.granted(credit)?,
            Carried::Talk(talk) => talk.granted(credit)?,
        }
        Ok(Step::Again)
    }

    /// Whoever waits is told this.
    pub(super) fn fail(&mut self, fault: Fault) {
        match self {
            Carried::Exchange(exchange) => exchange.fail(fault),
            Carried::Talk(talk) => talk.fail(fault),
        }
    }
}
