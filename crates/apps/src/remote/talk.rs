//! One session of WebSocket at the gateway's end.

use std::task::{Context, Poll, Waker};

use exchange::offload::encoding::Reader;
use exchange::offload::session::{Accepted, HandedSession, Session};
use exchange::offload::{Answering, Head};
use exchange::{Fault, Side};
use wire::frames::{self, Kind, Malformed};

use crate::conduit::{Hearing, Outbox, Pumped, Saying, Step, closed};
use crate::limits::FRAMES_WINDOW;

pub(super) struct Talk {
    session: Session,
    saying: Saying,
    hearing: Hearing,
}

impl Talk {
    /// Sends the head. `None` where the session was denied instead.
    pub(super) fn begin(
        handed: HandedSession,
        number: u32,
        window: u32,
        outbox: &mut Outbox,
    ) -> Option<Talk> {
        let HandedSession { head, mut session } = handed;
        let write = |out: &mut Vec<u8>| Head::encode(&head, out);
        if frames::plain(outbox.frames(), Kind::Session, number, write).is_err() {
            let detail = "the head of the request has no room in a frame";
            if let Some(answering) = session.deny() {
                answering.fail(Fault::new(Side::Client, 431, "head_too_large", detail));
            }
            return None;
        }
        let (saying, hearing) = (Saying::new(window), Hearing::new(FRAMES_WINDOW));
        Some(Talk { session, saying, hearing })
    }

    /// Passes on what the client says, and its end.
    pub(super) fn step(&mut self, number: u32, outbox: &mut Outbox, waker: &Waker) -> Step {
        let cx = &Context::from_waker(waker);
        let session = &mut self.session;
        self.hearing
            .renew(number, outbox, cx, |cx| matches!(session.poll_ready(cx), Poll::Ready(Ok(()))));
        match self.saying.run(number, outbox, || session.poll_receive(cx)) {
            Pumped::Waits => Step::Waits,
            Pumped::Turn | Pumped::Stalled => Step::Again,
            Pumped::Ended => Step::Over,
        }
    }

    pub(super) fn granted(&mut self, credit: u32) -> Result<(), Malformed> {
        self.saying.grant(credit)
    }

    pub(super) fn accepted(&mut self, payload: &[u8]) -> Result<Step, Malformed> {
        let mut from = Reader::new(payload);
        let subprotocol = from.optional_text().map_err(|_| Malformed::Payload)?.map(Box::from);
        let headers = from.fields().map_err(|_| Malformed::Payload)?;
        from.end().map_err(|_| Malformed::Payload)?;
        if !self.session.is_undecided() {
            return Err(Malformed::Stream);
        }
        // If the client has gone, its end is on the way to the application.
        let _ = self.session.accept(Accepted { subprotocol, headers });
        Ok(Step::Again)
    }

    pub(super) fn message(
        &mut self,
        binary: bool,
        end: bool,
        bytes: &[u8],
    ) -> Result<Step, Malformed> {
        if self.session.is_undecided() {
            return Err(Malformed::Stream);
        }
        if let Some(message) = self.hearing.piece(binary, end, bytes)? {
            // The same.
            let _ = self.session.send(message);
        }
        Ok(if self.hearing.is_due() { Step::Again } else { Step::Waits })
    }

    /// The application says goodbye.
    pub(super) fn closed(&mut self, code: u16, reason: &[u8]) -> Step {
        let _ = self.session.close(closed(code, reason));
        Step::Over
    }

    /// What denies it.
    pub(super) fn deny(&mut self) -> Option<Answering> {
        self.session.deny()
    }

    /// The connection has broken; an open session is closed as it is dropped.
    pub(super) fn fail(&mut self, fault: Fault) {
        if let Some(answering) = self.session.deny() {
            answering.fail(fault);
        }
    }
}
