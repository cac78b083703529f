//! Connections meet their sockets: receiving, sending, pausing, the end.
//!
//! Promises one receive for each event, that sending stops at the first refusal and goes on when
//! the driver says so, and that a socket which failed is closed at once, with a reset if something
//! that was written is lost.

use std::io::ErrorKind;

use net::Source as Taken;

use super::connection::{Connection, Reader};
use super::{Handle, Inner, Wake, open};
use crate::errno;
use crate::limits::{SPARE_OUTPUT_BYTES, SPARE_OUTPUTS};
use crate::vm::Vm;

impl Inner {
    pub(super) fn open(&mut self, handle: Handle) -> Option<&mut Connection> {
        open(&mut self.connections, handle)
    }

    /// Receives once; who is woken by that.
    pub(super) fn receive(&mut self, index: u32, vm: &Vm) -> Option<Wake> {
        let connection = self.connections.get_mut(index as usize)?;
        let (stream, _) = self.driver.stream(connection.key?)?;
        match stream.try_receive_into(&mut self.room) {
            Ok(0) => connection.ended = true,
            Ok(count) => {
                connection.input.arrived(&self.room, count);
                self.lent = Some(index);
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                return None;
            }
            Err(error) => {
                connection.broken = Some(errno::of_error(&error).into());
                self.touch(index);
            }
        }
        let wake = self.satisfy(index, vm);
        self.watch(index);
        wake
    }

    /// The waiting reader, if it need not wait any more.
    fn satisfy(&mut self, index: u32, vm: &Vm) -> Option<Wake> {
        let connection = self.connections.get_mut(index as usize)?;
        if connection.forget_reader(vm) {
            return None;
        }
        let Reader { task, want, .. } = connection.reader.as_ref()?;
        let task = *task;
        let found = connection.input.find(want, &self.room);
        let reason = match (&connection.broken, found) {
            (_, Some(_)) => String::new(),
            (Some(reason), _) => reason.to_string(),
            _ if connection.ended => errno::EOF.to_owned(),
            _ if connection.is_hopeless(want) => errno::of_number(libc::EMSGSIZE),
            _ => return None,
        };
        let reader = connection.reader.take()?;
        if let Some(deadline) = reader.deadline {
            vm.timers.cancel(deadline);
        }
        Some(match found {
            Some(count) => Wake::Bytes(task, self.take(index, count)),
            None => Wake::Failed(task, reason.into()),
        })
    }

    /// Takes unread bytes; they stay in place until the turn ends or more arrive.
    pub(super) fn take(&mut self, index: u32, count: usize) -> *const [u8] {
        let connection = &mut self.connections[index as usize];
        let bytes = &raw const connection.input.unread(&self.room)[..count];
        let paused = connection.input.len() >= connection.limit;
        connection.input.take(count);
        if paused {
            self.watch(index);
        }
        bytes
    }

    /// Has the driver watch for what the connection can use.
    pub(super) fn watch(&mut self, index: u32) {
        let Some(connection) = self.connections.get(index as usize) else { return };
        if let Some(key) = connection.key {
            self.driver.set_interest(key, connection.interest());
        }
    }

    /// Has the end of the turn look at the connection.
    pub(super) fn touch(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(index);
        }
    }

    /// Sends what the socket takes.
    pub(super) fn flush(&mut self, index: u32) {
        let Some(connection) = self.connections.get_mut(index as usize) else { return };
        let Some((stream, _)) = connection.key.and_then(|key| self.driver.stream(key)) else {
            return;
        };
        while connection.unsent() > 0 {
            match stream.try_send_slice(&connection.output[connection.sent..]) {
                Ok(count) => connection.sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    connection.blocked = true;
                    self.watch(index);
                    return;
                }
                Err(error) => {
                    connection.broken = Some(errno::of_error(&error).into());
                    self.touch(index);
                    return;
                }
            }
        }
        if connection.finished && !connection.closed {
            stream.finish();
        }
        connection.sent = 0;
        let mut buffer = std::mem::take(&mut connection.output);
        if buffer.capacity() <= SPARE_OUTPUT_BYTES && self.spare_outputs.len() < SPARE_OUTPUTS {
            buffer.clear();
            if buffer.capacity() > 0 {
                self.spare_outputs.push(buffer);
            }
        }
    }

    /// The socket takes bytes again; who is woken by that.
    pub(super) fn unblock(&mut self, index: u32) -> Vec<Wake> {
        let Some(connection) = self.connections.get_mut(index as usize) else { return Vec::new() };
        if !std::mem::take(&mut connection.blocked) {
            return Vec::new();
        }
        self.flush(index);
        self.watch(index);
        let Some(connection) = self.connections.get_mut(index as usize) else { return Vec::new() };
        if connection.closed {
            self.touch(index);
            return Vec::new();
        }
        // One that is broken is cut at the end of the turn, which tells everybody.
        if connection.unsent() > 0 || connection.broken.is_some() {
            return Vec::new();
        }
        connection.flushers.drain(..).map(Wake::Sent).collect()
    }

    /// Closes the socket of a connection that is broken; what was received stays readable, and who
    /// waits is told.
    pub(super) fn cut(&mut self, index: u32, vm: &Vm, wakes: &mut Vec<Wake>) {
        let Some(connection) = self.connections.get_mut(index as usize) else { return };
        let Some(reason) = &connection.broken else { return };
        let reader = connection.reader.take();
        if let Some(deadline) = reader.as_ref().and_then(|reader| reader.deadline) {
            vm.timers.cancel(deadline);
        }
        let waiting = reader.map(|reader| reader.task).into_iter();
        let waiting = waiting.chain(connection.flushers.drain(..));
        wakes.extend(waiting.map(|task| Wake::Failed(task, reason.as_ref().into())));
        let lost = connection.unsent() > 0;
        connection.output = Vec::new();
        connection.sent = 0;
        let socket = connection.key.take().and_then(|key| self.driver.remove(key));
        if let Some((Taken::Stream(stream), _)) = socket
            && lost
        {
            stream.abort();
        }
    }

    /// Removes a closed connection that has nothing to send; one that begins to linger is returned.
    pub(super) fn bury(&mut self, index: u32) -> Option<Handle> {
        let connection = self.connections.get_mut(index as usize)?;
        if !connection.closed {
            return None;
        }
        if connection.unsent() == 0 {
            self.remove(index);
            return None;
        }
        let begins = !std::mem::replace(&mut connection.lingering, true);
        let handle = Handle { index, generation: connection.generation };
        self.watch(index);
        begins.then_some(handle)
    }

    pub(super) fn remove(&mut self, index: u32) {
        if let Some(connection) = self.connections.try_remove(index as usize)
            && let Some(key) = connection.key
        {
            self.driver.remove(key);
        }
    }
}
