//! A request's body that is copied while its handler reads it.

use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use message::{Body, BodyStream, Fault, Frame};

use super::{CopyResult, RequestCopy};

/// Passes the frames of a body through, and sends the copy once all of them were read.
pub(super) struct TeeBody {
    body: Body,
    copy: Option<RequestCopy>,
    content: BytesMut,
    /// The length of the whole, where it is announced: the handler may read no further.
    length: Option<u64>,
    limit: u64,
}

impl TeeBody {
    pub(super) fn new(body: Body, copy: RequestCopy, limit: u64) -> TeeBody {
        let length = body.length();
        TeeBody { body, copy: Some(copy), content: BytesMut::new(), length, limit }
    }

    fn take_in(&mut self, data: &Bytes) {
        if self.copy.is_none() {
            return;
        }
        if (self.content.len() + data.len()) as u64 > self.limit {
            return self.give_up(CopyResult::BodyTooLarge);
        }
        self.content.extend_from_slice(data);
        if self.length == Some(self.content.len() as u64) {
            self.send();
        }
    }

    fn send(&mut self) {
        if let Some(copy) = self.copy.take() {
            copy.send(Body::from(std::mem::take(&mut self.content).freeze()));
        }
    }

    fn give_up(&mut self, why: CopyResult) {
        self.content = BytesMut::new();
        if let Some(copy) = self.copy.take() {
            copy.target.count(why);
        }
    }
}

impl BodyStream for TeeBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        let frame = ready!(self.body.poll_frame(cx));
        match &frame {
            None => self.send(),
            Some(Ok(Frame::Data(data))) => self.take_in(data),
            Some(Ok(Frame::Trailers(_))) => {}
            Some(Ok(Frame::File(_)) | Err(_)) => self.give_up(CopyResult::BodyIncomplete),
        }
        Poll::Ready(frame)
    }

    fn length(&self) -> Option<u64> {
        self.body.length()
    }
}

impl Drop for TeeBody {
    fn drop(&mut self) {
        self.give_up(CopyResult::BodyIncomplete);
    }
}
