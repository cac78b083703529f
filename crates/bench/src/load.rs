//! The load generator: asks a server over many connections and says what came back, and when.
//!
//! Owns what is asked ([`Target`]), how hard ([`LoadPlan`]) and what was found ([`LoadOutcome`]).
//! Promises that status, length and framing of every answer are checked, that an answer which is
//! wrong in any of them is an error and not a request, that latency counts from the moment a
//! request was due and not from when there was room to send it, and that a run ends within
//! warm-up + duration + time-out (twice that for connecting) whatever the server does.
//! Never allocates for a request, never sends a request that it was not given, and never opens
//! more connections than it was told.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use hdrhistogram::Histogram;

mod connection;
mod http;
mod resp;
mod run;
mod run_state;
mod schedule;
mod system;
pub mod tools;
mod websocket;
mod worker;

pub(crate) use resp::request as pings;
pub use run::{run, run_with};
pub(crate) use system::allow_descriptors;
pub(crate) use websocket::{answers, frame, greeting};

/// The body of one answer in so many is compared byte by byte, unless the plan says all.
pub const BODY_COMPARED_ONE_IN: u32 = 16;
/// The longest latency a histogram can hold; a longer one is recorded as this.
pub const LATENCY_MAX: Duration = Duration::from_secs(120);
/// Significant digits of a recorded latency.
const LATENCY_DIGITS: u8 = 3;
/// The most answers that may be outstanding on one RESP connection.
pub const PIPELINE_MAX: u32 = 1024;

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// The target of a load and its requests.
#[derive(Clone, Debug)]
pub struct Target {
    pub address: Address,
    pub traffic: Traffic,
}

#[derive(Clone, Debug)]
pub enum Traffic {
    /// The same request over and over, one outstanding on each connection.
    Http {
        /// The whole request as it is sent, body included.
        request: Vec<u8>,
        expect: Expect,
        /// False: a connection for each request (the request should say `Connection: close`);
        /// its latency then includes connecting.
        keep_alive: bool,
    },
    /// `PING`, answered by `+PONG`.
    Resp {
        command: Command,
        /// How many commands are sent in one write and answered before the next.
        pipeline: u32,
    },
    /// A text, said back by the server; one outstanding on each connection.
    WebSocket {
        /// The request that asks for a WebSocket, from `greeting`.
        greeting: Vec<u8>,
        text: Vec<u8>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// `PING` and a line end.
    Inline,
    /// An array of one bulk string.
    MultiBulk,
}

/// What a right answer looks like.
#[derive(Clone, Debug, Default)]
pub struct Expect {
    pub status: u16,
    /// Length of the body; `None`: any, as long as the framing holds.
    pub length: Option<u64>,
    /// Compared on one answer in [`BODY_COMPARED_ONE_IN`], on all under `verify`.
    pub body: Option<Arc<[u8]>>,
    /// Fields that must be there with exactly this value (names in any case); looked at on the
    /// same answers as the body.
    pub headers: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// Each connection asks again as soon as it was answered.
    Closed,
    /// So many requests a second over all connections, evenly spaced, whether or not the server
    /// keeps up. Not for pipelined traffic.
    Open { rate: f64 },
}

/// How a target is loaded.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    pub connections: usize,
    /// Threads that share the connections; never more than there are connections.
    pub threads: usize,
    /// What is measured, after the warm-up.
    pub duration: Duration,
    /// Load before that, checked like the rest but in no figure except the errors.
    pub warm_up: Duration,
    /// An answer that takes longer is an error, and its connection is given up.
    pub timeout: Duration,
    pub mode: Mode,
    /// Compare every body and the expected fields of every answer.
    pub verify: bool,
    /// Set it to end the run early; what was measured until then is the outcome.
    pub stop: Arc<AtomicBool>,
}

impl Default for LoadPlan {
    fn default() -> Self {
        Self {
            connections: 100,
            threads: 1,
            duration: Duration::from_secs(1),
            warm_up: Duration::ZERO,
            timeout: Duration::from_secs(2),
            mode: Mode::Closed,
            verify: false,
            stop: Arc::default(),
        }
    }
}

/// The edges of what is measured, told to the caller of [`run_with`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// All connections are open, the warm-up is over: what is answered from now on counts.
    Begin,
    /// What is answered from now on does not count.
    End,
}

/// What went wrong, by kind. One wrong answer is one error: the first that was seen of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    /// No connection.
    pub connect: u64,
    /// The connection ended or broke before the answer was whole.
    pub read: u64,
    /// The request could not be sent.
    pub write: u64,
    /// No whole answer within the time-out.
    pub timeout: u64,
    /// Another status, `-ERR` in RESP, or a close frame.
    pub status: u64,
    /// Another length than expected.
    pub length: u64,
    /// Not HTTP, RESP or WebSocket, contradictory lengths, or bytes that belong to no answer.
    pub framing: u64,
    /// A field that was expected is missing or different.
    pub header: u64,
    /// Another body than expected.
    pub body: u64,
}

/// What a run found.
#[derive(Clone, Debug)]
pub struct LoadOutcome {
    /// Right answers. Closed: those that came while it was measured. Open: to requests that were
    /// due then.
    pub requests: u64,
    /// Bytes received while it was measured, heads included.
    pub bytes: u64,
    /// How long it was measured.
    pub elapsed: Duration,
    /// In nanoseconds, of the right answers. A pipelined answer counts from the write
    /// of its batch.
    pub latency: Histogram<u64>,
    pub errors: Errors,
    /// CPU time of the generator's threads while it was measured.
    pub client_cpu: Duration,
    /// Connections that were opened again because the server announced their end.
    pub reconnects: u64,
    /// Open loop: requests that were due while it was measured and found no free connection. Not
    /// 0: the rate was not reached, and the latencies say too little.
    pub unsent: u64,
}

/// One way to be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Connect,
    Read,
    Write,
    Timeout,
    Status,
    Length,
    Framing,
    Header,
    Body,
}

impl Errors {
    fn count(&mut self, kind: Kind) {
        *match kind {
            Kind::Connect => &mut self.connect,
            Kind::Read => &mut self.read,
            Kind::Write => &mut self.write,
            Kind::Timeout => &mut self.timeout,
            Kind::Status => &mut self.status,
            Kind::Length => &mut self.length,
            Kind::Framing => &mut self.framing,
            Kind::Header => &mut self.header,
            Kind::Body => &mut self.body,
        } += 1;
    }

    /// Every kind by its name.
    pub fn by_kind(&self) -> [(&'static str, u64); 9] {
        [
            ("connect", self.connect),
            ("read", self.read),
            ("write", self.write),
            ("timeout", self.timeout),
            ("status", self.status),
            ("length", self.length),
            ("framing", self.framing),
            ("header", self.header),
            ("body", self.body),
        ]
    }

    pub fn total(&self) -> u64 {
        self.by_kind().iter().map(|(_, count)| count).sum()
    }

    pub fn add(&mut self, other: &Errors) {
        self.connect += other.connect;
        self.read += other.read;
        self.write += other.write;
        self.timeout += other.timeout;
        self.status += other.status;
        self.length += other.length;
        self.framing += other.framing;
        self.header += other.header;
        self.body += other.body;
    }
}

impl LoadOutcome {
    /// Nothing found in no time.
    pub fn new() -> Self {
        let longest_ns = LATENCY_MAX.as_nanos() as u64;
        let latency = Histogram::new_with_bounds(1, longest_ns, LATENCY_DIGITS)
            .expect("the bounds are constants that the histogram takes");
        Self {
            requests: 0,
            bytes: 0,
            elapsed: Duration::ZERO,
            latency,
            errors: Errors::default(),
            client_cpu: Duration::ZERO,
            reconnects: 0,
            unsent: 0,
        }
    }

    /// Right answers a second; 0 when nothing was measured.
    pub fn per_second(&self) -> f64 {
        match self.elapsed.as_secs_f64() {
            0.0 => 0.0,
            seconds => self.requests as f64 / seconds,
        }
    }

    /// The latency that so many of a hundred answers did not exceed.
    pub fn latency_ms(&self, percentile: f64) -> f64 {
        self.latency.value_at_percentile(percentile) as f64 / 1e6
    }
}

impl Default for LoadOutcome {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests;
