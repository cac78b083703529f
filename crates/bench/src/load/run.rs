//! A run from its plan to its outcome: the threads and the moments they share.
//!
//! Owns when measuring begins and ends. Promises that measuring begins when all
//! connections are open (or given up) and the warm-up is over, and that the threads have ended
//! when it returns. Never touches a socket.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use super::connection::{Peer, Rules};
use super::worker::{Tally, Worker};
use super::{
    LoadOutcome, LoadPlan, Mode, Moment, PIPELINE_MAX, Target, Traffic, http, resp, system,
    websocket,
};

/// How often the calling thread looks whether it is time, or whether to stop.
const LOOK: Duration = Duration::from_millis(2);
/// Descriptors that are needed besides the connections.
const DESCRIPTORS_SPARE: u64 = 256;

/// What all threads of a run see. Times are in ns since `clock`.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    pub(super) peer: Peer,
    pub(super) rules: Rules,
    /// What is written once, before the first turn, and answered.
    pub(super) greeting: Option<Vec<u8>>,
    /// What is written for each turn.
    pub(super) request: Vec<u8>,
    /// How many answers it asks for.
    pub(super) answers: u32,
    pub(super) keep_alive: bool,
    pub(super) plan: &'a LoadPlan,
    pub(super) timeout_ns: u64,
    clock: Instant,
    /// Threads whose connections are open.
    ready: AtomicUsize,
    /// Far in the future until they are known.
    go_ns: AtomicU64,
    begin_ns: AtomicU64,
    end_ns: AtomicU64,
}

impl<'a> Shared<'a> {
    fn new(target: &Target, plan: &'a LoadPlan) -> io::Result<Self> {
        let mut greeting = None;
        let (rules, request, answers, keep_alive) = match &target.traffic {
            Traffic::Http { request, expect, keep_alive } => {
                let rules = Rules::Http(http::Rules::new(request, expect));
                (rules, request.clone(), 1, *keep_alive)
            }
            Traffic::Resp { command, pipeline } => {
                let request = resp::request(*command, *pipeline);
                (Rules::Resp(resp::Rules::new()), request, *pipeline, true)
            }
            Traffic::WebSocket { greeting: asked, text } => {
                greeting = Some(asked.clone());
                let rules = Rules::WebSocket(websocket::Rules::new(text));
                (rules, websocket::frame(text), 1, true)
            }
        };
        let never = || AtomicU64::new(u64::MAX);
        Ok(Self {
            peer: Peer::new(&target.address)?,
            rules,
            greeting,
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

    pub(super) fn now_ns(&self) -> u64 {
        nanoseconds(self.clock.elapsed())
    }

    pub(super) fn is_ready(&self) {
        self.ready.fetch_add(1, Ordering::Relaxed);
    }

    /// From when on requests are sent.
    pub(super) fn go_ns(&self) -> u64 {
        self.go_ns.load(Ordering::Relaxed)
    }

    pub(super) fn begin_ns(&self) -> u64 {
        self.begin_ns.load(Ordering::Relaxed)
    }

    pub(super) fn end_ns(&self) -> u64 {
        self.end_ns.load(Ordering::Relaxed)
    }

    /// Whether something at that time is in what is measured.
    pub(super) fn is_measured(&self, at_ns: u64) -> bool {
        at_ns >= self.begin_ns() && at_ns < self.end_ns()
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.plan.stop.load(Ordering::Relaxed)
    }

    /// Waits until that time; says whether there was something to stop for before.
    fn wait_until(&self, at_ns: u64, stop: impl Fn() -> bool) -> bool {
        loop {
            if stop() {
                return true;
            }
            match at_ns.checked_sub(self.now_ns()) {
                None | Some(0) => return false,
                Some(left) => thread::sleep(LOOK.min(Duration::from_nanos(left))),
            }
        }
    }
}

/// Loads the target and says what was found. Errors are the generator's own: a plan that cannot
/// be run, or descriptors that ran out; what the server does wrong is in the outcome.
pub fn run(target: &Target, plan: &LoadPlan) -> io::Result<LoadOutcome> {
    run_with(target, plan, |_| ())
}

/// Like [`run`], and tells the edges of what is measured, from the calling thread, so that the
/// server's CPU can be sampled there. Both are told, in order, however the run ends.
pub fn run_with(
    target: &Target,
    plan: &LoadPlan,
    mut at: impl FnMut(Moment),
) -> io::Result<LoadOutcome> {
    check(target, plan)?;
    system::allow_descriptors(plan.connections as u64 + DESCRIPTORS_SPARE)?;
    let shared = Shared::new(target, plan)?;
    let threads = plan.threads.clamp(1, plan.connections);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|index| {
                let shared = &shared;
                let share = share(plan.connections, threads, index);
                scope.spawn(move || Worker::new(shared, index, threads, share)?.run())
            })
            .collect();
        conduct(&shared, &workers, &mut at);
        let mut outcome = LoadOutcome::new();
        let (begin_ns, end_ns) = (shared.begin_ns(), shared.end_ns());
        outcome.elapsed = Duration::from_nanos(end_ns.saturating_sub(begin_ns));
        for worker in workers {
            let tally = worker.join().unwrap_or_else(|_| Err(io::Error::other("a thread died")))?;
            add(&mut outcome, &tally)?;
        }
        Ok(outcome)
    })
}

/// Leads the threads through the run, from their connections to its end.
fn conduct(
    shared: &Shared<'_>,
    workers: &[ScopedJoinHandle<'_, io::Result<Tally>>],
    at: &mut impl FnMut(Moment),
) {
    let plan = shared.plan;
    // A thread that ended before the end has failed; the others need not continue.
    let broken = || shared.is_stopped() || workers.iter().any(ScopedJoinHandle::is_finished);
    let ready = || shared.ready.load(Ordering::Relaxed) == workers.len();
    shared.wait_until(shared.timeout_ns.saturating_mul(2), || ready() || broken());
    let go_ns = shared.now_ns();
    shared.go_ns.store(go_ns, Ordering::Relaxed);
    shared.wait_until(go_ns + nanoseconds(plan.warm_up), broken);
    // What takes time in the calls is in neither or in both: they are made before each edge.
    at(Moment::Begin);
    let begin_ns = shared.now_ns();
    shared.begin_ns.store(begin_ns, Ordering::Relaxed);
    shared.wait_until(begin_ns + nanoseconds(plan.duration), broken);
    at(Moment::End);
    shared.end_ns.store(shared.now_ns(), Ordering::Relaxed);
}

fn check(target: &Target, plan: &LoadPlan) -> io::Result<()> {
    let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    if plan.connections == 0 {
        return refuse("a load needs a connection");
    }
    let mut pipeline = 1;
    match &target.traffic {
        Traffic::Http { request, .. } if request.is_empty() => return refuse("no request"),
        Traffic::Http { .. } | Traffic::WebSocket { .. } => {}
        Traffic::Resp { pipeline: commands, .. } => pipeline = *commands,
    }
    if !(1..=PIPELINE_MAX).contains(&pipeline) {
        return refuse(&format!("a pipeline has 1 to {PIPELINE_MAX} commands"));
    }
    match plan.mode {
        Mode::Open { rate } if !rate.is_finite() || rate <= 0.0 => refuse("a rate is above 0"),
        Mode::Open { .. } if pipeline > 1 => refuse("an open loop has no pipeline"),
        _ => Ok(()),
    }
}

/// How many of the connections are the thread's.
fn share(connections: usize, threads: usize, index: usize) -> usize {
    connections / threads + usize::from(index < connections % threads)
}

fn add(outcome: &mut LoadOutcome, tally: &Tally) -> io::Result<()> {
    outcome.requests += tally.requests;
    outcome.bytes += tally.bytes;
    outcome.reconnects += tally.reconnects;
    outcome.unsent += tally.unsent;
    outcome.client_cpu += tally.cpu;
    outcome.errors.add(&tally.errors);
    outcome.latency.add(&tally.latency).map_err(io::Error::other)
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    // Half of all there are, so that sums do not overflow.
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX / 4)
}
