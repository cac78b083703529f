//! The order in which streams send (RFC 9218 10): by urgency, then by ticket.
//!
//! A stream draws a ticket when it first has data to send. A stream whose parts are useless alone
//! keeps its ticket until its body ends, so it is sent as a whole; an incremental one draws another
//! after each frame, so streams of that kind share the connection. Tickets only grow: no stream of
//! the same urgency starves.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A stream that can send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    pub(super) urgency: u8,
    pub(super) ticket: u64,
    /// The place of the stream in the table, and its number, which tells whether the place has
    /// another stream by now.
    pub(super) slot: u32,
    pub(super) id: u32,
}

/// Streams that can send, the first of them first.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    turns: BinaryHeap<Reverse<Turn>>,
    tickets: u64,
}

impl Schedule {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.turns.len()
    }

    pub(super) fn draw_ticket(&mut self) -> u64 {
        self.tickets += 1;
        self.tickets
    }

    pub(super) fn push(&mut self, turn: Turn) {
        self.turns.push(Reverse(turn));
    }

    pub(super) fn pop(&mut self) -> Option<Turn> {
        self.turns.pop().map(|Reverse(turn)| turn)
    }

    /// Removes the turns of streams that have ended.
    pub(super) fn retain(&mut self, mut exists: impl FnMut(&Turn) -> bool) {
        self.turns.retain(|Reverse(turn)| exists(turn));
    }

    /// Releases the memory of an empty schedule.
    pub(super) fn release_memory(&mut self) {
        if self.turns.is_empty() {
            self.turns = BinaryHeap::new();
        }
    }
}
