//! Opening the connections of a worker: a few at a time, with the handshake of TLS or of a
//! WebSocket.
//!
//! Promises that a connection that failed or was refused is retried after a short delay.

use std::io::{self, ErrorKind};
use std::time::Duration;

use super::{RETRY_NS, Worker, note, unsendable};
use crate::load::Kind;
use crate::load::connection::{Connection, ConnectionStage};
use crate::load::http::FeedResult;
use crate::load::schedule::TICK_NS;

/// So many connections are opened, then the server gets a moment to accept them.
const OPENED_AT_ONCE: usize = 64;
const ACCEPT: Duration = Duration::from_millis(1);

impl Worker<'_> {
    /// Opens all connections, unless each request has its own.
    pub(super) fn open_all(&mut self) -> io::Result<()> {
        if !self.state.keep_alive {
            for index in 0..self.connections.len() {
                self.set_free(index);
            }
            return Ok(());
        }
        let deadline_ns = self.state.now_ns() + self.state.timeout_ns;
        let mut begun = 0;
        let mut all_settled = false;
        while !all_settled {
            self.now_ns = self.state.now_ns();
            let until = (begun + OPENED_AT_ONCE).min(self.connections.len());
            (begun..until).for_each(|index| self.open(index));
            begun = until;
            let count = self.epoll.wait_for(Some(ACCEPT))?;
            self.take_events(count);
            let opens = |connection: &Connection| {
                matches!(
                    connection.stage,
                    ConnectionStage::Connecting | ConnectionStage::Handshaking
                )
            };
            let late = self.now_ns >= deadline_ns || self.state.is_stopped();
            all_settled =
                begun == self.connections.len() && (late || !self.connections.iter().any(opens));
        }
        Ok(())
    }

    /// Connects. What the connection is for begins with it, as far as latency goes.
    pub(super) fn open(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        connection.since_ns = self.now_ns;
        connection.asked_ns = self.now_ns;
        let session = self.state.session();
        match session.and_then(|session| connection.open(&self.state.peer, session)) {
            // The backlog of a Unix socket is full.
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                connection.close(self.now_ns + TICK_NS);
            }
            Err(_) => self.fail(index, Kind::Connect),
            Ok(fd) => {
                note(&mut self.by_fd, fd, index);
                let at_once = connection.connected().unwrap_or(false);
                if self.connections[index].watch(&self.epoll, !at_once).is_err() {
                    self.fail(index, Kind::Connect);
                } else if at_once {
                    self.connected(index);
                }
            }
        }
    }

    pub(super) fn connected(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let begun = match &self.state.greeting {
            _ if connection.is_securing() => connection.secure(),
            Some(greeting) => connection.greet(greeting),
            None => return self.opened(index),
        };
        if let Err(error) = begun {
            self.refuse(index, unsendable(&error));
        }
    }

    /// Takes bytes of the response to a handshake, or the end of the connection.
    pub(super) fn greeted(&mut self, index: usize, count: usize) {
        let connection = &mut self.connections[index];
        match connection.feed(&self.state.rules, &self.buffer[..count]) {
            _ if count == 0 => self.refuse(index, Kind::Read),
            FeedResult::More { .. } => {}
            FeedResult::Last { .. } => self.opened(index),
            FeedResult::Broken { kind, .. } => self.refuse(index, kind),
        }
    }

    /// The connection is open: it can be used.
    pub(super) fn opened(&mut self, index: usize) {
        self.connections[index].stage = ConnectionStage::Idle;
        if self.is_done() {
        } else if self.schedule.is_some() {
            self.set_free(index);
        } else if self.going {
            self.ask(index, self.connections[index].since_ns);
        }
    }

    fn refuse(&mut self, index: usize, kind: Kind) {
        self.tally.errors.count(kind);
        self.connections[index].close(self.now_ns + RETRY_NS);
    }
}
