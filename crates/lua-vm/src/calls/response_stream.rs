//! A streamed response: the script's writes on their way to the client.
//!
//! Promises that `write` waits once [`STREAM_BYTES`] are unsent, that a failed script aborts the
//! response, and that a client that disconnects ends the coroutine.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use message::{BodyStream, Fault, Frame};

use super::body_read;
use super::call::CallHandle;
use crate::limits::STREAM_BYTES;
use crate::tasks::TaskId;

/// Pieces that were written and not yet sent.
#[derive(Default)]
pub(super) struct ResponseStream {
    pieces: RefCell<VecDeque<Bytes>>,
    bytes: Cell<usize>,
    reader: Cell<Option<Waker>>,
    writers: RefCell<Vec<TaskId>>,
}

impl ResponseStream {
    /// Appends a piece; true if the writer should wait.
    pub(super) fn push(&self, piece: &[u8]) -> bool {
        self.pieces.borrow_mut().push_back(Bytes::copy_from_slice(piece));
        self.bytes.set(self.bytes.get() + piece.len());
        self.wake();
        self.bytes.get() >= STREAM_BYTES
    }

    /// True if a write has to wait for the client.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.get() >= STREAM_BYTES
    }

    pub(super) fn park(&self, writer: TaskId) {
        self.writers.borrow_mut().push(writer);
    }

    /// Takes the coroutines that wait to write.
    pub(super) fn take_writers(&self) -> Vec<TaskId> {
        self.writers.take()
    }

    pub(super) fn wake(&self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }
}

/// The body that the client gets.
pub(super) struct StreamedBody {
    ticket: CallHandle,
    outlet: Rc<ResponseStream>,
}

impl StreamedBody {
    pub(super) fn new(ticket: CallHandle, outlet: Rc<ResponseStream>) -> StreamedBody {
        StreamedBody { ticket, outlet }
    }
}

impl BodyStream for StreamedBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        loop {
            let piece = self.outlet.pieces.borrow_mut().pop_front();
            if let Some(piece) = piece {
                self.outlet.bytes.set(self.outlet.bytes.get() - piece.len());
                if self.outlet.bytes.get() < STREAM_BYTES / 2
                    && !self.outlet.writers.borrow().is_empty()
                {
                    let writers = self.outlet.take_writers();
                    self.ticket.running.vm().turn(|turn| {
                        for writer in writers {
                            turn.wake_with(writer, |_| 0);
                        }
                    });
                }
                return Poll::Ready(Some(Ok(Frame::Data(piece))));
            }
            match self.ticket.with(|call| (call.ended(), call.finished)) {
                (Some(true), _) | (None, true) => return Poll::Ready(None),
                (Some(false), _) => {
                    let fault = Fault::internal("the Lua handler failed while it streamed");
                    return Poll::Ready(Some(Err(fault)));
                }
                (None, false) => {}
            }
            self.outlet.reader.set(Some(cx.waker().clone()));
            self.ticket.with(|call| call.sleep(cx.waker()));
            if body_read::poll(&self.ticket, cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn length(&self) -> Option<u64> {
        None
    }
}
