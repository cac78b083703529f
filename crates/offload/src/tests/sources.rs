//! Bodies that the tests hand over.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use bytes::Bytes;
use message::{BodyStream, Fault, Frame, Headers};

/// Chunks of 1000 bytes, counted when they are polled.
pub(super) struct Source {
    left: usize,
    given: Arc<AtomicUsize>,
    pub(super) trailers: Option<Headers>,
}

impl Source {
    pub(super) fn new(pieces: usize, given: &Arc<AtomicUsize>) -> Source {
        Source { left: pieces, given: given.clone(), trailers: None }
    }
}

impl BodyStream for Source {
    fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        if self.left == 0 {
            return Poll::Ready(self.trailers.take().map(|fields| Ok(Frame::Trailers(fields))));
        }
        self.left -= 1;
        self.given.fetch_add(1, Ordering::SeqCst);
        Poll::Ready(Some(Ok(Frame::Data(Bytes::from(vec![b'x'; 1000])))))
    }

    fn length(&self) -> Option<u64> {
        None
    }
}

/// A body of which nothing ever arrives.
pub(super) struct Never;

impl BodyStream for Never {
    fn poll_frame(&mut self, _: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        Poll::Pending
    }

    fn length(&self) -> Option<u64> {
        None
    }
}
