//! Servers with one kind of error each: only that kind is counted.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::{
    Act, END, PATIENCE, PONG, Scripted, consistent, is_something, load, load_until, load_with,
    plan, says, target, until,
};
use crate::load::{Address, BODY_COMPARED_ONE_IN, Errors, LoadOutcome, LoadPlan, run};

/// Nothing but errors, all of one kind.
#[track_caller]
fn all_wrong(found: &LoadOutcome, kind: impl Fn(&mut Errors) -> &mut u64) {
    let mut errors = found.errors.clone();
    let count = std::mem::take(kind(&mut errors));
    assert!(count > 0, "{:?}", found.errors);
    assert_eq!(errors, Errors::default(), "only of that kind");
    assert_eq!(found.requests, 0);
}

#[test]
fn another_status() {
    let server = says(b"HTTP/1.1 503 Busy\r\nContent-Length: 4\r\n\r\npong");
    all_wrong(&load(&server), |errors| &mut errors.status);
}

#[test]
fn another_length() {
    let server = says(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\npon");
    all_wrong(&load(&server), |errors| &mut errors.length);
}

#[test]
fn more_bytes_than_were_announced() {
    let server = says(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npongs");
    all_wrong(&load(&server), |errors| &mut errors.framing);
}

#[test]
fn a_response_too_many() {
    let server = Scripted::tcp(END, |_| vec![Act::Send([PONG, PONG].concat())]);
    all_wrong(&load(&server), |errors| &mut errors.framing);
}

#[test]
fn not_http() {
    let server = says(b"+PONG\r\n");
    all_wrong(&load(&server), |errors| &mut errors.framing);
}

#[test]
fn fewer_bytes_than_were_announced() {
    let server =
        Scripted::tcp(END, |_| vec![Act::Send(PONG[..PONG.len() - 1].to_vec()), Act::Close]);
    all_wrong(&load(&server), |errors| &mut errors.read);
}

#[test]
fn no_response_but_the_end() {
    let server = Scripted::tcp(END, |_| vec![Act::Close]);
    all_wrong(&load(&server), |errors| &mut errors.read);
}

#[test]
fn another_body_when_all_are_compared() {
    let server = says(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nping");
    let plan = LoadPlan { verify: true, ..plan() };
    all_wrong(&load_until(&server, &plan, is_something), |errors| &mut errors.body);
}

#[test]
fn another_body_is_seen_on_some() {
    let server = says(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nping");
    let found = load_with(&server, &LoadPlan { connections: 1, ..plan() });
    let wrong = found.errors.body;
    assert_eq!(found.errors, Errors { body: wrong, ..Errors::default() });
    // The first of every sixteen.
    let expected = server.asked().div_ceil(BODY_COMPARED_ONE_IN.into());
    assert_eq!(wrong, expected, "of {}", server.asked());
}

#[test]
fn one_wrong_response_among_many() {
    // Another server for each load, for as long as loads end before the wrong response has come.
    let load = || {
        load_with(
            &Scripted::tcp(END, |number| {
                vec![Act::Send(match number {
                    5 => b"HTTP/1.1 404 Gone\r\nContent-Length: 0\r\n\r\n".to_vec(),
                    _ => PONG.to_vec(),
                })]
            }),
            &plan(),
        )
    };
    let found = until(load, |found| found.requests > 0 && found.errors.total() > 0);
    assert_eq!(found.errors, Errors { status: 1, ..Errors::default() });
    assert_eq!(found.reconnects, 0);
}

#[test]
fn a_slow_server_is_late_and_not_wrong() {
    let slow = Duration::from_millis(30);
    let server = Scripted::tcp(END, move |_| vec![Act::Wait(slow), Act::Send(PONG.to_vec())]);
    let found = load(&server);
    assert_eq!(found.errors, Errors::default());
    let at_most = 2.0 * found.elapsed.as_secs_f64() / slow.as_secs_f64();
    assert!(found.requests as f64 <= at_most + 2.0, "{found:?}");
    assert!(found.latency_ms(0.0) >= 29.9, "{}", found.latency_ms(0.0));
}

#[test]
fn a_server_that_never_responds_does_not_keep_us() {
    let server = Scripted::tcp(END, |_| vec![Act::Hang]);
    let timeout = Duration::from_millis(300);
    let started = Instant::now();
    let found = load_until(&server, &LoadPlan { timeout, ..plan() }, is_something);
    all_wrong(&found, |errors| &mut errors.timeout);
    assert!(started.elapsed() >= timeout);
    assert!(started.elapsed() < PATIENCE);
}

#[test]
fn a_response_that_stops_in_the_middle_is_given_up() {
    let server =
        Scripted::tcp(END, |_| vec![Act::Send(PONG[..PONG.len() - 1].to_vec()), Act::Hang]);
    let plan = LoadPlan { timeout: Duration::from_millis(50), ..plan() };
    let before = Cell::new(0);
    let load = || {
        before.set(server.accepted());
        load_with(&server, &plan)
    };
    // What was given up is replaced.
    let found = until(load, |_| server.accepted() > before.get() + 2);
    all_wrong(&found, |errors| &mut errors.timeout);
}

#[test]
fn no_server_listens() {
    // Port 1 has no listener.
    let address = Address::Tcp(([127, 0, 0, 1], 1).into());
    let found = consistent(run(&target(&address), &plan()).unwrap());
    all_wrong(&found, |errors| &mut errors.connect);
    let found = run(&target(&Address::Unix("/nowhere/at/all".into())), &plan()).unwrap();
    all_wrong(&found, |errors| &mut errors.connect);
}
