//! A body that a script writes, on its way to the task that sends it.
//!
//! Promises that pieces are sent in order, that a writer can wait while more than
//! [`HTTP_UNSENT_BYTES`] are unsent, that a declared length holds (more is rejected, less aborts
//! the body), and that no writer waits for a reader that is gone.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Context, Poll};

use bytes::Bytes;
use message::{Body, Fault, Frame, Headers};

use super::waker_set::WakerSet;
use crate::limits::HTTP_UNSENT_BYTES;
use lua_vm::errno;

#[derive(Default)]
pub(super) struct BodyWriter {
    pieces: RefCell<VecDeque<Bytes>>,
    unsent: Cell<usize>,
    written: Cell<u64>,
    /// The declared Content-Length.
    pub(super) declared: Cell<Option<u64>>,
    end: RefCell<Option<Result<Option<Headers>, Fault>>>,
    closed: Cell<bool>,
    abandoned: Cell<bool>,
    reader: WakerSet,
    writers: WakerSet,
}

impl BodyWriter {
    pub(super) fn push(&self, data: Bytes) -> Result<(), &'static str> {
        if self.closed.get() || self.abandoned.get() {
            return Err(errno::CLOSED);
        }
        let written = self.written.get() + data.len() as u64;
        if self.declared.get().is_some_and(|declared| written > declared) {
            return Err("the body is longer than its content-length");
        }
        self.written.set(written);
        if !data.is_empty() {
            self.unsent.set(self.unsent.get() + data.len());
            self.pieces.borrow_mut().push_back(data);
            self.reader.wake_all();
        }
        Ok(())
    }

    pub(super) fn unsent(&self) -> usize {
        self.unsent.get()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// Waits until there is space; false once the reader is gone.
    pub(super) async fn wait_for_room(&self, at_most: usize) -> bool {
        poll_fn(|cx| {
            if self.abandoned.get() {
                return Poll::Ready(false);
            }
            if self.unsent.get() <= at_most {
                return Poll::Ready(true);
            }
            self.writers.wait(cx);
            Poll::Pending
        })
        .await
    }

    pub(super) fn finish(&self, trailers: Option<Headers>) {
        let short = self.declared.get().is_some_and(|declared| self.written.get() < declared);
        self.end(match short {
            true => Err(Fault::internal("the body is shorter than its content-length")),
            false => Ok(trailers),
        });
    }

    /// Aborts the body; false if it had ended.
    pub(super) fn fail(&self, fault: Fault) -> bool {
        self.end(Err(fault))
    }

    fn end(&self, end: Result<Option<Headers>, Fault>) -> bool {
        let first = !self.closed.replace(true);
        if first {
            *self.end.borrow_mut() = Some(end);
            self.reader.wake_all();
        }
        first
    }

    /// Marks the reader as gone.
    pub(super) fn abandon(&self) {
        self.abandoned.set(true);
        self.writers.wake_all();
    }

    /// The whole body as one piece, if it has ended without an error and without trailers.
    pub(super) fn take_whole(&self) -> Option<Body> {
        let mut end = self.end.borrow_mut();
        if !matches!(*end, Some(Ok(None))) {
            return None;
        }
        *end = None;
        self.unsent.set(0);
        let mut pieces = self.pieces.take();
        Some(match pieces.len() {
            0 => Body::Empty,
            1 => Body::from(pieces.pop_front().unwrap_or_default()),
            _ => Body::from(Bytes::from(Vec::from(pieces).concat())),
        })
    }

    pub(super) fn poll_frame(&self, cx: &Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        let next = self.pieces.borrow_mut().pop_front();
        if let Some(piece) = next {
            self.unsent.set(self.unsent.get() - piece.len());
            if self.unsent.get() <= HTTP_UNSENT_BYTES {
                self.writers.wake_all();
            }
            return Poll::Ready(Some(Ok(Frame::Data(piece))));
        }
        if !self.closed.get() {
            self.reader.wait(cx);
            return Poll::Pending;
        }
        Poll::Ready(match self.end.take() {
            None | Some(Ok(None)) => None,
            Some(Ok(Some(trailers))) => Some(Ok(Frame::Trailers(trailers))),
            Some(Err(fault)) => Some(Err(fault)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::BodyWriter;
    use bytes::Bytes;

    #[test]
    fn a_declared_length_is_kept() {
        let feed = BodyWriter::default();
        feed.declared.set(Some(3));
        assert!(feed.push(Bytes::from_static(b"ab")).is_ok());
        assert!(feed.push(Bytes::from_static(b"cd")).is_err());
        feed.finish(None);
        assert!(feed.take_whole().is_none());
        assert!(feed.push(Bytes::from_static(b"c")).is_err());
    }

    #[test]
    fn what_ended_is_one_piece() {
        let feed = BodyWriter::default();
        for piece in [&b"ab"[..], b"", b"c"] {
            feed.push(Bytes::from_static(piece)).unwrap();
        }
        feed.finish(None);
        assert_eq!(feed.take_whole().and_then(|body| body.length()), Some(3));
    }
}
