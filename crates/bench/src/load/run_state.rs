//! The state that the threads of a run share: what they send, and the times of the run's phases.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::connection::{Peer, Rules};
use super::tls::Session;
use super::{Address, LoadPlan, Target, Tls, Traffic, http, http2, numbered, resp, websocket};

/// Interval at which the calling thread checks the time and the stop flag.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The state shared by all threads. Times are in ns since `clock`.
#[derive(Debug)]
pub(super) struct RunState<'a> {
    pub(super) peer: Peer,
    tls: Option<(&'a Tls, &'a Address)>,
    pub(super) rules: Rules,
    /// Sent once per connection before the first request; its response is awaited.
    pub(super) greeting: Option<Vec<u8>>,
    /// The bytes of a request.
    pub(super) request: Vec<u8>,
    /// The bytes of requests for different documents, all of the same length; empty if there is
    /// one.
    documents: Vec<Vec<u8>>,
    /// The number of responses per request.
    pub(super) answers: u32,
    pub(super) keep_alive: bool,
    pub(super) plan: &'a LoadPlan,
    pub(super) timeout_ns: u64,
    clock: Instant,
    /// Threads whose connections are open.
    pub(super) ready: AtomicUsize,
    /// Far in the future until they are known.
    pub(super) go_ns: AtomicU64,
    pub(super) begin_ns: AtomicU64,
    pub(super) end_ns: AtomicU64,
}

impl<'a> RunState<'a> {
    pub(super) fn new(target: &'a Target, plan: &'a LoadPlan) -> io::Result<Self> {
        let mut greeting = None;
        let (rules, request, answers, keep_alive) = match &target.traffic {
            Traffic::Http { request, expect, keep_alive } => {
                let rules = Rules::Http(http::Rules::new(request, expect));
                (rules, request.clone(), 1, *keep_alive)
            }
            Traffic::Http2 { authority, path, call, streams, expect } => {
                let rules = Rules::Http2(http2::Rules {
                    http: http::Rules::new(&[], expect),
                    authority: authority.clone().into_bytes(),
                    path: path.clone().into_bytes(),
                    call: call.clone(),
                    trailers: expect.trailers.clone(),
                    streams: *streams,
                    verify: plan.verify,
                });
                (rules, Vec::new(), 1, true)
            }
            Traffic::Resp { command, pipeline } => {
                let request = resp::request(*command, *pipeline);
                (Rules::Resp(resp::Rules::new()), request, *pipeline, true)
            }
            Traffic::WebSocket { greeting: bytes, text } => {
                greeting = Some(bytes.clone());
                let rules = Rules::WebSocket(websocket::Rules::new(text));
                (rules, websocket::frame(text), 1, true)
            }
        };
        let never = || AtomicU64::new(u64::MAX);
        Ok(Self {
            peer: Peer::new(&target.address)?,
            tls: target.tls.as_deref().map(|tls| (tls, &target.address)),
            rules,
            greeting,
            documents: match plan.documents {
                0 | 1 => Vec::new(),
                count => (0..count).map(|number| numbered(&request, number)).collect(),
            },
            request,
            answers,
            keep_alive,
            plan,
            timeout_ns: nanoseconds(plan.timeout),
            clock: Instant::now(),
            ready: AtomicUsize::new(0),
            go_ns: never(),
            begin_ns: never(),
            end_ns: never(),
        })
    }

    /// The bytes of the request that is sent after so many others.
    pub(super) fn request_after(&self, others: u32) -> &[u8] {
        match self.documents.len() {
            0 => &self.request,
            count => &self.documents[others as usize % count],
        }
    }

    /// The TLS session of a new connection, if it has one.
    pub(super) fn session(&self) -> io::Result<Option<Session>> {
        self.tls.map(|(tls, address)| tls.session(address)).transpose()
    }

    pub(super) fn now_ns(&self) -> u64 {
        nanoseconds(self.clock.elapsed())
    }

    pub(super) fn is_ready(&self) {
        self.ready.fetch_add(1, Ordering::Relaxed);
    }

    /// When the first requests are sent.
    pub(super) fn go_ns(&self) -> u64 {
        self.go_ns.load(Ordering::Relaxed)
    }

    pub(super) fn begin_ns(&self) -> u64 {
        self.begin_ns.load(Ordering::Relaxed)
    }

    pub(super) fn end_ns(&self) -> u64 {
        self.end_ns.load(Ordering::Relaxed)
    }

    /// True if a time is in the measured period.
    pub(super) fn is_measured(&self, at_ns: u64) -> bool {
        at_ns >= self.begin_ns() && at_ns < self.end_ns()
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.plan.stop.load(Ordering::Relaxed)
    }

    /// Waits until a time; returns true if `stop` ended the wait.
    pub(super) fn wait_until(&self, at_ns: u64, stop: impl Fn() -> bool) -> bool {
        loop {
            if stop() {
                return true;
            }
            match at_ns.checked_sub(self.now_ns()) {
                None | Some(0) => return false,
                Some(left) => thread::sleep(POLL_INTERVAL.min(Duration::from_nanos(left))),
            }
        }
    }
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    // Bounded, so that sums do not overflow.
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX / 4)
}
