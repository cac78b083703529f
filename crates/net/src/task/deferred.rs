//! Deferred sends: bytes that are sent once the ready tasks have run.
//!
//! A task that has a few bytes to send and ends its step within microseconds may defer them: they
//! are sent together with those of other tasks. A loaded worker then runs its own code for many
//! requests in a row and the kernel's send path for all of them afterwards, and both stay in the
//! cache (docs/design/deferred-sends.md). Owns those bytes and their senders. They are sent in
//! order: at the end of the turn, after [`PIECES_MAX`] pieces or [`BYTES_MAX`] bytes, and before a
//! task runs that deferred nothing in its last poll. So they wait only for tasks that defer too.

use std::rc::Rc;

use bytes::BytesMut;

use super::key::Key;

const PIECES_MAX: usize = 64;
const BYTES_MAX: usize = 32 * 1024;

/// Sends bytes that were deferred.
pub trait DeferredSender {
    /// Sends these bytes; `false` if some are left: the sender then stores the rest, and the task
    /// that deferred them is woken. Must not defer anything itself.
    fn send(&self, bytes: &[u8]) -> bool;
}

struct Piece {
    sender: Rc<dyn DeferredSender>,
    task: Key,
    /// End of the piece in `bytes`; it begins where the previous one ends.
    end: usize,
}

/// The deferred bytes of a worker.
#[derive(Default)]
pub(super) struct Deferred {
    bytes: BytesMut,
    pieces: Vec<Piece>,
}

impl Deferred {
    /// Appends what `write` writes, with `room_min` bytes of capacity reserved; true if it is time
    /// to send.
    #[inline]
    pub(super) fn push(
        &mut self,
        sender: Rc<dyn DeferredSender>,
        task: Key,
        room_min: usize,
        write: impl FnOnce(&mut BytesMut),
    ) -> bool {
        // A writer that panicked may have left part of its bytes.
        self.bytes.truncate(self.pieces.last().map_or(0, |piece| piece.end));
        self.bytes.reserve(room_min);
        write(&mut self.bytes);
        let end = self.bytes.len();
        self.pieces.push(Piece { sender, task, end });
        self.pieces.len() >= PIECES_MAX || end >= BYTES_MAX
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Sends everything; calls `stuck` with the task of each piece that was not sent completely.
    pub(super) fn send(&mut self, mut stuck: impl FnMut(Key)) {
        let mut begin = 0;
        for Piece { sender, task, end } in self.pieces.drain(..) {
            if !sender.send(&self.bytes[begin..end]) {
                stuck(task);
            }
            begin = end;
        }
        self.bytes.clear();
    }
}
