//! One session of WebSocket at the process's end.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use exchange::Outcome;
use exchange::offload::encoding::{put_fields, put_optional};
use exchange::offload::session::{
    Accepted, Closed, Decision, HandedSession, LocalSession, OpenSession, begin,
};
use exchange::offload::{Head, Limits};
use wire::frames::{self, Kind, Malformed};

use crate::conduit::{Hearing, Outbox, Pumped, Saying, Step, close, closed};
use crate::limits::FRAMES_WINDOW;

pub(super) struct Talk {
    phase: Phase,
    saying: Saying,
    hearing: Hearing,
    /// The process ends.
    leaving: bool,
}

enum Phase {
    Undecided(Box<LocalSession>),
    Open(OpenSession),
}

/// What becomes of a session.
pub(super) enum Talked {
    Goes(Step),
    /// It was denied: the client is answered this.
    Denied(Outcome),
}

impl Talk {
    pub(super) fn begin(head: Head, window: u32, limits: Limits) -> (HandedSession, Talk) {
        let (handed, local) = begin(head, limits);
        let (saying, hearing) = (Saying::new(window), Hearing::new(FRAMES_WINDOW));
        (handed, Talk { phase: Phase::Undecided(Box::new(local)), saying, hearing, leaving: false })
    }

    /// Passes on what the application decides and says.
    pub(super) fn step(&mut self, number: u32, outbox: &mut Outbox, waker: &Waker) -> Talked {
        let cx = &mut Context::from_waker(waker);
        if let Phase::Undecided(local) = &mut self.phase {
            match Pin::new(local).poll(cx) {
                Poll::Pending => return Talked::Goes(Step::Waits),
                Poll::Ready(Decision::Denied(outcome)) => return Talked::Denied(outcome),
                Poll::Ready(Decision::Accepted(accepted, open)) => {
                    if !accept(&accepted, number, outbox) {
                        let why = "the fields of the acceptance have no room in a frame";
                        return Talked::Denied(Err(exchange::Fault::internal(why)));
                    }
                    self.phase = Phase::Open(open);
                }
            }
        }
        let Phase::Open(open) = &mut self.phase else { return Talked::Goes(Step::Waits) };
        self.hearing.renew(number, outbox, cx, |cx| open.poll_room(cx).is_ready());
        Talked::Goes(match self.saying.run(number, outbox, || open.poll_said(cx)) {
            Pumped::Ended => Step::Over,
            _ if self.leaving => {
                let restart = Closed::new(Closed::RESTART, "the application restarts");
                close(outbox, number, &restart);
                open.end(restart);
                Step::Over
            }
            Pumped::Waits => Step::Waits,
            Pumped::Turn | Pumped::Stalled => Step::Again,
        })
    }

    /// The process ends: the next step says so, as soon as it is decided.
    pub(super) fn leave(&mut self) {
        self.leaving = true;
    }

    /// The credit that has not been used.
    pub(super) fn credit(&self) -> u32 {
        self.saying.credit()
    }

    pub(super) fn granted(&mut self, credit: u32) -> Result<Step, Malformed> {
        self.saying.grant(credit)?;
        Ok(Step::Again)
    }

    pub(super) fn message(
        &mut self,
        binary: bool,
        end: bool,
        bytes: &[u8],
    ) -> Result<Step, Malformed> {
        let Phase::Open(open) = &mut self.phase else { return Err(Malformed::Stream) };
        if let Some(message) = self.hearing.piece(binary, end, bytes)? {
            open.give(message);
        }
        Ok(if self.hearing.is_due() { Step::Again } else { Step::Waits })
    }

    /// The client has ended it. Undecided, the application learns it as this is dropped.
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
