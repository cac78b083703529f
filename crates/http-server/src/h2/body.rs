//! The body of a request, as a stream over the queue of its HTTP/2 stream.
//!
//! What the application reads is given back to the client's windows, so a slow application slows
//! its client. The first poll sends 100 Continue to a client that waits for it (RFC 9110 10.1.1).

use std::rc::Rc;
use std::task::{Context, Poll, ready};

use telemetry::LimitHit;
use wire::h1::Framing;

use super::stream::{Piece, Stream};
use crate::receiving::{BodyEnd, BodyProgress};
use message::{Body, BodyStream, Bounds, Fault, Frame, Request};

pub(super) struct RequestBody {
    stream: Rc<Stream>,
    /// Content still to come, where that is announced.
    length: Option<u64>,
    progress: BodyProgress,
    /// The client waits for 100 Continue.
    expects: bool,
    is_over: bool,
}

/// Puts the body in place, to be read under the bounds of the route.
pub(super) fn attach(
    request: &mut Request,
    stream: &Rc<Stream>,
    framing: Framing,
    expects: bool,
    bounds: &Bounds,
) -> Result<(), Fault> {
    let length = match framing {
        Framing::None => return Ok(()),
        Framing::Length(length) if length > bounds.body => {
            stream.connection.io.metrics.hit(LimitHit::Body);
            stream.discard();
            return Err(Fault::body_too_large());
        }
        Framing::Length(length) => Some(length),
        Framing::Chunked => None,
    };
    let progress = BodyProgress::of(request, bounds);
    let stream = stream.clone();
    request.body = Body::stream(RequestBody { stream, length, progress, expects, is_over: false });
    Ok(())
}

impl BodyStream for RequestBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        if self.expects && self.stream.is_body_awaited() {
            if self.stream.connection.has_more_events() {
                // Content that arrived with the headers needs no 100 Continue (RFC 9110 10.1.1).
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.stream.send_interim(100, std::iter::empty());
        }
        self.expects = false;
        let metrics = &self.stream.connection.io.metrics;
        let frame = match self.stream.poll_piece(cx) {
            Poll::Ready(Piece::Data(data)) => {
                self.progress.credit(data.len());
                if let Some(length) = &mut self.length {
                    // The protocol rejects content that differs from what was announced.
                    *length = length.saturating_sub(data.len() as u64);
                }
                let admitted = self.progress.admit(data, metrics);
                self.stream.body_bytes.set(self.progress.received());
                Some(admitted)
            }
            Poll::Ready(Piece::Trailers(trailers)) => Some(Ok(Frame::Trailers(trailers))),
            Poll::Ready(Piece::End) => None,
            Poll::Ready(Piece::Gone) => {
                Some(Err(Fault::client_gone("the request body was cut off")))
            }
            Poll::Pending => {
                let (timer, held) = (&self.stream.read_timer, &self.stream.held);
                Some(Err(ready!(self.progress.poll_wait(cx, timer, held, metrics))))
            }
        };
        match &frame {
            Some(Ok(Frame::Data(_))) if self.length != Some(0) => {}
            Some(Err(fault)) => self.progress.end(BodyEnd::Failed(fault)),
            Some(Ok(_)) | None => self.progress.end(BodyEnd::Whole),
        }
        self.is_over = !matches!(frame, Some(Ok(Frame::Data(_))));
        Poll::Ready(frame)
    }

    fn length(&self) -> Option<u64> {
        if self.is_over { Some(0) } else { self.length }
    }
}

impl Drop for RequestBody {
    fn drop(&mut self) {
        self.progress.end(BodyEnd::Unread);
        self.stream.discard();
    }
}
