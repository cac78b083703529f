//! One exchange at the process's end: its request has come in frames, its answer goes out.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use exchange::offload::{Head, Limits, Local, OffloadedRequest, begin};
use exchange::{Body, Fault, Headers, Inform, Outcome, Response};
use wire::Known;
use wire::frames::{self, INLINE_BYTES_MAX, Kind, Malformed};

use super::feed::{Asides, Feed};
use crate::conduit::{
    Outbox, Pump, Pumped, Step, read_fault, read_trailers, write_answer, write_fault,
};

pub(super) struct Exchange {
    phase: Phase,
    pump: Pump,
    /// Where the rest of the request's body goes.
    feed: Option<Feed>,
    asides: Asides,
}

enum Phase {
    Waited(Local),
    Streamed(Body),
}

/// Interim responses go out as frames.
struct Interim {
    number: u32,
    asides: Asides,
}

impl Inform for Interim {
    fn inform(&self, status: u16, headers: &Headers) {
        let mut asides = self.asides.borrow_mut();
        // One that has no room in a frame is not sent: nobody needs it (RFC 9110 15.2).
        let _ = frames::plain(&mut asides, Kind::Inform, self.number, |out| {
            write_answer(out, status, None, None, headers);
        });
    }
}

impl Exchange {
    pub(super) fn begin(
        number: u32,
        head: Head,
        body: &[u8],
        end: bool,
        window: u32,
        limits: Limits,
        asides: &Asides,
    ) -> (OffloadedRequest, Exchange) {
        let (body, feed) = if end {
            (Body::from(Bytes::copy_from_slice(body)), None)
        } else {
            let expects = head.headers.lists_token(Known::Expect, "100-continue");
            let (feed, reading) = Feed::new(number, head.body_length, expects, asides);
            (Body::stream(reading), Some(feed))
        };
        let interim = Rc::new(Interim { number, asides: asides.clone() });
        let (handed, local) = begin(head, body, Some(interim), limits);
        let (phase, pump) = (Phase::Waited(local), Pump::new(window));
        (handed, Exchange { phase, pump, feed, asides: asides.clone() })
    }

    /// Passes on what has come, and sends what there is of the answer.
    pub(super) fn step(&mut self, number: u32, outbox: &mut Outbox, waker: &Waker) -> Step {
        let cx = &mut Context::from_waker(waker);
        let step = self.advance(number, outbox, cx);
        outbox.frames().append(&mut self.asides.borrow_mut());
        step
    }

    fn advance(&mut self, number: u32, outbox: &mut Outbox, cx: &mut Context<'_>) -> Step {
        if let Phase::Waited(local) = &mut self.phase {
            let Poll::Ready(outcome) = Pin::new(local).poll(cx) else { return Step::Waits };
            return self.decided(outcome, number, outbox, cx);
        }
        let Phase::Streamed(body) = &mut self.phase else { return Step::Waits };
        match self.pump.run(number, outbox, cx, |cx| body.poll_frame(cx)) {
            Pumped::Waits => Step::Waits,
            Pumped::Turn | Pumped::Stalled => Step::Again,
            Pumped::Ended => Step::Over,
        }
    }

    fn decided(
        &mut self,
        outcome: Outcome,
        number: u32,
        outbox: &mut Outbox,
        cx: &mut Context<'_>,
    ) -> Step {
        // Interim responses go before the answer.
        outbox.frames().append(&mut self.asides.borrow_mut());
        let written = outcome.and_then(|response| self.answer(number, response, outbox));
        match written {
            Ok(true) => Step::Over,
            Ok(false) => self.advance(number, outbox, cx),
            Err(fault) => {
                write_fault(outbox.frames(), number, &fault);
                Step::Over
            }
        }
    }

    /// What was to be a session is answered as a request.
    pub(super) fn answered(credit: u32, asides: &Asides) -> Exchange {
        let phase = Phase::Streamed(Body::Empty);
        Exchange { phase, pump: Pump::new(credit), feed: None, asides: asides.clone() }
    }

    /// Sends the answer of what had no request of its own.
    pub(super) fn answer_with(
        &mut self,
        outcome: Outcome,
        number: u32,
        outbox: &mut Outbox,
        waker: &Waker,
    ) -> Step {
        self.decided(outcome, number, outbox, &mut Context::from_waker(waker))
    }

    /// Sends the head of the answer, with the body if that is there and short: then that is all.
    fn answer(
        &mut self,
        number: u32,
        response: Response,
        outbox: &mut Outbox,
    ) -> Result<bool, Fault> {
        let Response { status, headers, body, reason, .. } = response;
        let length = body.length();
        let inline = match body.owned() {
            Body::Empty => Ok(Bytes::new()),
            Body::Bytes(bytes) if bytes.len() <= INLINE_BYTES_MAX => Ok(bytes),
            longer => Err(longer),
        };
        let whole = inline.as_ref().map_or(0, Bytes::len);
        let write =
            |out: &mut Vec<u8>| write_answer(out, status, reason.as_deref(), length, &headers);
        let end = inline.is_ok();
        frames::headed(outbox.frames(), Kind::Response, number, end, whole, write)
            .map_err(|_| Fault::internal("the head of the answer has no room"))?;
        match inline {
            Ok(bytes) => outbox.payload(bytes),
            Err(Body::Bytes(bytes)) => {
                self.pump.whole(bytes);
                self.phase = Phase::Streamed(Body::Empty);
            }
            Err(body) => self.phase = Phase::Streamed(body),
        }
        Ok(end)
    }

    pub(super) fn granted(&mut self, credit: u32) -> Result<Step, Malformed> {
        self.pump.grant(credit)?;
        Ok(Step::Again)
    }

    /// A piece of the request's body.
    pub(super) fn data(&mut self, bytes: Bytes, cost: u32, end: bool) -> Result<Step, Malformed> {
        self.feed()?.data(bytes, cost, end)?;
        Ok(Step::Again)
    }

    pub(super) fn trailers(&mut self, payload: &[u8]) -> Result<Step, Malformed> {
        self.feed()?.trailers(read_trailers(payload)?)?;
        Ok(Step::Again)
    }

    pub(super) fn body_failed(&mut self, payload: &[u8]) -> Result<Step, Malformed> {
        self.feed()?.fail(read_fault(payload)?)?;
        Ok(Step::Again)
    }

    fn feed(&mut self) -> Result<&Feed, Malformed> {
        self.feed.as_ref().ok_or(Malformed::Stream)
    }
}
