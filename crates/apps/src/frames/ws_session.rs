//! One WebSocket session in the application process.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use message::HandlerResult;
use offload::encoding::{put_fields, put_optional};
use offload::session::{
    Accepted, Closed, Decision, HandedSession, LocalSession, OpenSession, begin,
};
use offload::{Head, Limits};
use wire::frames::{self, Kind, Malformed};

use crate::limits::FRAMES_WINDOW;
use crate::mux::{Inbound, Outbound, Outbox, SendProgress, StreamStep, close, closed};

pub(super) struct WsSession {
    phase: Phase,
    outbound: Outbound,
    inbound: Inbound,
    /// The process is draining.
    draining: bool,
}

enum Phase {
    Undecided(Box<LocalSession>),
    Open(OpenSession),
}

/// The result of a step of a session.
pub(super) enum SessionStep {
    Continues(StreamStep),
    /// The application denied it with this response.
    Denied(HandlerResult),
}

impl WsSession {
    pub(super) fn begin(head: Head, window: u32, limits: Limits) -> (HandedSession, WsSession) {
        let (handed, local) = begin(head, limits);
        let (outbound, inbound) = (Outbound::new(window), Inbound::new(FRAMES_WINDOW));
        (
            handed,
            WsSession {
                phase: Phase::Undecided(Box::new(local)),
                outbound,
                inbound,
                draining: false,
            },
        )
    }

    /// Sends the application's decision and messages.
    pub(super) fn step(&mut self, number: u32, outbox: &mut Outbox, waker: &Waker) -> SessionStep {
        let cx = &mut Context::from_waker(waker);
        if let Phase::Undecided(local) = &mut self.phase {
            match Pin::new(local).poll(cx) {
                Poll::Pending => return SessionStep::Continues(StreamStep::Pending),
                Poll::Ready(Decision::Denied(outcome)) => return SessionStep::Denied(outcome),
                Poll::Ready(Decision::Accepted(accepted, open)) => {
                    if !accept(&accepted, number, outbox) {
                        let why = "the headers of the acceptance do not fit in a frame";
                        return SessionStep::Denied(Err(message::Fault::internal(why)));
                    }
                    self.phase = Phase::Open(open);
                }
            }
        }
        let Phase::Open(open) = &mut self.phase else {
            return SessionStep::Continues(StreamStep::Pending);
        };
        self.inbound.renew(number, outbox, cx, |cx| open.poll_room(cx).is_ready());
        SessionStep::Continues(match self.outbound.run(number, outbox, || open.poll_said(cx)) {
            SendProgress::CloseCause => StreamStep::Done,
            _ if self.draining => {
                let restart = Closed::new(Closed::RESTART, "the application restarts");
                close(outbox, number, &restart);
                open.end(restart);
                StreamStep::Done
            }
            SendProgress::Pending => StreamStep::Pending,
            SendProgress::Turn | SendProgress::Stalled => StreamStep::Again,
        })
    }

    /// Ends the session with the next step after its acceptance: the process is draining.
    pub(super) fn leave(&mut self) {
        self.draining = true;
    }

    /// The unused credit.
    pub(super) fn credit(&self) -> u32 {
        self.outbound.credit()
    }

    pub(super) fn granted(&mut self, credit: u32) -> Result<StreamStep, Malformed> {
        self.outbound.grant(credit)?;
        Ok(StreamStep::Again)
    }

    pub(super) fn message(
        &mut self,
        binary: bool,
        end: bool,
        bytes: &[u8],
    ) -> Result<StreamStep, Malformed> {
        let Phase::Open(open) = &mut self.phase else { return Err(Malformed::Stream) };
        if let Some(message) = self.inbound.piece(binary, end, bytes)? {
            open.give(message);
        }
        Ok(if self.inbound.is_due() { StreamStep::Again } else { StreamStep::Pending })
    }

    /// The client has closed it. An undecided session learns it when it is dropped.
    pub(super) fn closed(&mut self, code: u16, reason: &[u8]) {
        if let Phase::Open(open) = &mut self.phase {
            open.end(closed(code, reason));
        }
    }
}

fn accept(accepted: &Accepted, number: u32, outbox: &mut Outbox) -> bool {
    let write = |out: &mut Vec<u8>| {
        put_optional(out, accepted.subprotocol.as_deref().map(str::as_bytes));
        put_fields(out, &accepted.headers);
    };
    frames::plain(outbox.frames(), Kind::Accept, number, write).is_ok()
}
