//! The part of streams in a turn: they wake coroutines, set timers, and send at its end.

use mlua::ffi;
use net::{Event, Key};

use super::connection::WaitingReader;
use super::input::ReadRequest;
use super::{StreamSource, StreamWake, Streams};
use crate::errno;
use crate::ids::{StreamHandle, TaskId};
use crate::limits::LINGER_MS;
use crate::stack;
use crate::timers::{TimerAction, TimerId};
use crate::vm::{Turn, Vm};

impl Streams {
    /// Handles an event, without running the coroutines it makes ready.
    pub(crate) fn event(&self, turn: &Turn<'_>, key: Key, event: Event) {
        match event {
            Event::Ready(ready) => {
                let source = self.inner.borrow_mut().driver.data(key).copied();
                let Some(StreamSource::Connection(index)) = source else { return };
                if ready.write {
                    let sent = self.inner.borrow_mut().unblock(index);
                    sent.into_iter().for_each(|wake| wake.run(turn));
                }
                if ready.read {
                    let read = self.inner.borrow_mut().receive(index, turn);
                    if let Some(wake) = read {
                        wake.run(turn);
                    }
                }
            }
            Event::Accepted(accepted) => self.accepted(turn, key, accepted),
        }
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
        let left = connection.deadline_ms.map(|at| at.saturating_sub(vm.timers.now_ms()));
        let span = [ms, left].into_iter().flatten().min();
        let due = TimerAction::Read { connection: handle.index };
        let deadline = span.map(|span| vm.timers.set(span, due));
        connection.reader = Some(WaitingReader { task, want, deadline });
        inner.watch(handle.index);
    }

    /// Ends a waiting read whose time-out has passed.
    pub(crate) fn time_out_read(&self, turn: &Turn<'_>, index: u32, deadline: TimerId) {
        let mut inner = self.inner.borrow_mut();
        let Some(connection) = inner.connections.get_mut(index as usize) else { return };
        let Some(reader) = connection.reader.take_if(|reader| reader.deadline == Some(deadline))
        else {
            return;
        };
        inner.watch(index);
        drop(inner);
        StreamWake::Failed(reader.task, errno::of_number(libc::ETIMEDOUT).into()).run(turn);
    }

    /// Removes a reader that no longer waits because it was woken otherwise or closed. True if
    /// there was one.
    pub(crate) fn forget_reader(&self, vm: &Vm, handle: StreamHandle) -> bool {
        let mut inner = self.inner.borrow_mut();
        inner.open(handle).is_some_and(|connection| connection.forget_reader(vm))
    }

    /// Closes once what was written is sent; false if it is closed.
    pub(crate) fn close(&self, vm: &Vm, handle: StreamHandle) -> bool {
        let mut inner = self.inner.borrow_mut();
        let Some(connection) = inner.open(handle) else { return false };
        connection.closed = true;
        let reader = connection.reader.take();
        let flushers = std::mem::take(&mut connection.flushers);
        inner.mark_touched(handle.index);
        drop(inner);
        if let Some(deadline) = reader.as_ref().and_then(|reader| reader.deadline) {
            vm.timers.cancel(deadline);
        }
        for task in reader.map(|reader| reader.task).into_iter().chain(flushers) {
            StreamWake::Failed(task, errno::CLOSED.into()).run(vm);
        }
        true
    }

    /// Closes with a reset, and what is unsent is lost; false if it is closed.
    pub(crate) fn reset(&self, vm: &Vm, handle: StreamHandle) -> bool {
        {
            let inner = &mut *self.inner.borrow_mut();
            let Some(connection) = inner.open(handle) else { return false };
            connection.output = Vec::new();
            connection.sent = 0;
            let key = connection.key;
            if let Some((stream, _)) = key.and_then(|key| inner.driver.stream(key)) {
                stream.reset_on_close();
            }
        }
        self.close(vm, handle)
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
            connection.input.copy_unread(&inner.room);
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
