//! One thread of the load generator: an epoll loop over its share of the connections.
//!
//! Owns its connections, its timer, the send times and the counts. Promises one read and one write
//! for a small response and its request, one clock read for both, no allocation once the
//! connections are open, that no request is due after the end, and that none is sent later than
//! [`LATE_SEND_NS`] after it. Writes no memory that other threads use.

use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use hdrhistogram::Histogram;

use super::connection::{Connection, ConnectionStage};
use super::http::FeedResult;
use super::run_state::RunState;
use super::schedule::{Schedule, TICK, TICK_NS};
use super::system::{Timer, thread_cpu};
use super::{BODY_COMPARED_ONE_IN, Errors, Kind, LoadOutcome, Mode, Sent};
use crate::epoll::{Epoll, Event};

/// The pause after a connection could not be opened.
const RETRY_NS: u64 = 10_000_000;
/// How long after the end an open loop sends requests that were due before it. A thread that was
/// not running at the end sends them late, which their latency shows.
const LATE_SEND_NS: u64 = 100_000_000;
const READ_BYTES: usize = 64 * 1024;

mod opening;
mod streams;

/// The results of one thread.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) requests: u64,
    pub(super) bytes: u64,
    pub(super) latency: Histogram<u64>,
    pub(super) errors: Errors,
    pub(super) reconnects: u64,
    pub(super) unsent: u64,
    pub(super) cpu: Duration,
}

pub(super) struct Worker<'a> {
    state: &'a RunState<'a>,
    epoll: Epoll,
    timer: Timer,
    connections: Vec<Connection>,
    /// The connection of each descriptor.
    by_fd: Vec<usize>,
    buffer: Vec<u8>,
    /// The same, decrypted.
    plain: Vec<u8>,
    schedule: Option<Schedule>,
    /// Requests may be sent.
    going: bool,
    /// Connections with a request outstanding.
    asking: usize,
    /// Requests sent so far, to find whose turn it is to be compared.
    asked: u32,
    /// When the clock was last checked.
    now_ns: u64,
    ticked_ns: u64,
    /// CPU time of this thread at both edges, once they were passed.
    cpu: (Option<Duration>, Option<Duration>),
    tally: Tally,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        state: &'a RunState<'a>,
        index: usize,
        threads: usize,
        connections: usize,
    ) -> io::Result<Self> {
        let schedule = match state.plan.mode {
            Mode::Closed => None,
            Mode::Open { rate } => Some(Schedule::new(rate, index, threads, connections)),
        };
        let latency = LoadOutcome::new().latency;
        let tally = Tally {
            requests: 0,
            bytes: 0,
            latency,
            errors: Errors::default(),
            reconnects: 0,
            unsent: 0,
            cpu: Duration::ZERO,
        };
        Ok(Self {
            state,
            epoll: Epoll::new()?,
            timer: Timer::new()?,
            connections: (0..connections).map(|_| Connection::new(&state.rules)).collect(),
            by_fd: Vec::new(),
            buffer: vec![0; READ_BYTES],
            plain: Vec::new(),
            schedule,
            going: false,
            asking: 0,
            asked: 0,
            now_ns: state.now_ns(),
            ticked_ns: 0,
            cpu: (None, None),
            tally,
        })
    }

    pub(super) fn run(mut self) -> io::Result<Tally> {
        self.epoll.add(&self.timer)?;
        self.open_all()?;
        self.state.is_ready();
        self.timer.set(TICK, TICK)?;
        loop {
            let count = self.epoll.wait()?;
            let ticked = self.take_events(count);
            if ticked || self.schedule.is_some() {
                self.now_ns = self.state.now_ns();
            }
            self.pass_edges();
            if ticked && self.now_ns >= self.ticked_ns + TICK_NS / 2 {
                self.ticked_ns = self.now_ns;
                self.tick();
                if self.is_over() {
                    return Ok(self.finish());
                }
            }
            self.send_what_is_due()?;
        }
    }

    /// Says whether the timer was among the events.
    fn take_events(&mut self, count: usize) -> bool {
        let mut ticked = false;
        for index in 0..count {
            let event = self.epoll.event(index);
            if event.fd == self.timer.as_raw_fd() {
                // The next due request sets it again.
                if self.schedule.is_none() || !self.going {
                    self.timer.clear();
                }
                ticked = true;
            } else if let Some(&connection) = self.by_fd.get(event.fd as usize) {
                self.handle(connection, event);
            }
        }
        ticked
    }

    /// Notes the CPU time of this thread when an edge of what is measured was passed.
    fn pass_edges(&mut self) {
        if self.cpu.0.is_none() && self.now_ns >= self.state.begin_ns() {
            self.cpu.0 = Some(thread_cpu());
        }
        if self.cpu.1.is_none() && self.now_ns >= self.state.end_ns() {
            self.cpu.1 = Some(thread_cpu());
        }
    }

    fn is_at_end(&self) -> bool {
        self.now_ns >= self.state.end_ns()
    }

    /// True if an open loop still sends requests that were due before the end.
    fn sends_late(&self) -> bool {
        let Some(schedule) = &self.schedule else { return false };
        let (go_ns, end_ns) = (self.state.go_ns(), self.state.end_ns());
        schedule.due_ns(go_ns) < end_ns && self.now_ns < end_ns.saturating_add(LATE_SEND_NS)
    }

    /// True if no further request is sent.
    fn is_done(&self) -> bool {
        self.is_at_end() && !self.sends_late()
    }

    fn is_over(&self) -> bool {
        let is_stopped = self.is_at_end() && self.state.is_stopped();
        is_stopped || (self.is_done() && self.asking == 0)
    }

    fn finish(mut self) -> Tally {
        if let (Some(begin), Some(end)) = self.cpu {
            self.tally.cpu = end.saturating_sub(begin);
        }
        if let Some(schedule) = &self.schedule {
            let (begin_ns, end_ns) = (self.state.begin_ns(), self.state.end_ns());
            self.tally.unsent = schedule.unsent(self.state.go_ns(), begin_ns, end_ns);
        }
        self.tally
    }

    /// Handles time-outs and retries, which have no event.
    fn tick(&mut self) {
        // An open loop has a timer for the first request: it begins on time.
        let ahead_ns = if self.schedule.is_some() { TICK_NS } else { 0 };
        let begins = !self.going && self.now_ns + ahead_ns >= self.state.go_ns();
        self.going |= begins;
        for index in 0..self.connections.len() {
            let connection = &self.connections[index];
            let waited_ns = self.now_ns.saturating_sub(connection.oldest_ns());
            let late = waited_ns > self.state.timeout_ns;
            match connection.stage {
                ConnectionStage::Requesting if late => self.fail(index, Kind::Timeout),
                ConnectionStage::Connecting | ConnectionStage::Handshaking if late => {
                    self.fail(index, Kind::Connect)
                }
                ConnectionStage::Closed { retry_ns } if retry_ns <= self.now_ns => {
                    self.again(index)
                }
                ConnectionStage::Idle if begins => self.again(index),
                _ => {}
            }
        }
    }

    /// Performs the next action of a connection.
    fn again(&mut self, index: usize) {
        if self.is_done() {
            return;
        }
        let closed = self.connections[index].stage != ConnectionStage::Idle;
        if closed && self.state.keep_alive {
            return self.open(index);
        }
        if !self.going || self.schedule.is_some() {
            return self.set_free(index);
        }
        self.ask(index, self.now_ns);
    }

    fn set_free(&mut self, index: usize) {
        if let Some(schedule) = &mut self.schedule
            && !std::mem::replace(&mut self.connections[index].listed, true)
        {
            schedule.free.push_back(index);
        }
    }

    /// Sends the request that is due since then, over a new connection if each has its own.
    fn ask(&mut self, index: usize, since_ns: u64) {
        let connection = &mut self.connections[index];
        let opened = connection.stage != ConnectionStage::Idle;
        if opened {
            let session = self.state.session();
            match session.and_then(|session| connection.open(&self.state.peer, session)) {
                Ok(fd) => note(&mut self.by_fd, fd, index),
                Err(_) => return self.fail(index, Kind::Connect),
            }
        }
        let turn = self.asked.is_multiple_of(BODY_COMPARED_ONE_IN);
        let request = self.state.request_after(self.asked);
        self.asked = self.asked.wrapping_add(1);
        self.asking += 1;
        connection.since_ns = since_ns;
        connection.asked_ns = self.now_ns;
        // A connection that is not there yet takes nothing: then its event sends the request.
        let compared = turn || self.state.plan.verify;
        let rules = &self.state.rules;
        let sent = connection.ask(rules, request, self.state.answers, compared);
        let watched = match sent {
            Ok(Sent::All) if !opened => Ok(()),
            Ok(sent) => connection.watch(&self.epoll, sent == Sent::Part),
            Err(error) => Err(error),
        };
        if let Err(error) = watched {
            self.fail(index, unsendable(&error));
        }
    }

    fn handle(&mut self, index: usize, event: Event) {
        let connection = &mut self.connections[index];
        match connection.stage {
            // An event of a socket that was closed since.
            ConnectionStage::Closed { .. } => return,
            ConnectionStage::Connecting => match connection.connected() {
                Ok(false) => return,
                Ok(true) => return self.connected(index),
                Err(_) => return self.fail(index, Kind::Connect),
            },
            ConnectionStage::Handshaking | ConnectionStage::Idle | ConnectionStage::Requesting => {}
        }
        let bytes = match (connection.stage, &self.state.greeting) {
            (ConnectionStage::Handshaking, Some(greeting)) => greeting,
            _ => &self.state.request,
        };
        if connection.has_unsent()
            && let Err(error) = connection.flush(bytes)
        {
            return self.fail(index, unsendable(&error));
        }
        self.receive(index, event.ended);
    }

    /// Reads what is there; `ended`: until the end of the connection, which may be behind it.
    fn receive(&mut self, index: usize, ended: bool) {
        loop {
            let connection = &mut self.connections[index];
            let count = match connection.read(&mut self.buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // Like an end, but one that makes no response whole.
                Err(_) if connection.stage == ConnectionStage::Requesting => {
                    return self.fail(index, Kind::Read);
                }
                Err(_) => 0,
            };
            let bytes = match connection.decrypt(&self.buffer[..count], &mut self.plain) {
                Ok(true) => &self.plain,
                Ok(false) => &self.buffer[..count],
                Err(_) => return self.fail(index, Kind::Handshake),
            };
            let is_http2 = connection.is_http2();
            let fed = match connection.stage {
                ConnectionStage::Requesting if count == 0 => connection.ended(&self.state.rules),
                ConnectionStage::Handshaking if self.state.greeting.is_some() => {
                    return self.greeted(index, count);
                }
                _ if count == 0 => return self.left(index),
                ConnectionStage::Handshaking if connection.is_securing() => {
                    FeedResult::More { right: 0 }
                }
                ConnectionStage::Handshaking => return self.opened(index),
                // Tickets of TLS, or a part of a record.
                _ if bytes.is_empty() => FeedResult::More { right: 0 },
                ConnectionStage::Requesting => connection.feed(&self.state.rules, bytes),
                // Settings and the like.
                ConnectionStage::Idle if is_http2 => connection.feed(&self.state.rules, bytes),
                _ => return self.fail(index, Kind::Framing),
            };
            if self.state.is_measured(self.now_ns) {
                self.tally.bytes += count as u64;
            }
            let reads_on =
                if is_http2 { self.take_streams(index, fed) } else { self.take(index, fed) };
            if !reads_on || (count < self.buffer.len() && !ended) {
                return;
            }
        }
    }

    /// Counts the result; returns false if the connection cannot be read further.
    fn take(&mut self, index: usize, fed: FeedResult) -> bool {
        match fed {
            FeedResult::More { right: 0 } => true,
            FeedResult::More { right } => {
                self.record(index, right);
                true
            }
            FeedResult::Last { right, wrong, close } => {
                let expected = self.connections[index].is_secured_as_expected();
                let (right, wrong) =
                    if expected { (right, wrong) } else { (0, Some(Kind::Handshake)) };
                self.record(index, right);
                if let Some(kind) = wrong {
                    self.tally.errors.count(kind);
                }
                self.answered(index, close)
            }
            FeedResult::Broken { right, kind } => {
                self.record(index, right);
                self.fail(index, kind);
                false
            }
        }
    }

    /// Reads the clock once for a response: the next request is due at the same moment.
    fn record(&mut self, index: usize, right: u32) {
        self.now_ns = self.state.now_ns();
        let since_ns = self.connections[index].since_ns;
        let counts_ns = if self.schedule.is_some() { since_ns } else { self.now_ns };
        if right > 0 && self.state.is_measured(counts_ns) {
            let latency_ns = self.now_ns.saturating_sub(since_ns);
            self.tally.requests += u64::from(right);
            self.tally.latency.saturating_record_n(latency_ns, u64::from(right));
        }
    }

    /// All responses have arrived: sends the next requests. Returns false if the connection must be
    /// replaced.
    fn answered(&mut self, index: usize, close: bool) -> bool {
        self.asking -= 1;
        let connection = &mut self.connections[index];
        let kept = self.state.keep_alive && !close;
        if kept {
            connection.stage = ConnectionStage::Idle;
        } else {
            self.tally.reconnects += u64::from(self.state.keep_alive);
            connection.close(self.now_ns);
        }
        self.again(index);
        kept
    }

    /// The server closed an idle connection, as it may.
    fn left(&mut self, index: usize) {
        self.tally.reconnects += 1;
        self.connections[index].close(self.now_ns);
        self.again(index);
    }

    /// Counts an error and gives the connection up; a new one is made at once, or a little
    /// later if it was connecting that failed.
    fn fail(&mut self, index: usize, kind: Kind) {
        self.tally.errors.count(kind);
        let connection = &mut self.connections[index];
        self.asking -= usize::from(connection.stage == ConnectionStage::Requesting);
        match kind {
            Kind::Connect | Kind::Write | Kind::Handshake => {
                connection.close(self.now_ns + RETRY_NS)
            }
            _ => {
                connection.close(self.now_ns);
                self.again(index);
            }
        }
    }

    /// Open loop: sends every request that is due, as far as there are free connections, and
    /// sets the timer for the next.
    fn send_what_is_due(&mut self) -> io::Result<()> {
        let go_ns = self.state.go_ns();
        if !self.going {
            return Ok(());
        }
        loop {
            let is_done = self.is_done();
            let Some(schedule) = &mut self.schedule else { return Ok(()) };
            let due_ns = schedule.due_ns(go_ns);
            let waits = is_done || due_ns > self.now_ns;
            let Some(index) = (if waits { None } else { schedule.free.pop_front() }) else {
                // At the end, and without a free connection, responses are still in flight.
                let next_ns = if waits && !is_done { due_ns } else { u64::MAX };
                return schedule.arm(&self.timer, self.now_ns, next_ns);
            };
            self.connections[index].listed = false;
            let usable = match self.connections[index].stage {
                ConnectionStage::Idle => true,
                ConnectionStage::Closed { .. } => !self.state.keep_alive,
                ConnectionStage::Connecting
                | ConnectionStage::Handshaking
                | ConnectionStage::Requesting => false,
            };
            if usable {
                schedule.sent += 1;
                self.ask(index, due_ns);
            }
        }
    }
}

fn note(by_fd: &mut Vec<usize>, fd: RawFd, index: usize) {
    let fd = fd as usize;
    if by_fd.len() <= fd {
        by_fd.resize(fd + 1, usize::MAX);
    }
    by_fd[fd] = index;
}

/// A request is sent before connecting was seen to succeed: its error may be that of connecting.
fn unsendable(error: &io::Error) -> Kind {
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::TimedOut | ErrorKind::HostUnreachable => {
            Kind::Connect
        }
        _ => Kind::Write,
    }
}
