//! One connection of a VM: what it received, what it is to send, who waits.
//!
//! Owns no socket (the driver does). Its state moves one way: open, then closed by the script or
//! broken by the network; a closed one stays until its last bytes are sent.

use net::Key;

use crate::limits::{OUTPUT_BYTES, READ_BYTES};
use crate::streams::input::{Input, Want};
use crate::tasks::TaskId;
use crate::timers::Session;
use crate::vm::Vm;

/// A coroutine that waits for bytes.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) task: TaskId,
    pub(crate) want: Want,
    pub(crate) deadline: Option<Session>,
}

#[derive(Debug)]
pub(crate) struct Connection {
    /// Its socket, until that is of no use any more.
    pub(crate) key: Option<Key>,
    /// Tells a handle of this connection from one of an earlier connection in its place.
    pub(crate) generation: u32,
    pub(crate) input: Input,
    pub(crate) reader: Option<Reader>,
    /// Reading pauses while so much is unread; `usize::MAX` for never.
    pub(crate) limit: usize,
    pub(crate) output: Vec<u8>,
    pub(crate) sent: usize,
    pub(crate) output_limit: usize,
    /// Coroutines that wait until everything is sent.
    pub(crate) flushers: Vec<TaskId>,
    /// In the list of those to flush at the end of the turn.
    pub(crate) dirty: bool,
    /// The socket takes no more for now.
    pub(crate) blocked: bool,
    /// The peer sends nothing more.
    pub(crate) ended: bool,
    /// Why nothing works any more.
    pub(crate) broken: Option<Box<str>>,
    /// We send nothing more once the output is out.
    pub(crate) finished: bool,
    /// The script has closed it: only its output matters.
    pub(crate) closed: bool,
    /// It is closed, and the time for its last bytes runs.
    pub(crate) lingering: bool,
    /// No read lasts beyond this, in milliseconds of the monotonic clock.
    pub(crate) deadline_ms: Option<u64>,
}

impl Connection {
    pub(crate) fn new(key: Key, generation: u32) -> Connection {
        Connection {
            key: Some(key),
            generation,
            input: Input::default(),
            reader: None,
            limit: READ_BYTES,
            output: Vec::new(),
            sent: 0,
            output_limit: OUTPUT_BYTES,
            flushers: Vec::new(),
            dirty: false,
            blocked: false,
            ended: false,
            broken: None,
            finished: false,
            closed: false,
            lingering: false,
            deadline_ms: None,
        }
    }

    /// Forgets a reader that waits no more; true if there was one.
    pub(crate) fn forget_reader(&mut self, vm: &Vm) -> bool {
        let gone = |reader: &Reader| vm.tasks(|tasks| tasks.find(reader.task).is_none());
        if !self.reader.as_ref().is_some_and(gone) {
            return false;
        }
        if let Some(deadline) = self.reader.take().and_then(|reader| reader.deadline) {
            vm.timers.cancel(deadline);
        }
        true
    }

    pub(crate) fn unsent(&self) -> usize {
        self.output.len() - self.sent
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) {
        // Bytes that have left make room before the buffer grows, if they are most of it: moving
        // the rest for each small write to a slow peer would cost more than the room is worth.
        let full = self.output.len() + bytes.len() > self.output.capacity();
        if full && self.sent > 0 && self.sent >= self.output.len() / 2 {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
        self.output.extend_from_slice(bytes);
    }

    /// What to watch the socket for.
    pub(crate) fn interest(&self) -> net::Interest {
        let over = self.ended || self.closed || self.broken.is_some();
        let wanted = match &self.reader {
            // A counted read may be longer than the limit.
            Some(Reader { want: Want::Bytes(count), .. }) => self.limit.max(*count),
            _ => self.limit,
        };
        net::Interest {
            read: !over && self.input.len() < wanted,
            write: self.blocked && self.broken.is_none(),
        }
    }

    /// A read that cannot be satisfied however long it waits: what it looks for would have to lie
    /// beyond the limit.
    pub(crate) fn is_hopeless(&self, want: &Want) -> bool {
        match want {
            Want::Delimiter(_) | Want::More(_) => self.input.len() >= self.limit,
            Want::Bytes(_) | Want::Some(_) => false,
        }
    }
}
