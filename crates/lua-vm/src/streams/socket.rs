//! I/O of connections: receiving, sending, pausing, closing.
//!
//! Promises one receive for each event, that sending stops when the socket is full and continues
//! when the driver reports it writable, and that a failed socket is closed at once, with a reset if
//! output is lost.

use std::io::ErrorKind;

use net::Source as Taken;

use super::connection::{Connection, WaitingReader};
use super::{StreamTable, StreamWake, open};
use crate::errno;
use crate::ids::StreamHandle;
use crate::limits::{SPARE_OUTPUT_BYTES, SPARE_OUTPUTS};
use crate::vm::Vm;

impl StreamTable {
    pub(super) fn open(&mut self, handle: StreamHandle) -> Option<&mut Connection> {
        open(&mut self.connections, handle)
    }

    /// Receives once; returns the coroutine to wake.
    pub(super) fn receive(&mut self, index: u32, vm: &Vm) -> Option<StreamWake> {
        let connection = self.connections.get_mut(index as usize)?;
        let (stream, _) = self.driver.stream(connection.key?)?;
        match stream.try_receive_into(&mut self.room) {
            Ok(0) => connection.ended = true,
            Ok(count) => {
                connection.input.received(&self.room, count);
                self.lent = Some(index);
            }
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                return None;
            }
            Err(error) => {
                // A stream with TLS that ends without close_notify may be incomplete.
                let is_truncated = error.kind() == ErrorKind::UnexpectedEof;
                let reason =
                    if is_truncated { errno::TLS.to_owned() } else { errno::of_error(&error) };
                connection.broken = Some(reason.into());
                self.mark_touched(index);
            }
        }
        let wake = self.take_satisfied(index, vm);
        self.watch(index);
        wake
    }

    /// Takes the waiting reader if its read is satisfied; the caller watches the socket again.
    fn take_satisfied(&mut self, index: u32, vm: &Vm) -> Option<StreamWake> {
        let connection = self.connections.get_mut(index as usize)?;
        if connection.forget_reader(vm) {
            return None;
        }
        let WaitingReader { task, want, .. } = connection.reader.as_ref()?;
        let task = *task;
        let found = connection.input.find(want, &self.room);
        let reason = match (&connection.broken, found) {
            (_, Some(_)) => String::new(),
            (Some(reason), _) => reason.to_string(),
            _ if connection.ended => errno::EOF.to_owned(),
            _ if connection.is_unsatisfiable(want) => errno::of_number(libc::EMSGSIZE),
            _ => return None,
        };
        let reader = connection.reader.take()?;
        if let Some(deadline) = reader.deadline {
            vm.timers.cancel(deadline);
        }
        Some(match found {
            Some(count) => {
                // The socket is watched again after this.
                let (bytes, _) = connection.take(count, &self.room);
                StreamWake::Bytes(task, bytes)
            }
            None => StreamWake::Failed(task, reason.into()),
        })
    }

    /// Updates the readiness that the driver watches for.
    pub(super) fn watch(&mut self, index: u32) {
        let Some(connection) = self.connections.get(index as usize) else { return };
        if let Some(key) = connection.key {
            self.driver.set_interest(key, connection.interest());
        }
    }

    /// Marks the connection for the end of the turn.
    pub(super) fn mark_touched(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(index);
        }
    }

    /// Sends as much output as the socket accepts.
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
                    self.mark_touched(index);
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

    /// Continues sending; returns the coroutines to wake.
    pub(super) fn unblock(&mut self, index: u32) -> Vec<StreamWake> {
        let Some(connection) = self.connections.get_mut(index as usize) else { return Vec::new() };
        if !std::mem::take(&mut connection.blocked) {
            return Vec::new();
        }
        self.flush(index);
        self.watch(index);
        let Some(connection) = self.connections.get_mut(index as usize) else { return Vec::new() };
        if connection.closed {
            self.mark_touched(index);
            return Vec::new();
        }
        // A broken connection is cut at the end of the turn, which wakes all its coroutines.
        if connection.unsent() > 0 || connection.broken.is_some() {
            return Vec::new();
        }
        connection.flushers.drain(..).map(StreamWake::Sent).collect()
    }

    /// Closes the socket of a broken connection; received bytes stay readable, and waiting
    /// coroutines are woken.
    pub(super) fn cut(&mut self, index: u32, vm: &Vm, wakes: &mut Vec<StreamWake>) {
        let Some(connection) = self.connections.get_mut(index as usize) else { return };
        let Some(reason) = &connection.broken else { return };
        let reader = connection.reader.take();
        if let Some(deadline) = reader.as_ref().and_then(|reader| reader.deadline) {
            vm.timers.cancel(deadline);
        }
        let waiting = reader.map(|reader| reader.task).into_iter();
        let waiting = waiting.chain(connection.flushers.drain(..));
        wakes.extend(waiting.map(|task| StreamWake::Failed(task, reason.as_ref().into())));
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

    /// Removes a closed connection that has sent everything; returns the handle of one that starts
    /// to linger.
    pub(super) fn remove_if_sent(&mut self, index: u32) -> Option<StreamHandle> {
        let connection = self.connections.get_mut(index as usize)?;
        if !connection.closed {
            return None;
        }
        if connection.unsent() == 0 {
            if let Some((stream, _)) = connection.key.and_then(|key| self.driver.stream(key)) {
                stream.close_notify();
            }
            self.remove(index);
            return None;
        }
        let begins = !std::mem::replace(&mut connection.lingering, true);
        let handle = StreamHandle { index, generation: connection.generation };
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
