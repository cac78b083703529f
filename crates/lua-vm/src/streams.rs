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

use mlua::ffi;
use net::{Driver, Event, Key, Stream};
use slab::Slab;

use crate::errno;
use crate::limits::{LINGER_MS, ROOM_BYTES};
use crate::stack;
use crate::tasks::TaskId;
use crate::timers::TimerAction;
use crate::vm::{Turn, Vm};

pub(crate) mod connection;
pub(crate) mod input;
mod listening;
mod socket;

pub use listening::address as peer_address;

use connection::{Connection, WaitingReader};
use input::ReadRequest;

/// The handle of a connection or listener of this VM; stale once it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct StreamHandle {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

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

/// The result of a read.
pub(crate) enum ReadResult {
    /// Bytes in memory that stays as it is until the turn ends or more arrive.
    Bytes(*const [u8]),
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

    /// Handles an event, without running the coroutines it makes ready.
    pub(crate) fn event(&self, turn: &Turn<'_>, key: Key, event: Event) {
        match event {
            Event::Ready(ready) => {
                let mut inner = self.inner.borrow_mut();
                let Some(StreamSource::Connection(index)) = inner.driver.data(key).copied() else {
                    return;
                };
                let sent = if ready.write { inner.unblock(index) } else { Vec::new() };
                let read = if ready.read { inner.receive(index, turn) } else { None };
                drop(inner);
                for wake in sent.into_iter().chain(read) {
                    wake.run(turn);
                }
            }
            Event::Accepted(accepted) => self.accepted(turn, key, accepted),
        }
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

    /// Reads what has been received; [`Streams::park`] waits for more.
    pub(crate) fn read(&self, handle: StreamHandle, want: &ReadRequest) -> ReadResult {
        let inner = &mut *self.inner.borrow_mut();
        let Some(connection) = open(&mut inner.connections, handle) else {
            return ReadResult::Failed(errno::CLOSED.into());
        };
        if connection.reader.is_some() {
            return ReadResult::Busy;
        }
        connection.input.begin();
        if let Some(count) = connection.input.find(want, &inner.room) {
            return ReadResult::Bytes(inner.take(handle.index, count));
        }
        if let Some(reason) = connection.broken.as_deref() {
            return ReadResult::Failed(reason.into());
        }
        if connection.ended {
            return ReadResult::Failed(errno::EOF.into());
        }
        if connection.is_unsatisfiable(want) {
            return ReadResult::Failed(errno::of_number(libc::EMSGSIZE).into());
        }
        ReadResult::Wait
    }

    /// Parks the coroutine of a read that found nothing: it is woken with the bytes, or with
    /// `nil, reason`.
    pub(crate) fn park(
        &self,
        vm: &Vm,
        handle: StreamHandle,
        task: TaskId,
        want: ReadRequest,
        ms: Option<u64>,
    ) {
        let inner = &mut *self.inner.borrow_mut();
        let Some(connection) = inner.open(handle) else { return };
        let left = connection.deadline_ms.map(|at| at.saturating_sub(crate::timers::now_ms()));
        let span = [ms, left].into_iter().flatten().min();
        let due = TimerAction::Read { connection: handle.index, task };
        let deadline = span.map(|span| vm.timers.set(span, due));
        connection.reader = Some(WaitingReader { task, want, deadline });
        inner.watch(handle.index);
    }

    /// Ends a waiting read whose time-out has passed.
    pub(crate) fn time_out_read(&self, turn: &Turn<'_>, index: u32, task: TaskId) {
        let mut inner = self.inner.borrow_mut();
        let Some(connection) = inner.connections.get_mut(index as usize) else { return };
        if connection.reader.as_ref().is_none_or(|reader| reader.task != task) {
            return;
        }
        connection.reader = None;
        inner.watch(index);
        drop(inner);
        StreamWake::Failed(task, errno::of_number(libc::ETIMEDOUT).into()).run(turn);
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
            inner.touch(handle.index);
            return Err(reason.into());
        }
        if connection.output.capacity() == 0
            && let Some(spare) = inner.spare_outputs.pop()
        {
            connection.output = spare;
        }
        connection.append(bytes);
        inner.touch(handle.index);
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

    /// Removes a reader that no longer waits because it was woken otherwise or closed. True if
    /// there was one.
    pub(crate) fn forget_reader(&self, vm: &Vm, handle: StreamHandle) -> bool {
        let mut inner = self.inner.borrow_mut();
        inner.open(handle).is_some_and(|connection| connection.forget_reader(vm))
    }

    /// Ends the output: the peer sees the end of the stream after what was written.
    pub(crate) fn finish(&self, handle: StreamHandle) -> bool {
        let inner = &mut *self.inner.borrow_mut();
        let Some(connection) = inner.open(handle) else { return false };
        let first = !std::mem::replace(&mut connection.finished, true);
        inner.touch(handle.index);
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

    /// Closes once what was written is sent; false if it is closed.
    pub(crate) fn close(&self, vm: &Vm, handle: StreamHandle) -> bool {
        let mut inner = self.inner.borrow_mut();
        let Some(connection) = inner.open(handle) else { return false };
        connection.closed = true;
        let reader = connection.reader.take();
        let flushers = std::mem::take(&mut connection.flushers);
        inner.touch(handle.index);
        drop(inner);
        if let Some(deadline) = reader.as_ref().and_then(|reader| reader.deadline) {
            vm.timers.cancel(deadline);
        }
        for task in reader.map(|reader| reader.task).into_iter().chain(flushers) {
            StreamWake::Failed(task, errno::CLOSED.into()).run(vm);
        }
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

    /// Connections that are not closed, or not sent to their last byte.
    pub(crate) fn count(&self) -> usize {
        self.inner.borrow().connections.len()
    }

    /// Closes the listeners; the program ends with its last connection. True if there is none.
    pub(crate) fn begin_drain(&self, vm: &Vm) -> bool {
        let again = self.draining.replace(true);
        self.close_listeners(vm);
        again || self.count() == 0
    }

    /// Sends what the program wrote before it ended.
    pub(crate) async fn last_bytes(&self, vm: &Vm) {
        while self.inner.borrow().connections.iter().any(|(_, c)| c.unsent() > 0) {
            let (key, event) = std::future::poll_fn(|cx| self.poll(cx)).await;
            let mut inner = self.inner.borrow_mut();
            if let (Event::Ready(ready), Some(StreamSource::Connection(index))) =
                (event, inner.driver.data(key).copied())
                && ready.write
            {
                inner.unblock(index);
                inner.cut(index, vm, &mut Vec::new());
            }
        }
    }

    /// The object of a handle was collected.
    pub(crate) fn collected(&self, handle: StreamHandle) {
        self.collected.borrow_mut().push(handle);
    }

    /// Ends a turn: sends all output and removes closed connections. Coroutines woken by that
    /// become ready.
    pub(crate) fn end_turn(&self, vm: &Vm) {
        if !self.collected.borrow().is_empty() {
            let collected = self.collected.take();
            for handle in collected {
                self.close(vm, handle);
            }
        }
        let mut wakes = Vec::new();
        self.end_streams(vm, &mut wakes);
        for wake in wakes {
            wake.run(vm);
        }
    }

    fn end_streams(&self, vm: &Vm, wakes: &mut Vec<StreamWake>) {
        let inner = &mut *self.inner.borrow_mut();
        if let Some(index) = inner.lent.take()
            && let Some(connection) = inner.connections.get_mut(index as usize)
        {
            connection.input.settle(&inner.room);
        }
        while let Some(index) = inner.dirty.pop() {
            let Some(connection) = inner.connections.get_mut(index as usize) else { continue };
            connection.dirty = false;
            if !connection.blocked {
                inner.flush(index);
            }
            inner.cut(index, vm, wakes);
            if let Some(handle) = inner.remove_if_sent(index) {
                vm.timers.set(LINGER_MS, TimerAction::Linger(handle));
            }
        }
        if self.draining.get() && inner.connections.is_empty() {
            vm.exit(0);
        }
    }
}

fn open(connections: &mut Slab<Connection>, handle: StreamHandle) -> Option<&mut Connection> {
    connections
        .get_mut(handle.index as usize)
        .filter(|connection| connection.generation == handle.generation && !connection.closed)
}

impl StreamWake {
    fn run(self, turn: &Vm) {
        match self {
            StreamWake::Bytes(task, bytes) => {
                // SAFETY: the bytes stay valid until the turn ends or more arrive, and the push
                // copies them before either can happen.
                turn.wake_with(task, |thread| unsafe {
                    stack::push(thread, &*bytes);
                    1
                });
            }
            StreamWake::Failed(task, reason) => {
                // SAFETY: a thread that waits has room for two values.
                turn.wake_with(task, |thread| unsafe { stack::refuse(thread, &reason) });
            }
            StreamWake::Sent(task) => {
                // SAFETY: as above.
                turn.wake_with(task, |thread| unsafe {
                    ffi::lua_pushboolean(thread, 1);
                    1
                });
            }
        }
    }
}
