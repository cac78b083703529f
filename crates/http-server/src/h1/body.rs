//! The body of a request, as a stream over its connection.
//!
//! Nothing is read before the first poll, which sends 100 Continue to a client that waits for it
//! (RFC 9110 10.1.1). If the body is dropped before its end, its unread rest is recorded on the
//! connection, which discards it or closes.

use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use telemetry::LimitHit;
use wire::h1::{ChunkDecoder, ChunkEvent, Framing};

use super::connection_io::ConnectionIo;
use super::unread_body::UnreadBody;
use crate::receiving::{BodyEnd, BodyProgress};
use message::{Body, BodyStream, Bounds, Fault, Frame, Headers, Request};

/// How the body is delimited, and how much is left.
pub(crate) enum Decoder {
    Length(u64),
    Chunked(ChunkDecoder),
    Done,
}

pub(crate) struct RequestBody {
    io: Rc<ConnectionIo>,
    decoder: Decoder,
    progress: BodyProgress,
    /// The client waits for 100 Continue.
    expects: bool,
    failed: bool,
}

impl RequestBody {
    pub(crate) fn new(
        io: Rc<ConnectionIo>,
        decoder: Decoder,
        progress: BodyProgress,
        expects: bool,
    ) -> RequestBody {
        *io.unread_body.borrow_mut() = UnreadBody::Held;
        RequestBody { io, decoder, progress, expects, failed: false }
    }

    /// The body has been read to its end: the next byte belongs to the next request, even
    /// while this value is in use.
    fn finish(&mut self) {
        self.decoder = Decoder::Done;
        *self.io.unread_body.borrow_mut() = UnreadBody::None;
    }

    /// Counts content, against the limit and for the access log.
    fn admit(&mut self, data: Bytes) -> Poll<Option<Result<Frame, Fault>>> {
        let admitted = self.progress.admit(data, &self.io.metrics);
        self.io.body_bytes.set(self.progress.received());
        match admitted {
            Ok(frame) => {
                if matches!(self.decoder, Decoder::Done) {
                    self.progress.end(BodyEnd::Whole);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Err(fault) => self.fail(fault),
        }
    }

    fn fail(&mut self, fault: Fault) -> Poll<Option<Result<Frame, Fault>>> {
        self.failed = true;
        self.progress.end(BodyEnd::Failed(&fault));
        Poll::Ready(Some(Err(fault.closing())))
    }

    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        let io = &self.io;
        match self.progress.poll_wait(cx, &io.read_timer, &io.held, &io.metrics) {
            Poll::Ready(fault) => self.fail(fault),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// Puts the body in place, to be read under the bounds of the route.
pub(super) fn attach(
    request: &mut Request,
    io: &Rc<ConnectionIo>,
    framing: Framing,
    expects: bool,
    bounds: &Bounds,
    trailers_max: usize,
) -> Result<(), Fault> {
    let decoder = match framing {
        Framing::None | Framing::Length(0) => return Ok(()),
        Framing::Length(length) if length > bounds.body => {
            io.metrics.hit(LimitHit::Body);
            return Err(Fault::body_too_large());
        }
        Framing::Length(length) => Decoder::Length(length),
        Framing::Chunked => Decoder::Chunked(ChunkDecoder::new(trailers_max)),
    };
    let progress = BodyProgress::of(request, bounds);
    request.body = Body::stream(RequestBody::new(io.clone(), decoder, progress, expects));
    Ok(())
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
            let before = input.len();
            match &mut self.decoder {
                Decoder::Done => return Poll::Ready(None),
                Decoder::Length(left) => {
                    let data = input
                        .split_to(input.len().min(usize::try_from(*left).unwrap_or(usize::MAX)));
                    *left -= data.len() as u64;
                    let whole = *left == 0;
                    self.progress.credit(before - input.len());
                    self.io.unread(input);
                    if whole {
                        self.finish();
                    }
                    return self.admit(data);
                }
                Decoder::Chunked(decoder) => {
                    let event = decoder.next(&mut input);
                    self.progress.credit(before - input.len());
                    self.io.unread(input);
                    match event {
                        Err(reject) => return self.fail(Fault::rejected(reject)),
                        Ok(ChunkEvent::NeedMore) => {}
                        Ok(ChunkEvent::Data(data)) => return self.admit(data),
                        Ok(ChunkEvent::End(trailers)) => {
                            self.finish();
                            self.progress.end(BodyEnd::Whole);
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
        self.progress.end(BodyEnd::Unread);
        let decoder = std::mem::replace(&mut self.decoder, Decoder::Done);
        let unread_body = match decoder {
            // `finish` has recorded it already, and the next request may have begun.
            Decoder::Done if !self.failed => return,
            _ if self.failed => UnreadBody::Lost,
            // A client without its 100 Continue may or may not send its body: it is unknown what
            // the next bytes are (RFC 9110 10.1.1).
            _ if self.expects => UnreadBody::Lost,
            Decoder::Length(left) => UnreadBody::Bytes(left),
            Decoder::Chunked(decoder) => UnreadBody::Chunks(decoder),
            Decoder::Done => return,
        };
        *self.io.unread_body.borrow_mut() = unread_body;
    }
}
