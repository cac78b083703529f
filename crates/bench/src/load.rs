//! The load generator: sends requests over many connections and checks and times the responses.
//!
//! Owns the requests ([`Target`]), the load ([`LoadPlan`]) and the result ([`LoadOutcome`]).
//! Promises that status, length and framing of every response are checked; that a wrong response is
//! an error and not a request; that latency counts from the time a request was due, not from when
//! it could be sent; and that a run ends within warm-up + duration + time-out (twice that for
//! connecting) + a fifth of a second whatever the server does. Never allocates for a request, and
//! never opens more connections than planned.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use hdrhistogram::Histogram;

mod blocking;
mod connection;
mod http;
mod http2;
mod resp;
mod run;
mod run_state;
mod schedule;
mod system;
mod tls;
pub mod tools;
mod websocket;
mod worker;

pub(crate) use blocking::{BlockingClient, check};
pub(crate) use http2::GRPC_TYPE;
pub use http2::Unsent;
pub(crate) use resp::request as pings;
pub use run::{run, run_with};
pub(crate) use system::allow_descriptors;
pub(crate) use tls::SERVER_NAME;
pub use tls::{Handshakes, Tls};
pub(crate) use websocket::{answers, frame, greeting};

/// One in this many bodies is compared byte by byte, unless the plan compares all.
pub const BODY_COMPARED_ONE_IN: u32 = 16;
/// The longest latency a histogram can hold; a longer one is recorded as this.
pub const LATENCY_MAX: Duration = Duration::from_secs(120);
/// Significant digits of a recorded latency.
const LATENCY_DIGITS: u8 = 3;
/// The maximum number of streams of one HTTP/2 connection: more than servers allow.
pub const STREAMS_MAX: u32 = 1024;
/// The maximum number of outstanding responses on one RESP connection.
pub const PIPELINE_MAX: u32 = 1024;

/// The result of sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    All,
    /// The rest is sent when the socket is writable.
    Part,
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// The target of a load and its requests.
#[derive(Clone, Debug)]
pub struct Target {
    pub address: Address,
    /// Not for WebSocket and HTTP/2.
    pub tls: Option<Arc<Tls>>,
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
    /// The same request on every stream of a connection, over HTTP/2 by prior knowledge.
    Http2 {
        authority: String,
        path: String,
        /// The gRPC call; without it the request is a GET.
        call: Option<Call>,
        /// Requests outstanding on a connection.
        streams: u32,
        expect: Expect,
    },
    /// `PING`, with the response `+PONG`.
    Resp {
        command: Command,
        /// Number of commands in one write; their responses precede the next write.
        pipeline: u32,
    },
    /// A text that the server echoes; one is outstanding on each connection.
    WebSocket {
        /// The request that asks for a WebSocket, from `greeting`.
        greeting: Vec<u8>,
        text: Vec<u8>,
    },
}

/// A gRPC call with one message.
#[derive(Clone, Debug)]
pub struct Call {
    /// The message with its prefix.
    pub content: Bytes,
    /// The stream stays open on both sides: its response has arrived when its message has.
    pub holds: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// `PING` and a line end.
    Inline,
    /// An array of one bulk string.
    MultiBulk,
}

/// The properties of a correct response.
#[derive(Clone, Debug, Default)]
pub struct Expect {
    pub status: u16,
    /// Length of the body; `None`: any, as long as the framing holds.
    pub length: Option<u64>,
    /// Compared on one response in [`BODY_COMPARED_ONE_IN`], on all under `verify`.
    pub body: Option<Arc<[u8]>>,
    /// Fields that must have exactly this value (names in any case); checked on the
    /// same responses as the body.
    pub headers: Vec<(String, String)>,
    /// The same for the trailers of HTTP/2, of which every response is checked.
    pub trailers: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Mode {
    /// Each connection sends the next request as soon as it has the response.
    Closed,
    /// This number of requests per second over all connections, evenly spaced, whether or not the
    /// server keeps up. Not for pipelined traffic.
    Open { rate: f64 },
}

/// The load on a target.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    pub connections: usize,
    /// Threads that share the connections; never more than there are connections.
    pub threads: usize,
    /// The measured time, after the warm-up.
    pub duration: Duration,
    /// Load before the measured time: checked, but counted only in the errors.
    pub warm_up: Duration,
    /// An response that takes longer is an error, and its connection is given up.
    pub timeout: Duration,
    pub mode: Mode,
    /// Compare every body and the expected fields of every response.
    pub verify: bool,
    /// Requests that differ in the number behind [`NUMBER`], in turn; 1: all are the same.
    pub documents: u32,
    /// Set it to end the run early with the results so far.
    pub stop: Arc<AtomicBool>,
}

/// The number of a request that has one, in the text of the first.
pub const NUMBER: &str = "000000";

/// The request for a document by its number.
pub(crate) fn numbered(request: &[u8], number: u32) -> Vec<u8> {
    let mut request = request.to_vec();
    let width = NUMBER.len();
    let at = request.windows(width).position(|digits| digits == NUMBER.as_bytes());
    if let Some(at) = at {
        let text = format!("{number:0width$}");
        request.splice(at..at + width, text.bytes());
    }
    request
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
            documents: 1,
            stop: Arc::default(),
        }
    }
}

/// The start and the end of the measured time, passed to the caller of [`run_with`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// All connections are open and the warm-up is over: responses count from here on.
    Begin,
    /// Responses from here on do not count.
    End,
}

/// Errors by kind. One wrong response is one error: the first that was found in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors {
    /// No connection.
    pub connect: u64,
    /// The connection ended or broke before the response was whole.
    pub read: u64,
    /// The request could not be sent.
    pub write: u64,
    /// No whole response within the time-out.
    pub timeout: u64,
    /// TLS failed, or its handshake was not of the kind that is measured.
    pub handshake: u64,
    /// Another status, `-ERR` in RESP, or a close frame.
    pub status: u64,
    /// Another length than expected.
    pub length: u64,
    /// Not HTTP, RESP or WebSocket, contradictory lengths, or bytes that belong to no response.
    pub framing: u64,
    /// A field or trailer that was expected is missing or different.
    pub header: u64,
    /// Another body than expected.
    pub body: u64,
}

/// The result of a load run.
#[derive(Clone, Debug)]
pub struct LoadOutcome {
    /// Correct responses. Closed loop: received in the measured time. Open loop: to requests that
    /// were due in it.
    pub requests: u64,
    /// Bytes received while it was measured, heads included.
    pub bytes: u64,
    /// The measured time.
    pub elapsed: Duration,
    /// In nanoseconds, of the correct responses. A pipelined response counts from the write
    /// of its batch.
    pub latency: Histogram<u64>,
    pub errors: Errors,
    /// CPU time of the generator's threads while it was measured.
    pub client_cpu: Duration,
    /// Connections that were opened again because the server announced their end.
    pub reconnects: u64,
    /// Open loop: requests that were due while it was measured and found no free connection until
    /// shortly after its end. Not 0: the rate was not reached, and the latencies say too little.
    pub unsent: u64,
}

/// The kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Connect,
    Read,
    Write,
    Timeout,
    Handshake,
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
            Kind::Handshake => &mut self.handshake,
            Kind::Status => &mut self.status,
            Kind::Length => &mut self.length,
            Kind::Framing => &mut self.framing,
            Kind::Header => &mut self.header,
            Kind::Body => &mut self.body,
        } += 1;
    }

    /// Every kind by its name.
    pub fn by_kind(&self) -> [(&'static str, u64); 10] {
        [
            ("connect", self.connect),
            ("read", self.read),
            ("write", self.write),
            ("timeout", self.timeout),
            ("handshake", self.handshake),
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
        self.handshake += other.handshake;
        self.status += other.status;
        self.length += other.length;
        self.framing += other.framing;
        self.header += other.header;
        self.body += other.body;
    }
}

impl LoadOutcome {
    /// A result without requests.
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

    /// Correct responses per second; 0 without a measured time.
    pub fn per_second(&self) -> f64 {
        match self.elapsed.as_secs_f64() {
            0.0 => 0.0,
            seconds => self.requests as f64 / seconds,
        }
    }

    /// The latency at a percentile.
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
