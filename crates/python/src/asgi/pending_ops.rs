//! The pending operations of one request or session: `receive` and `send` of several tasks.
//!
//! The worker wakes only the last operation of each kind. Promises that when that operation ends,
//! the others poll again, so that none waits for a wake-up that another one consumed. A poll
//! outside an operation would take the wake-up as well: while `any` is true, only operations poll.

/// The kind of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OpKind {
    /// Waits for the next event.
    Receive,
    /// Waits for room in the send buffer.
    Send,
}

#[derive(Default)]
pub(super) struct PendingOps {
    ops: Vec<(OpKind, u64)>,
    /// The operation of each kind that the worker wakes.
    woken: [Option<u64>; 2],
}

impl PendingOps {
    pub(super) fn insert(&mut self, kind: OpKind, id: u64) {
        self.ops.push((kind, id));
        self.woken[kind as usize] = Some(id);
    }

    pub(super) fn any(&self, kind: OpKind) -> bool {
        self.ops.iter().any(|(other, _)| *other == kind)
    }

    /// Removes an operation that has completed or was cancelled; returns those that must poll
    /// again.
    pub(super) fn remove(&mut self, kind: OpKind, id: u64) -> Vec<u64> {
        self.ops.retain(|(_, other)| *other != id);
        if self.woken[kind as usize] != Some(id) {
            return Vec::new();
        }
        self.woken[kind as usize] = None;
        let others = self.ops.iter().filter(|(other, _)| *other == kind);
        others.map(|(_, id)| *id).collect()
    }

    /// Removes and returns all operations.
    pub(super) fn take_all(&mut self) -> Vec<u64> {
        self.woken = [None; 2];
        std::mem::take(&mut self.ops).into_iter().map(|(_, id)| id).collect()
    }
}
