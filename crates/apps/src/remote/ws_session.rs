//! One WebSocket session at the gateway's end.

use std::task::{Context, Poll, Waker};

use message::{Fault, FaultKind};
use offload::encoding::Reader;
use offload::session::{Accepted, HandedSession, Session};
use offload::{Head, Responder};
use wire::frames::{self, Kind, Malformed};

use crate::limits::FRAMES_WINDOW;
use crate::mux::{Inbound, Outbound, Outbox, SendProgress, StreamStep, closed};

pub(super) struct WsSession {
    session: Session,
    outbound: Outbound,
    inbound: Inbound,
}

impl WsSession {
    /// Sends the request head. `None` if the session was denied instead.
    pub(super) fn begin(
        handed: HandedSession,
        number: u32,
        window: u32,
        outbox: &mut Outbox,
    ) -> Option<WsSession> {
        let HandedSession { head, mut session } = handed;
        let write = |out: &mut Vec<u8>| Head::encode(&head, out);
        if frames::plain(outbox.frames(), Kind::Session, number, write).is_err() {
            let detail = "the request head does not fit in a frame";
            if let Some(answering) = session.deny() {
                answering.fail(Fault::new(FaultKind::HeadTooLarge, detail));
            }
            return None;
        }
        let (outbound, inbound) = (Outbound::new(window), Inbound::new(FRAMES_WINDOW));
        Some(WsSession { session, outbound, inbound })
    }

    /// Sends the client's messages and its close.
    pub(super) fn step(&mut self, number: u32, outbox: &mut Outbox, waker: &Waker) -> StreamStep {
        let cx = &Context::from_waker(waker);
        let session = &mut self.session;
        self.inbound
            .renew(number, outbox, cx, |cx| matches!(session.poll_ready(cx), Poll::Ready(Ok(()))));
        match self.outbound.run(number, outbox, || session.poll_receive(cx)) {
            SendProgress::Pending => StreamStep::Pending,
            SendProgress::Turn | SendProgress::Stalled => StreamStep::Again,
            SendProgress::CloseCause => StreamStep::Done,
        }
    }

    pub(super) fn granted(&mut self, credit: u32) -> Result<(), Malformed> {
        self.outbound.grant(credit)
    }

    pub(super) fn accepted(&mut self, payload: &[u8]) -> Result<StreamStep, Malformed> {
        let mut from = Reader::new(payload);
        let subprotocol = from.optional_text().map_err(|_| Malformed::Payload)?.map(Box::from);
        let headers = from.fields().map_err(|_| Malformed::Payload)?;
        from.end().map_err(|_| Malformed::Payload)?;
        if !self.session.is_undecided() {
            return Err(Malformed::Stream);
        }
        // If the client has gone, its end is already queued for the application.
        let _ = self.session.accept(Accepted { subprotocol, headers });
        Ok(StreamStep::Again)
    }

    pub(super) fn message(
        &mut self,
        binary: bool,
        end: bool,
        bytes: &[u8],
    ) -> Result<StreamStep, Malformed> {
        if self.session.is_undecided() {
            return Err(Malformed::Stream);
        }
        if let Some(message) = self.inbound.piece(binary, end, bytes)? {
            // As above.
            let _ = self.session.send(message);
        }
        Ok(if self.inbound.is_due() { StreamStep::Again } else { StreamStep::Pending })
    }

    /// The application closes the session.
    pub(super) fn closed(&mut self, code: u16, reason: &[u8]) -> StreamStep {
        let _ = self.session.close(closed(code, reason));
        StreamStep::Done
    }

    /// The handle that denies it, if it is undecided.
    pub(super) fn deny(&mut self) -> Option<Responder> {
        self.session.deny()
    }

    /// Fails an undecided session; an open one is closed when it is dropped.
    pub(super) fn fail(&mut self, fault: Fault) {
        if let Some(answering) = self.session.deny() {
            answering.fail(fault);
        }
    }
}
