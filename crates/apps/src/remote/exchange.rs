//! One exchange at the gateway's end: its request leaves in frames, its response arrives in frames.

use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use message::{BodyStream, Fault, FaultKind, Frame};
use net::FileRange;
use offload::{Incoming, OffloadedRequest, Responder, Sending};
use wire::Known;
use wire::frames::{self, FILE_COST, INLINE_BYTES_MAX, Kind, Malformed};

use crate::limits::FRAMES_WINDOW;
use crate::mux::{
    BodySender, Outbox, ReceiveWindow, SendProgress, StreamStep, read_fault, read_interim,
    read_response_head, read_trailers,
};

pub(super) struct Exchange {
    /// The request's body, until it is sent.
    body: Option<Incoming>,
    sender: BodySender,
    answer: ResponseState,
    credit: ReceiveWindow,
}

enum ResponseState {
    Awaited(Responder),
    Streamed(Sending),
    /// The response is complete.
    Complete,
}

impl Exchange {
    /// Sends the head, with the body if it is complete and short. `None` if an error response was
    /// sent instead.
    pub(super) fn begin(
        handed: OffloadedRequest,
        number: u32,
        window: u32,
        waker: &Waker,
        outbox: &mut Outbox,
    ) -> Option<Exchange> {
        let OffloadedRequest { head, body, answer } = handed;
        // Polling the body makes the client send it (RFC 9110 10.1.1): here the application's
        // first credit does.
        let expects = head.headers.lists_token(Known::Expect, "100-continue");
        let mut sender = BodySender::new(if expects { 0 } else { window });
        let mut cx = Context::from_waker(waker);
        let first = match head.body_length {
            Some(0) => InitialBody { complete: true, ..InitialBody::default() },
            _ if expects => InitialBody { rest: Some(body), ..InitialBody::default() },
            _ => InitialBody::of(body, &mut cx),
        };
        let inline = if first.complete { first.bytes.len() } else { 0 };
        let write = |out: &mut Vec<u8>| head.encode(out);
        let written =
            frames::headed(outbox.frames(), Kind::Request, number, first.complete, inline, write);
        if written.is_err() {
            let detail = "the request head does not fit in a frame";
            answer.fail(Fault::new(FaultKind::HeadTooLarge, detail));
            return None;
        }
        if first.complete {
            outbox.payload(first.bytes);
        } else {
            sender.begin(first.bytes, first.next);
        }
        let credit = ReceiveWindow::new(FRAMES_WINDOW);
        Some(Exchange { body: first.rest, sender, answer: ResponseState::Awaited(answer), credit })
    }

    /// An exchange for a denied session.
    pub(super) fn denied(answering: Responder) -> Exchange {
        let answer = ResponseState::Awaited(answering);
        Exchange {
            body: None,
            sender: BodySender::new(0),
            answer,
            credit: ReceiveWindow::new(FRAMES_WINDOW),
        }
    }

    /// Sends more of the body, renews credit, and checks that the client is still connected.
    pub(super) fn step(&mut self, number: u32, outbox: &mut Outbox, waker: &Waker) -> StreamStep {
        let cx = &mut Context::from_waker(waker);
        let unwanted = match &mut self.answer {
            ResponseState::Awaited(answering) => answering.poll_unwanted(cx).is_ready(),
            ResponseState::Streamed(sending) => {
                if self.credit.is_due() && matches!(sending.poll_ready(cx), Poll::Ready(Ok(()))) {
                    self.credit.renew(number, outbox.frames());
                }
                sending.poll_unwanted(cx).is_ready()
            }
            ResponseState::Complete => return StreamStep::Done,
        };
        if unwanted {
            frames::bare(outbox.frames(), Kind::Cancel, number);
            return StreamStep::Done;
        }
        let Some(body) = &mut self.body else { return StreamStep::Pending };
        match self.sender.run(number, outbox, cx, |cx| body.poll_frame(cx)) {
            SendProgress::Pending => StreamStep::Pending,
            SendProgress::Turn | SendProgress::Stalled => StreamStep::Again,
            SendProgress::CloseCause => {
                self.body = None;
                StreamStep::Pending
            }
        }
    }

    pub(super) fn granted(&mut self, credit: u32) -> Result<(), Malformed> {
        self.sender.grant(credit)
    }

    /// The application does not read more of the body.
    pub(super) fn stopped(&mut self) {
        self.body = None;
    }

    pub(super) fn informed(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        let (status, headers) = read_interim(payload)?;
        if let ResponseState::Awaited(answering) = &self.answer {
            answering.inform(status, headers);
        }
        Ok(())
    }

    /// Receives the response head, with its body if `end` is set.
    pub(super) fn answered(
        &mut self,
        head: &[u8],
        body: &[u8],
        end: bool,
    ) -> Result<StreamStep, Malformed> {
        let head = read_response_head(head)?;
        let ResponseState::Awaited(mut answering) =
            std::mem::replace(&mut self.answer, ResponseState::Complete)
        else {
            return Err(Malformed::Stream);
        };
        answering.set_reason(head.reason);
        if end {
            answering.respond(head.status, head.headers, Bytes::copy_from_slice(body));
            return Ok(StreamStep::Done);
        }
        self.answer =
            ResponseState::Streamed(answering.stream(head.status, head.headers, head.length));
        Ok(StreamStep::Again)
    }

    /// Receives a piece of the response body.
    pub(super) fn data(
        &mut self,
        bytes: Bytes,
        cost: u32,
        end: bool,
    ) -> Result<StreamStep, Malformed> {
        self.credit.spend(cost)?;
        self.credit.passed_on(cost);
        let ResponseState::Streamed(sending) = &mut self.answer else {
            return Err(Malformed::Stream);
        };
        if !bytes.is_empty() {
            sending.push(Frame::Data(bytes));
        }
        if end {
            self.finish(None);
            return Ok(StreamStep::Done);
        }
        Ok(if self.credit.is_due() { StreamStep::Again } else { StreamStep::Pending })
    }

    /// Receives a part of a file of the response body.
    pub(super) fn file(&mut self, range: FileRange) -> Result<StreamStep, Malformed> {
        self.credit.spend(FILE_COST)?;
        self.credit.passed_on(FILE_COST);
        let ResponseState::Streamed(sending) = &mut self.answer else {
            return Err(Malformed::Stream);
        };
        sending.push(Frame::File(range));
        Ok(if self.credit.is_due() { StreamStep::Again } else { StreamStep::Pending })
    }

    pub(super) fn ended_by_trailers(&mut self, payload: &[u8]) -> Result<StreamStep, Malformed> {
        let fields = read_trailers(payload)?;
        if !matches!(self.answer, ResponseState::Streamed(_)) {
            return Err(Malformed::Stream);
        }
        self.finish(Some(fields));
        Ok(StreamStep::Done)
    }

    fn finish(&mut self, trailers: Option<message::Headers>) {
        if let ResponseState::Streamed(sending) =
            std::mem::replace(&mut self.answer, ResponseState::Complete)
        {
            sending.finish(trailers);
        }
    }

    pub(super) fn failed(&mut self, payload: &[u8]) -> Result<StreamStep, Malformed> {
        self.fail(read_fault(payload)?);
        Ok(StreamStep::Done)
    }

    /// Fails the exchange.
    pub(super) fn fail(&mut self, fault: Fault) {
        match std::mem::replace(&mut self.answer, ResponseState::Complete) {
            ResponseState::Awaited(answering) => answering.fail(fault),
            ResponseState::Streamed(sending) => sending.fail(fault),
            ResponseState::Complete => {}
        }
    }
}

/// The part of a body that is available when its request is sent.
#[derive(Default)]
struct InitialBody {
    bytes: Bytes,
    /// The body is complete.
    complete: bool,
    /// The frame after the bytes, if it was already polled.
    next: Option<Result<Frame, Fault>>,
    rest: Option<Incoming>,
}

impl InitialBody {
    fn of(mut body: Incoming, cx: &mut Context<'_>) -> InitialBody {
        let mut first = InitialBody::default();
        loop {
            match body.poll_frame(cx) {
                Poll::Ready(Some(Ok(Frame::Data(bytes)))) if first.bytes.is_empty() => {
                    first.bytes = bytes;
                }
                Poll::Ready(None) => {
                    first.complete = first.bytes.len() <= INLINE_BYTES_MAX;
                    break;
                }
                Poll::Ready(next) => {
                    first.next = next;
                    break;
                }
                Poll::Pending => break,
            }
        }
        if !first.complete {
            first.rest = Some(body);
        }
        first
    }
}
