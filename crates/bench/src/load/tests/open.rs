//! A fixed rate: latencies count from the moment a request was due.

use std::time::Duration;

use super::{Act, END, PONG, Scripted, load_with, plan, pong};
use crate::load::{Errors, LoadOutcome, LoadPlan, Mode, Target, Traffic, run};

fn at_rate(rate: f64) -> LoadPlan {
    let mode = Mode::Open { rate };
    LoadPlan { duration: Duration::from_millis(500), mode, ..plan() }
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
    let due = 400.0 * found.elapsed.as_secs_f64();
    let counted = (found.requests + found.unsent) as f64;
    assert!((counted - due).abs() <= 3.0, "{counted} of {due}");
}

/// One stall of 300 ms: with one connection 200 requests a second pile up behind it. A closed
/// loop would see one late answer; here all requests that were due in that time are late.
#[test]
fn a_stall_makes_all_requests_behind_it_late() {
    let stall = Duration::from_millis(300);
    let server = Scripted::tcp(END, move |number| match number {
        30 => vec![Act::Wait(stall), Act::Send(PONG.to_vec())],
        _ => vec![Act::Send(PONG.to_vec())],
    });
    let duration = Duration::from_millis(900);
    let found = load_with(&server, &LoadPlan { connections: 1, duration, ..at_rate(200.0) });
    assert_eq!(found.errors, Errors::default());
    // Of the 60 that were due during the stall, 40 waited more than 100 ms; fewer are seen if
    // the machine was late to begin.
    let late = later_than(&found, Duration::from_millis(100));
    assert!(late >= 15, "{late} late of {}", found.requests);
    assert!(found.latency.max() >= 150_000_000, "{}", found.latency.max());
}

#[test]
fn a_rate_that_is_not_reached_is_told() {
    let slow = Duration::from_millis(20);
    let server = Scripted::tcp(END, move |_| vec![Act::Wait(slow), Act::Send(PONG.to_vec())]);
    let found = load_with(&server, &LoadPlan { connections: 2, ..at_rate(1000.0) });
    assert_eq!(found.errors, Errors::default());
    // At most 100 a second are served by two connections.
    let at_most = 100.0 * found.elapsed.as_secs_f64();
    assert!(found.requests as f64 <= at_most + 4.0, "{} of {at_most}", found.requests);
    let due = 1000.0 * found.elapsed.as_secs_f64();
    let counted = (found.requests + found.unsent) as f64;
    assert!((counted - due).abs() <= 3.0, "{counted} of {due}");
    // The last that was served had waited for most of the run.
    assert!(found.latency_ms(100.0) > 200.0, "{}", found.latency_ms(100.0));
}

#[test]
fn a_connection_for_each_request_at_a_rate() {
    let server = Scripted::tcp(END, |_| vec![Act::Send(PONG.to_vec()), Act::Close]);
    let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_vec();
    let traffic = Traffic::Http { request, expect: pong(), keep_alive: false };
    let target = Target { address: server.address.clone(), traffic };
    let found = run(&target, &LoadPlan { connections: 8, ..at_rate(200.0) }).unwrap();
    assert_eq!(found.errors, Errors::default());
    let due = 200.0 * found.elapsed.as_secs_f64();
    let counted = (found.requests + found.unsent) as f64;
    assert!((counted - due).abs() <= 3.0, "{counted} of {due}");
    assert!(server.accepted() >= found.requests);
}
