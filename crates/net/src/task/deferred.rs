//! Bytes that leave once the tasks that are ready have run.
//!
//! A task that has a few bytes to send and is sure to be done in no time may defer them: they leave
//! together with those of its neighbours. A worker under load then runs its own code for many
//! requests in a row and the kernel's sending for all of them after it, and both stay in the cache
//! (docs/design/deferred-sends.md). Owns those bytes and who sends them. Promises that they leave
//! in order: at the end of the turn, once there are [`PIECES_MAX`] pieces or [`BYTES_MAX`] bytes,
//! after [`SPENT_MAX_US`] of what such tasks say to have taken, and before a task runs that did not
//! defer anything when it ran last. So they wait for tasks of their own kind, and not for long
//! unless one of these takes longer than it ever did.

use std::rc::Rc;

use bytes::BytesMut;

use super::executor::LocalExecutor;
use super::key::Key;
use super::{FOREIGN, STEPS};

const PIECES_MAX: usize = 64;
const BYTES_MAX: usize = 32 * 1024;
/// What tasks that defer may take together before it leaves.
pub(super) const SPENT_MAX_US: u64 = 200;

/// Who sends what was deferred.
pub trait DeferredSender {
    /// Sends these bytes; `false` if not all of them have left: then it keeps the rest, and the
    /// task that deferred them is woken. Must not defer anything itself.
    fn send(&self, bytes: &[u8]) -> bool;
}

struct Piece {
    sender: Rc<dyn DeferredSender>,
    task: Key,
    /// Where its bytes end; they begin where those of the piece before it end.
    end: usize,
}

/// What a worker's tasks have deferred.
#[derive(Default)]
pub(super) struct Deferred {
    bytes: BytesMut,
    pieces: Vec<Piece>,
}

impl Deferred {
    /// Takes what `write` writes, at least `room_min` bytes of room being there; whether it is time
    /// to send.
    #[inline]
    pub(super) fn push(
        &mut self,
        sender: Rc<dyn DeferredSender>,
        task: Key,
        room_min: usize,
        write: impl FnOnce(&mut BytesMut),
    ) -> bool {
        // Where panics unwind, a writer may have left its half.
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

    /// Sends everything, and gives `stuck` the task of what did not leave.
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

/// Whether a task of this worker runs, which may [`defer`].
#[inline]
pub fn may_defer() -> bool {
    STEPS.get() != FOREIGN
}

/// Defers what `write` writes: at most about `room_min` bytes. For a running task that
/// [`may_defer`] and that is done in no time; nobody would send what others defer.
#[inline]
pub fn defer(sender: Rc<dyn DeferredSender>, room_min: usize, write: impl FnOnce(&mut BytesMut)) {
    debug_assert!(may_defer(), "only a task of the worker may defer");
    LocalExecutor::current(|executor| executor.defer(sender, room_min, write));
}

/// Says that the running task has taken so long: what is deferred will not wait for much more.
#[inline]
pub fn charge_deferral(spent_us: u64) {
    if may_defer() && spent_us > 0 {
        LocalExecutor::current(|executor| executor.charge_deferral(spent_us));
    }
}

/// Sends what was deferred: before something that may take its time.
#[inline]
pub fn send_deferred() {
    if may_defer() {
        LocalExecutor::current(|executor| executor.send_deferred());
    }
}
