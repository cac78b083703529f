//! The body of a response as it arrives (RFC 9112 6.3).
//!
//! Reads from the server only when it is polled for a frame. A body that ends before its framing
//! says so is a fault, never an end; bytes after the end make the connection unusable.

use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use wire::h1::{ChunkDecoder, ChunkEvent, LAST_CHUNK, ResponseFraming};

use super::exchange::ServerExchange;
use crate::faults;
use crate::limits::{JOINED_BODY, TRAILERS};
use message::{BodyStream, Fault, Frame, Headers};

enum Rest {
    Length(u64),
    Chunked(Box<ChunkDecoder>),
    UntilClose,
}

/// A body that did not arrive as a whole with its headers.
pub(super) struct ResponseBody {
    /// `None` once the body has ended.
    link: Option<ServerExchange>,
    rest: Rest,
}

impl ResponseBody {
    pub(super) fn new(link: ServerExchange, framing: ResponseFraming) -> ResponseBody {
        let rest = match framing {
            ResponseFraming::None => Rest::Length(0),
            ResponseFraming::Length(length) => Rest::Length(length),
            ResponseFraming::Chunked => Rest::Chunked(Box::new(ChunkDecoder::new(TRAILERS))),
            ResponseFraming::UntilClose => Rest::UntilClose,
        };
        ResponseBody { link: Some(link), rest }
    }

    fn finish(&mut self) {
        if let Some(mut link) = self.link.take() {
            link.finish();
        }
    }

    /// A frame out of what has been received, `None` if more is needed.
    fn frame(&mut self) -> Result<Option<Frame>, Fault> {
        let Some(link) = &mut self.link else { return Ok(None) };
        let received = &mut link.received;
        match &mut self.rest {
            Rest::Length(left) => {
                let length = usize::try_from(*left).unwrap_or(usize::MAX).min(received.len());
                let data = received.split_to(length);
                *left -= length as u64;
                if *left == 0 {
                    self.finish();
                }
                Ok((!data.is_empty()).then_some(Frame::Data(data)))
            }
            Rest::UntilClose => {
                let data = std::mem::take(received);
                Ok((!data.is_empty()).then_some(Frame::Data(data)))
            }
            Rest::Chunked(decoder) => match decoder.next(received).map_err(faults::bad_body)? {
                ChunkEvent::Data(data) => Ok(Some(Frame::Data(data))),
                ChunkEvent::NeedMore => Ok(None),
                ChunkEvent::End(trailers) => {
                    self.finish();
                    let trailers = Headers::received(&trailers.raw, &trailers.fields);
                    Ok((!trailers.is_empty()).then_some(Frame::Trailers(trailers)))
                }
            },
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Frame>, Fault>> {
        loop {
            if let Some(frame) = self.frame()? {
                return Poll::Ready(Ok(Some(frame)));
            }
            let Some(link) = &mut self.link else { return Poll::Ready(Ok(None)) };
            let chunk = ready!(link.poll_more(cx))?;
            if chunk.is_empty() {
                if !matches!(self.rest, Rest::UntilClose) {
                    return Poll::Ready(Err(faults::cut_short(None, "body")));
                }
                self.link = None;
                return Poll::Ready(Ok(None));
            }
            link.received = chunk;
        }
    }
}

impl BodyStream for ResponseBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        let polled = ready!(self.poll(cx));
        if polled.is_err() {
            // Nothing more can be read from a connection that failed.
            self.link = None;
        }
        Poll::Ready(polled.transpose())
    }

    fn length(&self) -> Option<u64> {
        match self.rest {
            Rest::Length(left) => Some(left),
            Rest::Chunked(_) | Rest::UntilClose => None,
        }
    }
}

/// Returns the body if all of it has arrived and it has no trailers; otherwise leaves `received`
/// unchanged. Small responses of applications arrive like this, and are sent with a length and in
/// one piece.
pub(super) fn whole_chunked(received: &mut Bytes) -> Option<Bytes> {
    if !received.ends_with(LAST_CHUNK) || received.len() > JOINED_BODY {
        return None;
    }
    let mut rest = received.clone();
    let mut decoder = ChunkDecoder::new(TRAILERS);
    let mut only = Bytes::new();
    let mut joined = BytesMut::new();
    loop {
        match decoder.next(&mut rest).ok()? {
            ChunkEvent::Data(data) if only.is_empty() => only = data,
            ChunkEvent::Data(data) => {
                if joined.is_empty() {
                    joined.extend_from_slice(&only);
                }
                joined.extend_from_slice(&data);
            }
            ChunkEvent::NeedMore => return None,
            ChunkEvent::End(trailers) => {
                if !trailers.fields.is_empty() {
                    return None;
                }
                *received = rest;
                return Some(if joined.is_empty() { only } else { joined.freeze() });
            }
        }
    }
}
