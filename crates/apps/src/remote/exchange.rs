//! One exchange at the gateway's end: its request goes out as frames, its answer comes in.

use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use exchange::offload::{Answering, Incoming, OffloadedRequest, Sending};
use exchange::{BodyStream, Fault, Frame, Side};
use wire::Known;
use wire::frames::{self, INLINE_BYTES_MAX, Kind, Malformed};

use crate::conduit::{
    Credit, Outbox, Pump, Pumped, Step, read_answer, read_fault, read_interim, read_trailers,
};
use crate::limits::FRAMES_WINDOW;

pub(super) struct Exchange {
    /// The request's body, while there is more of it to send.
    body: Option<Incoming>,
    pump: Pump,
    answer: Answer,
    credit: Credit,
}

enum Answer {
    Waited(Answering),
    Streamed(Sending),
    /// It is whole.
    Given,
}

impl Exchange {
    /// Sends the head, with the body if that is there and short. `None` where it was answered
    /// instead.
    pub(super) fn begin(
        handed: OffloadedRequest,
        number: u32,
        window: u32,
        waker: &Waker,
        outbox: &mut Outbox,
    ) -> Option<Exchange> {
        let OffloadedRequest { head, body, answer } = handed;
        // Asking for the body is what tells a client to send it (RFC 9110 10.1.1): the application
        // asks by its first credit.
        let expects = head.headers.lists_token(Known::Expect, "100-continue");
        let mut pump = Pump::new(if expects { 0 } else { window });
        let mut cx = Context::from_waker(waker);
        let first = match head.body_length {
            Some(0) => First { whole: true, ..First::default() },
            _ if expects => First { rest: Some(body), ..First::default() },
            _ => First::of(body, &mut cx),
        };
        let inline = if first.whole { first.bytes.len() } else { 0 };
        let write = |out: &mut Vec<u8>| head.encode(out);
        let written =
            frames::headed(outbox.frames(), Kind::Request, number, first.whole, inline, write);
        if written.is_err() {
            let detail = "the head of the request has no room in a frame";
            answer.fail(Fault::new(Side::Client, 431, "head_too_large", detail));
            return None;
        }
        if first.whole {
            outbox.payload(first.bytes);
        } else {
            pump.begin(first.bytes, first.next);
        }
        let credit = Credit::new(FRAMES_WINDOW);
        Some(Exchange { body: first.rest, pump, answer: Answer::Waited(answer), credit })
    }

    /// What was to be a session is answered as a request.
    pub(super) fn denied(answering: Answering) -> Exchange {
        let answer = Answer::Waited(answering);
        Exchange { body: None, pump: Pump::new(0), answer, credit: Credit::new(FRAMES_WINDOW) }
    }

    /// Sends more of the body, renews credit, and sees whether the client is still there.
    pub(super) fn step(&mut self, number: u32, outbox: &mut Outbox, waker: &Waker) -> Step {
        let cx = &mut Context::from_waker(waker);
        let unwanted = match &mut self.answer {
            Answer::Waited(answering) => answering.poll_unwanted(cx).is_ready(),
            Answer::Streamed(sending) => {
                if self.credit.is_due() && matches!(sending.poll_ready(cx), Poll::Ready(Ok(()))) {
                    self.credit.renew(number, outbox.frames());
                }
                sending.poll_unwanted(cx).is_ready()
            }
            Answer::Given => return Step::Over,
        };
        if unwanted {
            frames::bare(outbox.frames(), Kind::Cancel, number);
            return Step::Over;
        }
        let Some(body) = &mut self.body else { return Step::Waits };
        match self.pump.run(number, outbox, cx, |cx| body.poll_frame(cx)) {
            Pumped::Waits => Step::Waits,
            Pumped::Turn | Pumped::Stalled => Step::Again,
            Pumped::Ended => {
                self.body = None;
                Step::Waits
            }
        }
    }

    pub(super) fn granted(&mut self, credit: u32) -> Result<(), Malformed> {
        self.pump.grant(credit)
    }

    /// The application wants no more of the body.
    pub(super) fn stopped(&mut self) {
        self.body = None;
    }

    pub(super) fn informed(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let (status, headers) = read_interim(payload)?;
        if let Answer::Waited(answering) = &self.answer {
            answering.inform(status, headers);
        }
        Ok(())
    }

    /// The head of the answer, with its body where `end` says that this is all.
    pub(super) fn answered(
        &mut self,
        head: &[u8],
        body: &[u8],
        end: bool,
    ) -> Result<Step, Malformed> {
        let head = read_answer(head)?;
        let Answer::Waited(mut answering) = std::mem::replace(&mut self.answer, Answer::Given)
        else {
            return Err(Malformed::Stream);
        };
        answering.set_reason(head.reason);
        if end {
            answering.whole(head.status, head.headers, Bytes::copy_from_slice(body));
            return Ok(Step::Over);
        }
        self.answer = Answer::Streamed(answering.stream(head.status, head.headers, head.length));
        Ok(Step::Again)
    }

    /// A piece of the answer's body.
    pub(super) fn data(&mut self, bytes: Bytes, cost: u32, end: bool) -> Result<Step, Malformed> {
        self.credit.spend(cost)?;
        self.credit.passed_on(cost);
        let Answer::Streamed(sending) = &mut self.answer else { return Err(Malformed::Stream) };
        if !bytes.is_empty() {
            sending.push(Frame::Data(bytes));
        }
        if end {
            self.finish(None);
            return Ok(Step::Over);
        }
        Ok(if self.credit.is_due() { Step::Again } else { Step::Waits })
    }

    pub(super) fn ended_by_trailers(&mut self, payload: &[u8]) -> Result<Step, Malformed> {
        let fields = read_trailers(payload)?;
        if !matches!(self.answer, Answer::Streamed(_)) {
            return Err(Malformed::Stream);
        }
        self.finish(Some(fields));
        Ok(Step::Over)
    }

    fn finish(&mut self, trailers: Option<exchange::Headers>) {
        if let Answer::Streamed(sending) = std::mem::replace(&mut self.answer, Answer::Given) {
            sending.finish(trailers);
        }
    }

    pub(super) fn failed(&mut self, payload: &[u8]) -> Result<Step, Malformed> {
        self.fail(read_fault(payload)?);
        Ok(Step::Over)
    }

    /// Whoever waits is told this.
    pub(super) fn fail(&mut self, fault: Fault) {
        match std::mem::replace(&mut self.answer, Answer::Given) {
            Answer::Waited(answering) => answering.fail(fault),
            Answer::Streamed(sending) => sending.fail(fault),
            Answer::Given => {}
        }
    }
}

/// What is there of a body when its request is sent.
#[derive(Default)]
struct First {
    bytes: Bytes,
    /// That is all of it.
    whole: bool,
    /// What has been taken behind the bytes.
    next: Option<Result<Frame, Fault>>,
    rest: Option<Incoming>,
}

impl First {
    fn of(mut body: Incoming, cx: &mut Context<'_>) -> First {
        let mut first = First::default();
        loop {
            match body.poll_frame(cx) {
                Poll::Ready(Some(Ok(Frame::Data(bytes)))) if first.bytes.is_empty() => {
                    first.bytes = bytes;
                }
                Poll::Ready(None) => {
                    first.whole = first.bytes.len() <= INLINE_BYTES_MAX;
                    break;
                }
                Poll::Ready(next) => {
                    first.next = next;
                    break;
                }
                Poll::Pending => break,
            }
        }
        if !first.whole {
            first.rest = Some(body);
        }
        first
    }
}
