//! A client that waits for each response: checks before a load, and connections that then idle.
//!
//! Promises to check every byte as under load, an end at the deadline, and that the connections
//! stay open until the client is dropped. One connection is opened and asked after the other, so
//! that the server never needs memory for several requests.

use std::io;
use std::time::{Duration, Instant};

use super::connection::Connection;
use super::http::FeedResult;
use super::run_state::RunState;
use super::{Errors, Handshakes, Kind, LoadPlan, Target};

const READ_BYTES: usize = 64 * 1024;

pub(crate) struct BlockingClient<'a> {
    state: RunState<'a>,
    open: Vec<Connection>,
    buffer: Vec<u8>,
    plain: Vec<u8>,
}

impl<'a> BlockingClient<'a> {
    pub(crate) fn new(target: &'a Target, plan: &'a LoadPlan) -> io::Result<Self> {
        let (open, buffer, plain) = (Vec::new(), vec![0; READ_BYTES], Vec::new());
        Ok(Self { state: RunState::new(target, plan)?, open, buffer, plain })
    }

    /// Opens connections until there are `count`, of which so many at most come from the same
    /// address; each has had one response.
    pub(crate) fn grow(
        &mut self,
        count: usize,
        of_an_address: usize,
        deadline: Instant,
    ) -> io::Result<()> {
        while self.open.len() < count {
            let address = self.open.len() / of_an_address;
            if address > 0 && self.open.len().is_multiple_of(of_an_address) {
                let number = u8::try_from(address).map_err(io::Error::other)?;
                self.state.peer.connect_from(number);
            }
            let connection = self.asked(1, deadline)?;
            self.open.push(connection);
        }
        Ok(())
    }

    /// A new connection that had so many correct responses.
    fn asked(&mut self, times: u32, deadline: Instant) -> io::Result<Connection> {
        let mut connection = Connection::new(&self.state.rules);
        connection.open(&self.state.peer, self.state.session()?)?;
        connection.block(left_until(deadline)?)?;
        if connection.is_securing() {
            connection.secure()?;
            while connection.is_securing() {
                self.receive(&mut connection, deadline)?;
            }
        }
        for _ in 0..times {
            connection.ask(&self.state.rules, &self.state.request, self.state.answers, true)?;
            self.finish(&mut connection, deadline)?;
        }
        Ok(connection)
    }

    /// Waits for the rest of a response.
    fn finish(&mut self, connection: &mut Connection, deadline: Instant) -> io::Result<()> {
        loop {
            let count = self.receive(connection, deadline)?;
            let rules = &self.state.rules;
            let fed = match count {
                0 => connection.ended(rules),
                _ if self.plain.is_empty() => continue,
                _ => connection.feed(rules, &self.plain),
            };
            // Sends the protocol's own replies.
            connection.flush(&[])?;
            match fed {
                FeedResult::More { .. } => {}
                FeedResult::Last { wrong: None, .. } => return Ok(()),
                FeedResult::Last { wrong: Some(kind), .. } | FeedResult::Broken { kind, .. } => {
                    return Err(wrong(kind));
                }
            }
        }
    }

    /// Reads once: how many bytes there were. What they are above TLS is in `plain`.
    fn receive(&mut self, connection: &mut Connection, deadline: Instant) -> io::Result<usize> {
        connection.block(left_until(deadline)?)?;
        let count = connection.read(&mut self.buffer)?;
        let bytes = &self.buffer[..count];
        if !connection.decrypt(bytes, &mut self.plain)? {
            self.plain.clear();
            self.plain.extend_from_slice(bytes);
        }
        if count == 0 && connection.is_securing() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(count)
    }
}

/// Sends two requests, on one connection if the load reuses connections; the error is half a
/// sentence.
pub(crate) fn check(target: &Target, deadline: Instant) -> Result<(), String> {
    let plan = LoadPlan { verify: true, ..LoadPlan::default() };
    let asked = || -> io::Result<()> {
        let mut client = BlockingClient::new(target, &plan)?;
        let times = if client.state.keep_alive { 2 } else { 1 };
        if target.tls.as_ref().is_some_and(|tls| tls.handshakes() == Handshakes::Resumed) {
            // The second request uses its session tickets.
            client.asked(1, deadline)?;
        }
        match client.asked(times, deadline)?.is_secured_as_expected() {
            true => Ok(()),
            false => Err(wrong(Kind::Handshake)),
        }
    };
    asked().map_err(|why| format!("does not answer rightly: {why}"))
}

fn wrong(kind: Kind) -> io::Error {
    let mut errors = Errors::default();
    errors.count(kind);
    let names = errors.by_kind().into_iter().find(|(_, count)| *count > 0);
    io::Error::other(format!("wrong {}", names.map_or("answer", |(name, _)| name)))
}

/// The remaining time; never zero, which would mean without end.
fn left_until(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}
