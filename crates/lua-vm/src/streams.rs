//! The sockets of a VM: one driver for all connections and listeners.
//!
//! Owns their input and output buffers. An event of the driver becomes a turn (see `drive`); what a
//! turn wrote is sent at its end, with one send for each connection. Promises: a write never waits
//! and is sent in order; a peer is held back once `limit` of its bytes are unread; a peer that does
//! not read ends its connection once `output_limit` bytes are unsent; a closed connection still
//! sends what was written to it, for a bounded time.
//!
//! Never runs Lua while it is borrowed: the bytes for a reader are found first and pushed after.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};

use net::{Driver, Event, Key, Stream};
use slab::Slab;

use crate::errno;
use crate::ids::{StreamHandle, TaskId};
use crate::limits::ROOM_BYTES;

pub(crate) mod connection;
pub(crate) mod input;
mod listening;
mod socket;
mod turns;

pub use listening::{TlsListener, address as peer_address};

use connection::Connection;
use input::ReadRequest;

#[derive(Clone, Copy)]
enum StreamSource {
    Connection(u32),
    Listener(u32),
}

struct StreamTable {
    driver: Driver<StreamSource>,
    connections: Slab<Connection>,
    listeners: Slab<listening::ListenerEntry>,
    generation: u32,
    /// The receive buffer that all connections share, one at a time.
    room: Box<[u8]>,
    /// The connection whose unread bytes are in the receive buffer.
    lent: Option<u32>,
    /// Connections that were written to in this turn.
    dirty: Vec<u32>,
    spare_outputs: Vec<Vec<u8>>,
}

pub(crate) struct Streams {
    inner: RefCell<StreamTable>,
    /// Handles whose objects were collected; finalizers may run while the table is borrowed.
    collected: RefCell<Vec<StreamHandle>>,
    draining: Cell<bool>,
}

/// Why a read has found nothing.
pub(crate) enum Unread {
    /// Nothing yet: the coroutine may wait.
    Wait,
    Failed(Rc<str>),
    /// Another coroutine waits already.
    Busy,
}

/// A coroutine to wake, and the values it is woken with.
enum StreamWake {
    Bytes(TaskId, *const [u8]),
    Failed(TaskId, Rc<str>),
    Sent(TaskId),
}

impl Default for Streams {
    fn default() -> Streams {
        Streams {
            inner: RefCell::new(StreamTable {
                driver: Driver::new(),
                connections: Slab::new(),
                listeners: Slab::new(),
                generation: 0,
                room: vec![0; ROOM_BYTES].into_boxed_slice(),
                lent: None,
                dirty: Vec::new(),
                spare_outputs: Vec::new(),
            }),
            collected: RefCell::new(Vec::new()),
            draining: Cell::new(false),
        }
    }
}

impl Streams {
    /// The next event of a socket.
    pub(crate) fn poll(&self, cx: &mut Context<'_>) -> Poll<(Key, Event)> {
        self.inner.borrow_mut().driver.poll_ready(cx)
    }

    /// Adds a connection.
    pub(crate) fn insert(&self, stream: Stream) -> StreamHandle {
        let mut inner = self.inner.borrow_mut();
        inner.generation = inner.generation.wrapping_add(1);
        let generation = inner.generation;
        let index = inner.connections.vacant_key() as u32;
        let key = inner.driver.insert(stream, StreamSource::Connection(index));
        inner.connections.insert(Connection::new(key, generation));
        StreamHandle { index, generation }
    }

    /// Calls `look` with a connection that is not closed.
    pub(crate) fn with<R>(
        &self,
        handle: StreamHandle,
        look: impl FnOnce(&mut Connection) -> R,
    ) -> Option<R> {
        self.inner.borrow_mut().open(handle).map(look)
    }

    /// Reads what has been received: bytes in memory that stays as it is until the turn ends or
    /// more arrive. `None` has the reason that [`Streams::why_not_read`] gives.
    #[inline]
    pub(crate) fn read(
        &self,
        handle: StreamHandle,
        want: &ReadRequest<&[u8]>,
    ) -> Option<*const [u8]> {
        let inner = &mut *self.inner.borrow_mut();
        let connection = open(&mut inner.connections, handle).filter(|c| c.reader.is_none())?;
        connection.input.begin();
        let count = connection.input.find(want, &inner.room)?;
        let (bytes, paused) = connection.take(count, &inner.room);
        if paused {
            inner.watch(handle.index);
        }
        Some(bytes)
    }

    /// Why a read has found nothing; [`Streams::park`] waits for more.
    pub(crate) fn why_not_read(&self, handle: StreamHandle, want: &ReadRequest<&[u8]>) -> Unread {
        let inner = &mut *self.inner.borrow_mut();
        let Some(connection) = inner.open(handle) else {
            return Unread::Failed(errno::CLOSED.into());
        };
        if connection.reader.is_some() {
            return Unread::Busy;
        }
        if let Some(reason) = connection.broken.as_deref() {
            return Unread::Failed(reason.into());
        }
        if connection.ended {
            return Unread::Failed(errno::EOF.into());
        }
        if connection.is_unsatisfiable(want) {
            return Unread::Failed(errno::of_number(libc::EMSGSIZE).into());
        }
        Unread::Wait
    }

    /// Appends to the output; `Err` is the reason if it cannot.
    pub(crate) fn write(&self, handle: StreamHandle, bytes: &[u8]) -> Result<(), Rc<str>> {
        let inner = &mut *self.inner.borrow_mut();
        let connection = open(&mut inner.connections, handle).ok_or(errno::CLOSED)?;
        if let Some(reason) = connection.broken.as_deref() {
            return Err(reason.into());
        }
        if connection.finished {
            return Err(errno::CLOSING.into());
        }
        if connection.unsent() + bytes.len() > connection.output_limit {
            let reason = errno::of_number(libc::ENOBUFS);
            connection.broken = Some(reason.as_str().into());
            inner.mark_touched(handle.index);
            return Err(reason.into());
        }
        if connection.output.capacity() == 0
            && let Some(spare) = inner.spare_outputs.pop()
        {
            connection.output = spare;
        }
        connection.append(bytes);
        if !std::mem::replace(&mut connection.dirty, true) {
            inner.dirty.push(handle.index);
        }
        Ok(())
    }

    /// Sends the output now; true if all of it was sent, else `task` waits for that.
    pub(crate) fn flush(&self, handle: StreamHandle, task: TaskId) -> Result<bool, Rc<str>> {
        let inner = &mut *self.inner.borrow_mut();
        inner.open(handle).ok_or(errno::CLOSED)?;
        inner.flush(handle.index);
        let connection = inner.open(handle).ok_or(errno::CLOSED)?;
        if let Some(reason) = connection.broken.as_deref() {
            return Err(reason.into());
        }
        let done = connection.unsent() == 0;
        if !done {
            connection.flushers.push(task);
        }
        Ok(done)
    }

    /// Ends the output: the peer sees the end of the stream after what was written.
    pub(crate) fn finish(&self, handle: StreamHandle) -> bool {
        let inner = &mut *self.inner.borrow_mut();
        let Some(connection) = inner.open(handle) else { return false };
        let first = !std::mem::replace(&mut connection.finished, true);
        inner.mark_touched(handle.index);
        first
    }

    /// Puts bytes before those that are unread.
    pub(crate) fn put_back(&self, handle: StreamHandle, bytes: &[u8]) -> bool {
        let inner = &mut *self.inner.borrow_mut();
        let Some(connection) = open(&mut inner.connections, handle) else { return false };
        connection.input.put_back(bytes, &inner.room);
        true
    }

    /// The first unread bytes, which stay unread.
    pub(crate) fn peek(&self, handle: StreamHandle, at_most: usize) -> Option<*const [u8]> {
        let inner = &mut *self.inner.borrow_mut();
        let connection = open(&mut inner.connections, handle)?;
        let unread = connection.input.unread(&inner.room);
        Some(&raw const unread[..unread.len().min(at_most)])
    }

    /// Sets how many unread bytes pause reading.
    pub(crate) fn set_limit(&self, handle: StreamHandle, limit: usize) {
        let inner = &mut *self.inner.borrow_mut();
        if let Some(connection) = inner.open(handle) {
            connection.limit = limit;
            inner.watch(handle.index);
        }
    }

    /// Takes the socket of a connection, which keeps its handle: until [`Streams::put_stream`],
    /// reads wait and writes are stored. Requires that nothing is unread or unsent, because bytes
    /// received before a handshake must not be taken for bytes protected by it.
    pub(crate) fn take_stream(&self, handle: StreamHandle) -> Result<Stream, String> {
        let inner = &mut *self.inner.borrow_mut();
        let connection = inner.open(handle).ok_or(errno::CLOSED)?;
        if let Some(reason) = connection.broken.as_deref() {
            return Err(reason.to_owned());
        }
        let busy = connection.reader.is_some() || connection.unsent() > 0;
        let Some(key) = connection.key.filter(|_| !busy) else {
            return Err(errno::of_number(libc::EBUSY));
        };
        if connection.finished || connection.ended || connection.input.len() > 0 {
            return Err(errno::of_number(libc::EPROTO));
        }
        connection.key = None;
        match inner.driver.remove(key) {
            Some((net::Source::Stream(stream), _)) => Ok(stream),
            _ => Err(errno::CLOSED.to_owned()),
        }
    }

    /// Gives a connection its socket again, or the reason why it has none any more. False if the
    /// connection was closed; then the socket is too.
    pub(crate) fn put_stream(&self, handle: StreamHandle, stream: Result<Stream, &str>) -> bool {
        let inner = &mut *self.inner.borrow_mut();
        if open(&mut inner.connections, handle).is_none() {
            return false;
        }
        let made = stream
            .map(|stream| inner.driver.insert(stream, StreamSource::Connection(handle.index)));
        let connection = &mut inner.connections[handle.index as usize];
        match made {
            Ok(key) => connection.key = Some(key),
            Err(reason) => connection.broken = Some(reason.into()),
        }
        inner.watch(handle.index);
        inner.mark_touched(handle.index);
        true
    }

    /// Removes a closed connection that has not sent its last bytes in time.
    pub(crate) fn drop_lingering(&self, handle: StreamHandle) {
        let mut inner = self.inner.borrow_mut();
        let same = inner.connections.get(handle.index as usize);
        if same.is_some_and(|connection| connection.generation == handle.generation) {
            inner.remove(handle.index);
        }
    }

    /// Connections that are open, or closed with unsent bytes.
    pub(crate) fn count(&self) -> usize {
        self.inner.borrow().connections.len()
    }

    /// What ALPN has agreed on; `None` without TLS or agreement.
    pub(crate) fn protocol(&self, handle: StreamHandle) -> Option<Box<str>> {
        let inner = &mut *self.inner.borrow_mut();
        let key = inner.open(handle)?.key?;
        inner.driver.stream(key)?.0.tls()?.protocol.clone()
    }

    /// The object of a handle was collected.
    pub(crate) fn collected(&self, handle: StreamHandle) {
        self.collected.borrow_mut().push(handle);
    }
}

fn open(connections: &mut Slab<Connection>, handle: StreamHandle) -> Option<&mut Connection> {
    connections
        .get_mut(handle.index as usize)
        .filter(|connection| connection.generation == handle.generation && !connection.closed)
}
