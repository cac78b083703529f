//! Open loop: latencies count from the time a request was due.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Act, END, PATIENCE, PONG, Scripted, load_with, plan, pong, target, until};
use crate::load::{Errors, LoadOutcome, LoadPlan, Mode, Moment, Target, Traffic, run, run_with};

fn at_rate(rate: f64) -> LoadPlan {
    let mode = Mode::Open { rate };
    LoadPlan { duration: Duration::from_millis(500), mode, ..plan() }
}

/// Runs until the server sets `stop`, however long that takes on a busy machine.
fn until_stopped(rate: f64, stop: &Arc<AtomicBool>) -> LoadPlan {
    LoadPlan { duration: Duration::from_secs(60), stop: stop.clone(), ..at_rate(rate) }
}

/// Every request that was due is counted, except that each connection may have one in flight when
/// the measurement begins or ends.
#[track_caller]
fn assert_all_counted(found: &LoadOutcome, rate: f64, connections: usize) {
    let due = rate * found.elapsed.as_secs_f64();
    let counted = (found.requests + found.unsent) as f64;
    assert!((counted - due).abs() <= connections as f64 + 1.0, "{counted} of {due}");
}

/// Answers later than that.
fn later_than(found: &LoadOutcome, latency: Duration) -> u64 {
    let from_ns = latency.as_nanos() as u64;
    found.latency.count_between(from_ns, u64::MAX)
}

#[test]
fn as_many_requests_as_were_due() {
    let server = super::says(PONG);
    let found = load_with(&server, &LoadPlan { connections: 4, threads: 2, ..at_rate(400.0) });
    assert_eq!(found.errors, Errors::default());
    assert_all_counted(&found, 400.0, 4);
}

/// One stall of 300 ms: with one connection 200 requests a second pile up behind it. A closed
/// loop would see one late response; here all requests that were due in that time are late.
#[test]
fn a_stall_makes_all_requests_behind_it_late() {
    let stall = Duration::from_millis(300);
    let load = || {
        let stop = Arc::<AtomicBool>::default();
        let stops = stop.clone();
        let server = Scripted::tcp(END, move |number| {
            stops.fetch_or(number == 100, Ordering::Relaxed);
            let stalls = (number == 30).then_some(Act::Wait(stall));
            stalls.into_iter().chain([Act::Send(PONG.to_vec())]).collect()
        });
        load_with(&server, &LoadPlan { connections: 1, ..until_stopped(200.0, &stop) })
    };
    // A busy machine may begin to measure after the stall.
    let found = until(load, |found| found.requests > 80);
    assert_eq!(found.errors, Errors::default());
    // The one that stalled, and of the 60 that were due during the stall those 40 that waited more
    // than 100 ms; the last two digits are lost to rounding.
    let late = later_than(&found, Duration::from_millis(100));
    assert!(late >= 39, "{late} late of {}", found.requests);
    assert!(found.latency.max() >= 290_000_000, "{}", found.latency.max());
}

#[test]
fn a_rate_that_is_not_reached_is_reported() {
    let slow = Duration::from_millis(20);
    let load = || {
        let stop = Arc::<AtomicBool>::default();
        let stops = stop.clone();
        let server = Scripted::tcp(END, move |number| {
            stops.fetch_or(number == 40, Ordering::Relaxed);
            vec![Act::Wait(slow), Act::Send(PONG.to_vec())]
        });
        load_with(&server, &LoadPlan { connections: 2, ..until_stopped(1000.0, &stop) })
    };
    // A busy machine may begin to measure when most were sent.
    let found = until(load, |found| found.requests > 30);
    assert_eq!(found.errors, Errors::default());
    // At most 100 a second are served by two connections.
    let at_most = 100.0 * found.elapsed.as_secs_f64();
    assert!(found.requests as f64 <= at_most + 4.0, "{} of {at_most}", found.requests);
    assert_all_counted(&found, 1000.0, 2);
    // The last that was served had waited for most of the run.
    assert!(found.latency_ms(100.0) > 200.0, "{}", found.latency_ms(100.0));
}

/// The server stalls across the end of what is measured: the requests that were due in the stall
/// are late, and sent.
#[test]
fn what_was_due_before_the_end_is_sent() {
    let stall = Duration::from_millis(60);
    let load = || {
        let (stalls, stalled) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (asked, begun) = (stalls.clone(), stalled.clone());
        let server = Scripted::tcp(END, move |_| {
            let stalls = asked.swap(false, Ordering::Relaxed);
            begun.fetch_or(stalls, Ordering::Relaxed);
            let stall = stalls.then_some(Act::Wait(stall));
            stall.into_iter().chain([Act::Send(PONG.to_vec())]).collect()
        });
        let at = |moment: Moment| {
            if moment == Moment::End {
                stalls.store(true, Ordering::Relaxed);
                let deadline = Instant::now() + PATIENCE;
                while !stalled.load(Ordering::Relaxed) && Instant::now() < deadline {
                    thread::yield_now();
                }
                thread::sleep(stall / 2);
            }
        };
        let plan = LoadPlan { connections: 1, ..at_rate(200.0) };
        run_with(&target(&server.address), &plan, at).unwrap()
    };
    // A busy machine may wake the generator too late.
    let found = until(load, |found| found.unsent == 0);
    assert_eq!(found.errors, Errors::default());
    assert_all_counted(&found, 200.0, 1);
    let late = later_than(&found, stall / 2);
    assert!(late >= 5, "{late} late of {}", found.requests);
}

#[test]
fn a_connection_for_each_request_at_a_rate() {
    let server = Scripted::tcp(END, |_| vec![Act::Send(PONG.to_vec()), Act::Close]);
    let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_vec();
    let traffic = Traffic::Http { request, expect: pong(), keep_alive: false };
    let target = Target { address: server.address.clone(), tls: None, traffic };
    let found = run(&target, &LoadPlan { connections: 8, ..at_rate(200.0) }).unwrap();
    assert_eq!(found.errors, Errors::default());
    assert_all_counted(&found, 200.0, 8);
    assert!(server.accepted() >= found.requests);
}
