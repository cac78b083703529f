//! One connection of a VM: its input, its output, the coroutines that wait for it.
//!
//! Owns no socket (the driver does). Its state moves one way: open, then closed by the script or
//! broken by the network; a closed one stays until its last bytes are sent.

use net::Key;

use crate::ids::TaskId;
use crate::limits::{LINE_BYTES, OUTPUT_BYTES, READ_BYTES};
use crate::streams::input::{InputBuffer, ReadRequest};
use crate::timers::TimerId;
use crate::vm::Vm;

/// A coroutine that waits for bytes.
#[derive(Debug)]
pub(crate) struct WaitingReader {
    pub(crate) task: TaskId,
    pub(crate) want: ReadRequest,
    pub(crate) deadline: Option<TimerId>,
}

#[derive(Debug)]
pub(crate) struct Connection {
    /// Its socket; `None` once it is closed.
    pub(crate) key: Option<Key>,
    /// Distinguishes this connection from earlier ones with the same index.
    pub(crate) generation: u32,
    pub(crate) input: InputBuffer,
    pub(crate) reader: Option<WaitingReader>,
    /// Unread bytes that pause reading; `usize::MAX` for never.
    pub(crate) limit: usize,
    /// Unread bytes without its delimiter that end a read.
    pub(crate) line_limit: usize,
    pub(crate) output: Vec<u8>,
    pub(crate) sent: usize,
    pub(crate) output_limit: usize,
    /// Coroutines that wait until everything is sent.
    pub(crate) flushers: Vec<TaskId>,
    /// True if it is in the list of connections to flush at the end of the turn.
    pub(crate) dirty: bool,
    /// True while the socket's send buffer is full.
    pub(crate) blocked: bool,
    /// True once the peer has ended its side.
    pub(crate) ended: bool,
    /// The error that broke the connection.
    pub(crate) broken: Option<Box<str>>,
    /// True if the stream ends after the output.
    pub(crate) finished: bool,
    /// The script has closed it: only its output matters.
    pub(crate) closed: bool,
    /// True while it is closed and sends its last bytes.
    pub(crate) lingering: bool,
    /// The deadline of all reads, in milliseconds of the monotonic clock.
    pub(crate) deadline_ms: Option<u64>,
}

impl Connection {
    pub(crate) fn new(key: Key, generation: u32) -> Connection {
        Connection {
            key: Some(key),
            generation,
            input: InputBuffer::default(),
            reader: None,
            limit: READ_BYTES,
            line_limit: LINE_BYTES,
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

    /// Removes a reader that no longer waits; true if there was one.
    pub(crate) fn forget_reader(&mut self, vm: &Vm) -> bool {
        let gone = |reader: &WaitingReader| vm.tasks(|tasks| tasks.find(reader.task).is_none());
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
        // Sent bytes are removed before the buffer grows, if they are most of it: moving the rest
        // for each small write to a slow peer would cost more than the memory is worth.
        let full = self.output.len() + bytes.len() > self.output.capacity();
        if full && self.sent > 0 && self.sent >= self.output.len() / 2 {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
        self.output.extend_from_slice(bytes);
    }

    /// The readiness that the connection needs.
    pub(crate) fn interest(&self) -> net::Interest {
        let over = self.ended || self.closed || self.broken.is_some();
        let wanted = match &self.reader {
            // A reader that waits may need more than the limit.
            Some(WaitingReader { want: ReadRequest::Bytes(count), .. }) => self.limit.max(*count),
            Some(WaitingReader { want: ReadRequest::Delimiter(_), .. }) => {
                self.limit.max(self.line_limit)
            }
            _ => self.limit,
        };
        net::Interest {
            read: !over && self.input.len() < wanted,
            write: self.blocked && self.broken.is_none(),
        }
    }

    /// Marks bytes as read, and returns them: they stay valid until the turn ends or more arrive.
    /// True if the socket may have to be read again because of that.
    pub(crate) fn take(&mut self, count: usize, room: &[u8]) -> (*const [u8], bool) {
        let unread = self.input.unread(room);
        let (bytes, paused) = (&raw const unread[..count], unread.len() >= self.limit);
        self.input.take(count);
        (bytes, paused)
    }

    /// True if a read can never be satisfied: its delimiter would lie beyond the limit.
    pub(crate) fn is_unsatisfiable<D>(&self, want: &ReadRequest<D>) -> bool {
        match want {
            ReadRequest::Delimiter(_) => self.input.len() >= self.line_limit,
            ReadRequest::More(_) => self.input.len() >= self.limit,
            ReadRequest::Bytes(_) | ReadRequest::Some(_) => false,
        }
    }
}
