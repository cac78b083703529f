//! The body of a request, as a stream over the connection it comes on.
//!
//! Nothing is read before it is asked for. The first poll sends 100 Continue to a client that waits
//! for it (RFC 9110 10.1.1). When the body is dropped half-read, its rest is noted on the
//! connection, which discards it or closes.

use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use net::clock::{self, Moment};
use telemetry::LimitHit;
use wire::h1::{ChunkDecoder, ChunkEvent};

use super::connection_io::ConnectionIo;
use super::remainder::Remainder;
use crate::allowance::Allowance;
use message::{BodyStream, Fault, FaultKind, Frame, Headers, Patience};

/// How the body is delimited, and what of it is still to come.
pub(crate) enum Decoder {
    Length(u64),
    Chunked(ChunkDecoder),
    Done,
}

/// Bounds of one body.
#[derive(Clone, Copy)]
pub(crate) struct BodyBounds {
    pub(crate) bytes_max: u64,
    pub(crate) patience: Patience,
    /// Longest time from now to the end of the body.
    pub(crate) total: Option<Duration>,
}

pub(crate) struct RequestBody {
    io: Rc<ConnectionIo>,
    decoder: Decoder,
    bytes_max: u64,
    received: u64,
    /// The client waits for 100 Continue.
    expects: bool,
    allowance: Allowance,
    /// When the body has to be whole.
    ends: Moment,
    failed: bool,
}

impl RequestBody {
    pub(crate) fn new(
        io: Rc<ConnectionIo>,
        decoder: Decoder,
        bounds: BodyBounds,
        expects: bool,
    ) -> RequestBody {
        *io.remainder.borrow_mut() = Remainder::Held;
        RequestBody {
            io,
            decoder,
            bytes_max: bounds.bytes_max,
            received: 0,
            expects,
            allowance: Allowance::new(bounds.patience),
            ends: bounds.total.map_or(Moment::NEVER, |total| clock::now().after(total)),
            failed: false,
        }
    }

    /// The body has been read to its end: the next byte belongs to the next request, even
    /// while this value is in use.
    fn finish(&mut self) {
        self.decoder = Decoder::Done;
        *self.io.remainder.borrow_mut() = Remainder::None;
    }

    fn fail(&mut self, fault: Fault) -> Poll<Option<Result<Frame, Fault>>> {
        self.failed = true;
        Poll::Ready(Some(Err(fault.closing())))
    }

    /// Counts body bytes against the limit.
    fn admit(&mut self, data: Bytes) -> Result<Frame, Fault> {
        self.received += data.len() as u64;
        if self.received > self.bytes_max {
            self.io.metrics.hit(LimitHit::Body);
            return Err(Fault::body_too_large());
        }
        Ok(Frame::Data(data))
    }

    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        let again = self.allowance.wait();
        if self.allowance.noted().is_some_and(|rate| self.io.must_give_way(rate)) {
            let detail = "too many slow clients hold connections of the server";
            return self.fail(Fault::new(FaultKind::SlowClient, detail));
        }
        let too_late = self.ends <= clock::now();
        if too_late || self.allowance.is_over() {
            let (limit, detail) = match too_late {
                true => (LimitHit::BodyTotal, "the request body was not whole in time"),
                false => (LimitHit::SlowBody, "the request body arrived too slowly"),
            };
            self.io.metrics.hit(limit);
            return self.fail(Fault::new(FaultKind::BodyTimeout, detail));
        }
        self.io.read_timer.set_at(again.min(self.ends));
        // Never ready: both are later than now. It registers the task.
        self.io.read_timer.poll(cx).map(|()| None)
    }
}

impl BodyStream for RequestBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        if self.failed || matches!(self.decoder, Decoder::Done) {
            return Poll::Ready(None);
        }
        if std::mem::take(&mut self.expects) && self.io.input.borrow().is_empty() {
            self.io.inform_continue();
        }
        loop {
            let mut input = match self.io.poll_input(cx) {
                Poll::Pending => return self.poll_wait(cx),
                Poll::Ready(Err(error)) => {
                    return self.fail(Fault::client_gone(error.to_string()));
                }
                Poll::Ready(Ok(chunk)) if chunk.is_empty() => {
                    return self.fail(Fault::client_gone("the request body was cut off"));
                }
                Poll::Ready(Ok(chunk)) => chunk,
            };
            self.allowance.stop();
            let before = input.len();
            match &mut self.decoder {
                Decoder::Done => return Poll::Ready(None),
                Decoder::Length(left) => {
                    let data = input
                        .split_to(input.len().min(usize::try_from(*left).unwrap_or(usize::MAX)));
                    *left -= data.len() as u64;
                    let whole = *left == 0;
                    self.allowance.moved((before - input.len()) as u64);
                    self.io.unread(input);
                    if whole {
                        self.finish();
                    }
                    return match self.admit(data) {
                        Ok(frame) => Poll::Ready(Some(Ok(frame))),
                        Err(fault) => self.fail(fault),
                    };
                }
                Decoder::Chunked(decoder) => {
                    let event = decoder.next(&mut input);
                    self.allowance.moved((before - input.len()) as u64);
                    self.io.unread(input);
                    match event {
                        Err(reject) => return self.fail(Fault::rejected(reject)),
                        Ok(ChunkEvent::NeedMore) => {}
                        Ok(ChunkEvent::Data(data)) => {
                            return match self.admit(data) {
                                Ok(frame) => Poll::Ready(Some(Ok(frame))),
                                Err(fault) => self.fail(fault),
                            };
                        }
                        Ok(ChunkEvent::End(trailers)) => {
                            self.finish();
                            if trailers.fields.is_empty() {
                                return Poll::Ready(None);
                            }
                            let trailers = Headers::received(&trailers.raw, &trailers.fields);
                            return Poll::Ready(Some(Ok(Frame::Trailers(trailers))));
                        }
                    }
                }
            }
        }
    }

    fn length(&self) -> Option<u64> {
        match self.decoder {
            Decoder::Length(left) => Some(left),
            Decoder::Chunked(_) => None,
            Decoder::Done => Some(0),
        }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        let decoder = std::mem::replace(&mut self.decoder, Decoder::Done);
        let remainder = match decoder {
            // `finish` has said so already, and the next request may have begun since.
            Decoder::Done if !self.failed => return,
            _ if self.failed => Remainder::Lost,
            // A client without its 100 Continue may or may not send its body: it is unknown what
            // the next bytes are (RFC 9110 10.1.1).
            _ if self.expects => Remainder::Lost,
            Decoder::Length(left) => Remainder::Bytes(left),
            Decoder::Chunked(decoder) => Remainder::Chunks(decoder),
            Decoder::Done => return,
        };
        *self.io.remainder.borrow_mut() = remainder;
    }
}
