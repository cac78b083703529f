//! Sending a response on a stream: head, content, trailers, with back-pressure and time-out.
//!
//! The protocol takes one chunk of a stream at a time. The body is polled again when that is sent,
//! so a slow client slows its source.

use std::task::{Context, Poll};

use bytes::Bytes;
use message::http2::Chunk;
use wire::h2::{Field, StreamEnded};
use wire::{Known, Version};

use super::stream::{Stream, StreamProgress, content_fields};
use crate::h1::{Framing, date, framing};
use crate::sending::{ContentCount, SendError};
use message::{Body, BodyStream, Fault, Frame, Response, TransferTimeout};

/// The content of a response while it is sent.
pub(super) struct SentBody {
    pub(super) count: ContentCount,
    progress: StreamProgress,
    /// `None` once the protocol has all of it.
    body: Option<Box<dyn BodyStream>>,
    /// The content after the frame that is being sent.
    next: Option<Option<Result<Frame, Fault>>>,
}

/// Gives the protocol the head of a response, and its content as far as that is there.
pub(super) fn begin(
    stream: &Stream,
    response: Response,
    to_head: bool,
    timeout: TransferTimeout,
) -> Result<SentBody, StreamEnded> {
    let (framing, with_body) = framing(&response, to_head, Version::Http2);
    let ends = !with_body || response.body.is_empty();
    let announced = match framing {
        Framing::Length(length) => Some(length),
        _ => None,
    };
    stream.answer();
    send_head(stream, &response, announced, ends)?;
    let mut sent = SentBody {
        count: ContentCount::new(announced.filter(|_| with_body)),
        progress: StreamProgress::new(timeout),
        body: None,
        next: None,
    };
    let chunk = match response.body {
        _ if ends => return Ok(sent),
        Body::Empty => return Ok(sent),
        Body::Stream(body) => {
            sent.body = Some(body);
            return Ok(sent);
        }
        Body::Bytes(bytes) => Chunk::Bytes(bytes),
        Body::Kept(bytes) => Chunk::Kept(bytes),
        Body::File(range) => Chunk::File(range),
    };
    sent.count.sent = announced.unwrap_or_default();
    stream.send(chunk, true);
    Ok(sent)
}

/// Accepts a tunnel.
pub(super) fn accept_tunnel(stream: &Stream, response: &Response) -> Result<(), StreamEnded> {
    stream.answer();
    send_head(stream, response, None, false)
}

fn send_head(
    stream: &Stream,
    response: &Response,
    length: Option<u64>,
    ends: bool,
) -> Result<(), StreamEnded> {
    let own = |known, value| Field { known: Some(known), name: b"", value };
    let date = date();
    let dated = response.headers.contains(Known::Date);
    let date = (!dated).then(|| own(Known::Date, &date));
    let mut digits = itoa::Buffer::new();
    let length = length.map(|length| own(Known::ContentLength, digits.format(length).as_bytes()));
    let fields = content_fields(&response.headers).chain(date).chain(length);
    let mut protocol = stream.connection.protocol.borrow_mut();
    protocol.respond(stream.key(), response.status, fields, ends)?;
    if let Some(own) = response.headers.get(Known::Priority).filter(|_| !ends)
        && let Some(asked) = protocol.priority(stream.key())
    {
        protocol.set_priority(stream.key(), asked.with_response(own));
    }
    drop(protocol);
    stream.connection.wake();
    Ok(())
}

impl SentBody {
    /// Ready once all content is sent.
    pub(super) fn poll(
        &mut self,
        stream: &Stream,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), SendError>> {
        loop {
            match stream.poll_sent(cx) {
                Poll::Pending => return self.progress.poll(stream, cx).map(Err),
                Poll::Ready(sent) => sent?,
            }
            self.progress.stop();
            let Some(body) = &mut self.body else { return Poll::Ready(Ok(())) };
            let frame = match self.next.take() {
                Some(frame) => frame,
                None => match body.poll_frame(cx) {
                    Poll::Ready(frame) => frame,
                    Poll::Pending => {
                        return stream.poll_gone(cx).map(|()| Err(SendError::ClientGone));
                    }
                },
            };
            if let Err(fault) = self.take(stream, frame, cx) {
                return Poll::Ready(Err(SendError::Body {
                    fault: Box::new(fault),
                    delimited: true,
                }));
            }
        }
    }

    fn take(
        &mut self,
        stream: &Stream,
        frame: Option<Result<Frame, Fault>>,
        cx: &mut Context<'_>,
    ) -> Result<(), Fault> {
        let chunk = match frame.transpose()? {
            Some(Frame::Data(data)) => Chunk::Bytes(data),
            Some(Frame::File(range)) => Chunk::File(range),
            Some(Frame::Trailers(trailers)) => {
                self.count.end()?;
                self.body = None;
                stream.send_trailers(&trailers);
                return Ok(());
            }
            None => Chunk::Bytes(Bytes::new()),
        };
        let length = wire::h2::Payload::len(&chunk);
        self.count.add(length)?;
        // The last chunk carries END_STREAM, which saves a frame and a wait.
        let next = match (&mut self.body, length) {
            (Some(body), 1..) => body.poll_frame(cx),
            _ => Poll::Ready(None),
        };
        let ends = matches!(next, Poll::Ready(None));
        if ends {
            self.count.end()?;
            self.body = None;
        } else if let Poll::Ready(next) = next {
            self.next = Some(next);
        }
        stream.send(chunk, ends);
        Ok(())
    }
}
