//! A load run from its plan to its result.
//!
//! Owns the start and the end of the measured period. Promises that it begins when all connections
//! are open (or have failed) and the warm-up is over, and that all threads have ended on return.
//! Does not use sockets.

use std::io;
use std::sync::atomic::Ordering;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use super::run_state::{RunState, nanoseconds};
use super::schedule::TICK_NS;
use super::worker::{Tally, Worker};
use super::{
    LoadOutcome, LoadPlan, Mode, Moment, PIPELINE_MAX, STREAMS_MAX, Target, Traffic, system,
};

/// Descriptors that are needed besides the connections.
const DESCRIPTORS_SPARE: u64 = 256;

/// Loads the target and returns the result. Errors are the generator's own: a plan that cannot
/// be run, or missing descriptors; errors of the server are in the result.
pub fn run(target: &Target, plan: &LoadPlan) -> io::Result<LoadOutcome> {
    run_with(target, plan, |_| ())
}

/// Like [`run`], and calls `at` at the start and the end of the measured time, so that the
/// server's CPU can be sampled there. Both calls happen, in order, however the run ends.
pub fn run_with(
    target: &Target,
    plan: &LoadPlan,
    mut at: impl FnMut(Moment),
) -> io::Result<LoadOutcome> {
    check(target, plan)?;
    system::allow_descriptors(plan.connections as u64 + DESCRIPTORS_SPARE)?;
    let state = RunState::new(target, plan)?;
    let threads = plan.threads.clamp(1, plan.connections);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|index| {
                let state = &state;
                let share = share(plan.connections, threads, index);
                scope.spawn(move || Worker::new(state, index, threads, share)?.run())
            })
            .collect();
        conduct(&state, &workers, &mut at);
        let mut outcome = LoadOutcome::new();
        let (begin_ns, end_ns) = (state.begin_ns(), state.end_ns());
        outcome.elapsed = Duration::from_nanos(end_ns.saturating_sub(begin_ns));
        for worker in workers {
            let tally = worker.join().unwrap_or_else(|_| Err(io::Error::other("a thread died")))?;
            add(&mut outcome, &tally)?;
        }
        Ok(outcome)
    })
}

/// Controls the phases of the run.
fn conduct(
    state: &RunState<'_>,
    workers: &[ScopedJoinHandle<'_, io::Result<Tally>>],
    at: &mut impl FnMut(Moment),
) {
    let plan = state.plan;
    // A thread that ended before the end has failed; the others need not continue.
    let broken = || state.is_stopped() || workers.iter().any(ScopedJoinHandle::is_finished);
    let ready = || state.ready.load(Ordering::Relaxed) == workers.len();
    state.wait_until(state.timeout_ns.saturating_mul(2), || ready() || broken());
    // Every thread learns of it before it comes.
    let go_ns = state.now_ns() + 2 * TICK_NS;
    state.go_ns.store(go_ns, Ordering::Relaxed);
    state.wait_until(go_ns + nanoseconds(plan.warm_up), broken);
    // What takes time in the calls is in neither or in both: they are made before each edge.
    at(Moment::Begin);
    let begin_ns = state.now_ns();
    state.begin_ns.store(begin_ns, Ordering::Relaxed);
    state.wait_until(begin_ns + nanoseconds(plan.duration), broken);
    at(Moment::End);
    state.end_ns.store(state.now_ns(), Ordering::Relaxed);
}

fn check(target: &Target, plan: &LoadPlan) -> io::Result<()> {
    let refuse = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    if plan.connections == 0 {
        return refuse("a load needs a connection");
    }
    let mut pipeline = 1;
    match &target.traffic {
        Traffic::Http { request, .. } if request.is_empty() => return refuse("no request"),
        Traffic::Http2 { streams, .. } if !(1..=STREAMS_MAX).contains(streams) => {
            return refuse(&format!("a connection has 1 to {STREAMS_MAX} streams"));
        }
        Traffic::Http2 { .. } if plan.mode != Mode::Closed => {
            return refuse("an open loop has no streams");
        }
        Traffic::Http { .. } | Traffic::Http2 { .. } | Traffic::WebSocket { .. } => {}
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

/// The number of connections of a thread.
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
