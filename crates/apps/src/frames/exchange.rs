//! One exchange in the application process: its request arrives in frames, its response leaves in
//! frames.

use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use message::{Body, Fault, HandlerResult, Headers, Inform, Response};
use offload::{Head, Limits, Local, OffloadedRequest, begin};
use wire::Known;
use wire::frames::{self, INLINE_BYTES_MAX, Kind, Malformed};

use super::feed::{BodyFeed, ExtraFrames};
use crate::mux::{
    BodySender, Outbox, SendProgress, StreamStep, read_fault, read_trailers, write_fault,
    write_response_head,
};

pub(super) struct Exchange {
    phase: Phase,
    sender: BodySender,
    /// Receives the rest of the request's body.
    feed: Option<BodyFeed>,
    extra: ExtraFrames,
}

enum Phase {
    Waited(Local),
    Streamed(Body),
}

/// Sends interim responses as frames.
struct Interim {
    number: u32,
    extra: ExtraFrames,
}

impl Inform for Interim {
    fn inform(&self, status: u16, headers: &Headers) {
        let mut extra = self.extra.borrow_mut();
        // One that does not fit in a frame is not sent: interim responses are optional (RFC 9110
        // 15.2).
        let _ = frames::plain(&mut extra, Kind::Inform, self.number, |out| {
            write_response_head(out, status, None, None, headers);
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
        extra: &ExtraFrames,
    ) -> (OffloadedRequest, Exchange) {
        let (body, feed) = if end {
            (Body::from(Bytes::copy_from_slice(body)), None)
        } else {
            let expects = head.headers.lists_token(Known::Expect, "100-continue");
            let (feed, reading) = BodyFeed::new(number, head.body_length, expects, extra);
            (Body::stream(reading), Some(feed))
        };
        let interim = Rc::new(Interim { number, extra: extra.clone() });
        let (handed, local) = begin(head, body, Some(interim), limits);
        let local = local.with_whole_files();
        let (phase, sender) = (Phase::Waited(local), BodySender::passing_files(window));
        (handed, Exchange { phase, sender, feed, extra: extra.clone() })
    }

    /// Sends what is available of the response.
    pub(super) fn step(&mut self, number: u32, outbox: &mut Outbox, waker: &Waker) -> StreamStep {
        let cx = &mut Context::from_waker(waker);
        let step = self.advance(number, outbox, cx);
        outbox.frames().append(&mut self.extra.borrow_mut());
        step
    }

    fn advance(&mut self, number: u32, outbox: &mut Outbox, cx: &mut Context<'_>) -> StreamStep {
        if let Phase::Waited(local) = &mut self.phase {
            let Poll::Ready(outcome) = Pin::new(local).poll(cx) else { return StreamStep::Pending };
            return self.decided(outcome, number, outbox, cx);
        }
        let Phase::Streamed(body) = &mut self.phase else { return StreamStep::Pending };
        match self.sender.run(number, outbox, cx, |cx| body.poll_frame(cx)) {
            SendProgress::Pending => StreamStep::Pending,
            SendProgress::Turn | SendProgress::Stalled => StreamStep::Again,
            SendProgress::CloseCause => StreamStep::Done,
        }
    }

    fn decided(
        &mut self,
        outcome: HandlerResult,
        number: u32,
        outbox: &mut Outbox,
        cx: &mut Context<'_>,
    ) -> StreamStep {
        // Interim responses precede the response.
        outbox.frames().append(&mut self.extra.borrow_mut());
        let written = outcome.and_then(|response| self.answer(number, response, outbox));
        match written {
            Ok(true) => StreamStep::Done,
            Ok(false) => self.advance(number, outbox, cx),
            Err(fault) => {
                write_fault(outbox.frames(), number, &fault);
                StreamStep::Done
            }
        }
    }

    /// An exchange for a denied session.
    pub(super) fn answered(credit: u32, extra: &ExtraFrames) -> Exchange {
        let phase = Phase::Streamed(Body::Empty);
        Exchange { phase, sender: BodySender::new(credit), feed: None, extra: extra.clone() }
    }

    /// Sends the response of a denied session.
    pub(super) fn answer_with(
        &mut self,
        outcome: HandlerResult,
        number: u32,
        outbox: &mut Outbox,
        waker: &Waker,
    ) -> StreamStep {
        self.decided(outcome, number, outbox, &mut Context::from_waker(waker))
    }

    /// Sends the response head, with the body if it is complete and short; returns true if that is
    /// all.
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
        let write = |out: &mut Vec<u8>| {
            write_response_head(out, status, reason.as_deref(), length, &headers)
        };
        let end = inline.is_ok();
        frames::headed(outbox.frames(), Kind::Response, number, end, whole, write)
            .map_err(|_| Fault::internal("the response head does not fit in a frame"))?;
        match inline {
            Ok(bytes) => outbox.payload(bytes),
            Err(Body::Bytes(bytes)) => {
                self.sender.set_whole(bytes);
                self.phase = Phase::Streamed(Body::Empty);
            }
            Err(body) => self.phase = Phase::Streamed(body),
        }
        Ok(end)
    }

    pub(super) fn granted(&mut self, credit: u32) -> Result<StreamStep, Malformed> {
        self.sender.grant(credit)?;
        Ok(StreamStep::Again)
    }

    /// Receives a piece of the request's body.
    pub(super) fn data(
        &mut self,
        bytes: Bytes,
        cost: u32,
        end: bool,
    ) -> Result<StreamStep, Malformed> {
        self.feed()?.data(bytes, cost, end)?;
        Ok(StreamStep::Again)
    }

    pub(super) fn trailers(&mut self, payload: &[u8]) -> Result<StreamStep, Malformed> {
        self.feed()?.trailers(read_trailers(payload)?)?;
        Ok(StreamStep::Again)
    }

    pub(super) fn body_failed(&mut self, payload: &[u8]) -> Result<StreamStep, Malformed> {
        self.feed()?.fail(read_fault(payload)?)?;
        Ok(StreamStep::Again)
    }

    fn feed(&mut self) -> Result<&BodyFeed, Malformed> {
        self.feed.as_ref().ok_or(Malformed::Stream)
    }
}
