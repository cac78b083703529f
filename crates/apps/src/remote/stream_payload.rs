//! The payload of a stream at the gateway's end: an exchange or a WebSocket session.

use std::task::Waker;

use message::Fault;
use offload::Arrival;
use wire::frames::{Kind, Malformed};

use super::exchange::Exchange;
use super::ws_session::WsSession;
use crate::mux::{Outbox, StreamStep};

pub(super) enum StreamPayload {
    Exchange(Exchange),
    WsSession(WsSession),
}

impl StreamPayload {
    /// Sends the available part. `None` if an error response was sent instead.
    pub(super) fn begin(
        arrival: Arrival,
        number: u32,
        window: u32,
        waker: &Waker,
        outbox: &mut Outbox,
    ) -> Option<StreamPayload> {
        match arrival {
            Arrival::Exchange(handed) => {
                Exchange::begin(*handed, number, window, waker, outbox).map(StreamPayload::Exchange)
            }
            Arrival::Session(handed) => {
                WsSession::begin(*handed, number, window, outbox).map(StreamPayload::WsSession)
            }
        }
    }

    pub(super) fn step(&mut self, number: u32, outbox: &mut Outbox, waker: &Waker) -> StreamStep {
        match self {
            StreamPayload::Exchange(exchange) => exchange.step(number, outbox, waker),
            StreamPayload::WsSession(ws_session) => ws_session.step(number, outbox, waker),
        }
    }

    pub(super) fn exchange(&mut self) -> Result<&mut Exchange, Malformed> {
        match self {
            StreamPayload::Exchange(exchange) => Ok(exchange),
            StreamPayload::WsSession(_) => Err(Malformed::Stream),
        }
    }

    pub(super) fn ws_session(&mut self) -> Result<&mut WsSession, Malformed> {
        match self {
            StreamPayload::WsSession(ws_session) => Ok(ws_session),
            StreamPayload::Exchange(_) => Err(Malformed::Stream),
        }
    }

    /// Returns the exchange that gets a response: a denied session becomes one.
    pub(super) fn answering(&mut self) -> Result<&mut Exchange, Malformed> {
        if let StreamPayload::WsSession(ws_session) = self {
            let answering = ws_session.deny().ok_or(Malformed::Stream)?;
            *self = StreamPayload::Exchange(Exchange::denied(answering));
        }
        self.exchange()
    }

    /// Handles a frame with an encoded payload.
    pub(super) fn told(&mut self, kind: Kind, payload: &[u8]) -> Result<StreamStep, Malformed> {
        match kind {
            Kind::Trailers => self.exchange()?.ended_by_trailers(payload),
            Kind::Fault => self.answering()?.failed(payload),
            Kind::Inform => self.exchange()?.informed(payload).map(|()| StreamStep::Pending),
            Kind::Accept => self.ws_session()?.accepted(payload),
            _ => Err(Malformed::Kind),
        }
    }

    pub(super) fn granted(&mut self, credit: u32) -> Result<StreamStep, Malformed> {
        match self {
            StreamPayload::Exchange(exchange) => exchange.granted(credit)?,
            StreamPayload::WsSession(ws_session) => ws_session.granted(credit)?,
        }
        Ok(StreamStep::Again)
    }

    /// Fails the exchange or session.
    pub(super) fn fail(&mut self, fault: Fault) {
        match self {
            StreamPayload::Exchange(exchange) => exchange.fail(fault),
            StreamPayload::WsSession(ws_session) => ws_session.fail(fault),
        }
    }
}
