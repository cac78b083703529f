//! The body of a response as it arrives on a stream.
//!
//! The server gets credit for data when it is taken, so that it sends no more than the stream's
//! window ahead of the client.

use std::task::{Context, Poll, ready};

use message::{BodyStream, Fault, Frame};

use super::exchange::{Http2Exchange, Piece};

/// A body that did not arrive as a whole with its head.
pub(super) struct ResponseBody {
    /// `None` once the body has ended or failed.
    exchange: Option<Box<Http2Exchange>>,
    /// Bytes still to come, where they are announced.
    left: Option<u64>,
}

impl ResponseBody {
    pub(super) fn new(exchange: Box<Http2Exchange>, length: Option<u64>) -> ResponseBody {
        ResponseBody { exchange: Some(exchange), left: length }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Frame>, Fault>> {
        let Some(exchange) = &mut self.exchange else { return Poll::Ready(Ok(None)) };
        exchange.poll_send(cx)?;
        Poll::Ready(Ok(match ready!(exchange.poll_piece(cx, true))? {
            Piece::Data(data) => {
                self.left = self.left.map(|left| left.saturating_sub(data.len() as u64));
                Some(Frame::Data(data))
            }
            Piece::Trailers(trailers) => Some(Frame::Trailers(trailers)),
            Piece::End => None,
        }))
    }
}

impl BodyStream for ResponseBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        let polled = ready!(self.poll(cx)).transpose();
        if !matches!(polled, Some(Ok(_))) {
            self.exchange = None;
        }
        Poll::Ready(polled)
    }

    fn length(&self) -> Option<u64> {
        self.left
    }
}
