//! A body that is being read for a coroutine.
//!
//! It is read by the task that waits for the call, because a connection wakes one task only.

use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use message::{Body, Fault, Frame};

use crate::ids::TaskId;

/// A body that is being read for a coroutine.
pub(super) struct BodyRead {
    body: Body,
    whole: BytesMut,
    limit: u64,
    pub(super) task: TaskId,
}

impl BodyRead {
    pub(super) fn new(body: Body, limit: u64, task: TaskId) -> BodyRead {
        BodyRead { body, whole: BytesMut::new(), limit, task }
    }

    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<std::result::Result<Bytes, Fault>> {
        loop {
            let frame = match self.body.poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(Ok(self.whole.split().freeze())),
                Poll::Ready(Some(Err(fault))) => return Poll::Ready(Err(fault)),
                Poll::Ready(Some(Ok(frame))) => frame,
            };
            if let Frame::Data(data) = frame {
                if (self.whole.len() + data.len()) as u64 > self.limit {
                    return Poll::Ready(Err(Fault::body_too_large()));
                }
                self.whole.extend_from_slice(&data);
            }
        }
    }
}
