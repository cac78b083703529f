//! The pieces of a streamed response that were written and not yet sent.
//!
//! Promises that `write` waits once [`STREAM_BYTES`] are unsent.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::task::Waker;

use bytes::Bytes;

use crate::ids::TaskId;
use crate::limits::STREAM_BYTES;

/// Pieces that were written and not yet sent.
#[derive(Default)]
pub(super) struct ResponseStream {
    pub(super) pieces: RefCell<VecDeque<Bytes>>,
    pub(super) bytes: Cell<usize>,
    pub(super) reader: Cell<Option<Waker>>,
    pub(super) writers: RefCell<Vec<TaskId>>,
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
