//! Servers without errors.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::{
    Act, END, PATIENCE, PONG, Scripted, consistent, load, load_until, load_with, plan, pong, says,
    target, until,
};
use crate::load::{
    Address, Errors, Expect, LoadOutcome, LoadPlan, Moment, Target, Traffic, run, run_with,
};

#[test]
fn right_responses_are_counted_and_timed() {
    let server = says(PONG);
    let found = load_until(&server, &plan(), |found| found.requests > 2);
    assert_eq!(found.errors, Errors::default());
    assert!(found.requests <= server.asked());
    assert!(found.bytes >= (found.requests - 2) * PONG.len() as u64, "{}", found.bytes);
    assert!(found.elapsed >= Duration::from_millis(200));
    assert!(found.latency.min() > 1000, "a round trip takes more than a microsecond");
    assert!(found.client_cpu > Duration::ZERO && found.client_cpu < found.elapsed * 2);
    assert_eq!((found.reconnects, found.unsent), (0, 0));
}

#[test]
fn every_thread_loads_with_its_connections() {
    let server = says(PONG);
    for (connections, threads) in [(7, 3), (2, 5)] {
        let before = server.accepted();
        let found = load_with(&server, &LoadPlan { connections, threads, ..plan() });
        let deadline = Instant::now() + PATIENCE;
        // The server may accept later than its clients are connected.
        while server.accepted() < before + connections as u64 {
            assert!(Instant::now() < deadline, "{} accepted", server.accepted());
            std::thread::yield_now();
        }
        assert_eq!(server.accepted(), before + connections as u64);
        assert_eq!(found.errors, Errors::default());
    }
}

#[test]
fn a_response_in_pieces_is_one_response() {
    let server = Scripted::tcp(END, |_| {
        let pieces: [&[u8]; 5] = [
            b"HTTP/1.1 200 OK\r\nTransfer-En",
            b"coding: chunked\r\n\r",
            b"\n4\r\npo",
            b"ng\r\n0\r",
            b"\n\r\n",
        ];
        let wait = || Act::Wait(Duration::from_micros(300));
        pieces.iter().flat_map(|piece| [Act::Send(piece.to_vec()), wait()]).collect()
    });
    let found = load(&server);
    assert_eq!(found.errors, Errors::default());
    assert!(found.requests > 0);
    assert!(found.latency.min() > 1_000_000, "four waits of 0.3 ms");
}

#[test]
fn a_large_body_is_compared_whole() {
    let body: Vec<u8> = (0..1_000_000u32).map(|number| (number % 251) as u8).collect();
    let mut answer =
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
    answer.extend_from_slice(&body);
    let server = Scripted::tcp(END, move |_| vec![Act::Send(answer.clone())]);
    let expect = Expect { length: None, body: Some(body.into()), ..pong() };
    let traffic = Traffic::Http { request: super::REQUEST.to_vec(), expect, keep_alive: true };
    let target = Target { address: server.address.clone(), tls: None, traffic };
    let plan = LoadPlan { verify: true, ..plan() };
    let found = until(|| consistent(run(&target, &plan).unwrap()), |found| found.requests > 0);
    assert_eq!(found.errors, Errors::default());
}

#[test]
fn a_large_request_is_sent_whole() {
    let server = says(PONG);
    let mut request = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2000000\r\n\r".to_vec();
    // The script waits for the end of a head, so the body ends like one.
    request.resize(request.len() + 2_000_000, b'x');
    request.extend_from_slice(END);
    let traffic = Traffic::Http { request, expect: pong(), keep_alive: true };
    let target = Target { address: server.address.clone(), tls: None, traffic };
    let plan = LoadPlan { connections: 1, ..plan() };
    let found = until(|| consistent(run(&target, &plan).unwrap()), |_| server.asked() > 0);
    assert_eq!(found.errors, Errors::default());
}

#[test]
fn an_announced_end_is_followed_by_a_new_connection() {
    let server = Scripted::tcp(END, |number| match number % 3 {
        2 => {
            let last = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\npong";
            vec![Act::Send(last.to_vec()), Act::Close]
        }
        _ => vec![Act::Send(PONG.to_vec())],
    });
    let says = |found: &LoadOutcome| found.reconnects > 0 && found.requests > found.reconnects;
    let found = load_until(&server, &plan(), says);
    assert_eq!(found.errors, Errors::default());
}

#[test]
fn a_response_may_end_with_the_connection() {
    let server = Scripted::tcp(END, |_| {
        vec![Act::Send(b"HTTP/1.1 200 OK\r\n\r\npong".to_vec()), Act::Close]
    });
    let says = |found: &LoadOutcome| found.requests > 0 && found.reconnects > 0;
    let found = load_until(&server, &plan(), says);
    assert_eq!(found.errors, Errors::default());
}

#[test]
fn a_connection_for_each_request() {
    let server = Scripted::tcp(END, |_| vec![Act::Send(PONG.to_vec()), Act::Close]);
    let request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".to_vec();
    let traffic = Traffic::Http { request, expect: pong(), keep_alive: false };
    let target = Target { address: server.address.clone(), tls: None, traffic };
    let found = until(|| consistent(run(&target, &plan()).unwrap()), |found| found.requests > 0);
    assert_eq!(found.errors, Errors::default());
    assert!(server.accepted() >= found.requests);
    assert_eq!(found.reconnects, 0);
}

#[test]
fn a_unix_socket_is_a_server_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let server = Scripted::unix(path, END, |_| vec![Act::Send(PONG.to_vec())]);
    let found = load(&server);
    assert_eq!(found.errors, Errors::default());
    assert!(found.requests > 0);
}

#[test]
fn the_warm_up_is_in_no_figure() {
    let server = says(PONG);
    let plan = LoadPlan { warm_up: Duration::from_millis(200), ..plan() };
    let mut told = Vec::new();
    // As many loads as it takes on a busy machine until a warm-up is load.
    let (before, found) = loop {
        let first = server.asked();
        told.clear();
        let found = run_with(&target(&server.address), &plan, |moment| {
            told.push((moment, server.asked()));
        });
        let [(Moment::Begin, before), (Moment::End, _)] = told[..] else { panic!("{told:?}") };
        if before > first {
            break (before, consistent(found.unwrap()));
        }
    };
    // What was asked since, and what was on its way.
    assert!(found.requests <= server.asked() - before + 2, "{found:?}");
}

#[test]
fn a_run_can_be_stopped() {
    let server = says(PONG);
    let plan = LoadPlan { duration: Duration::from_secs(60), ..plan() };
    let stop = plan.stop.clone();
    let started = Instant::now();
    let found = run_with(&target(&server.address), &plan, |moment| {
        stop.store(moment == Moment::Begin, Ordering::Relaxed);
    });
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(found.unwrap().elapsed < Duration::from_secs(30));
}

#[test]
fn a_plan_that_makes_no_sense_is_refused() {
    let target = target(&Address::Unix("/nowhere".into()));
    assert!(run(&target, &LoadPlan { connections: 0, ..plan() }).is_err());
    let mode = crate::load::Mode::Open { rate: 0.0 };
    assert!(run(&target, &LoadPlan { mode, ..plan() }).is_err());
}

#[test]
fn documents_are_requested_in_turn() {
    let mut target = target(&Address::Unix("/nowhere".into()));
    if let Traffic::Http { request, .. } = &mut target.traffic {
        *request = b"GET /document/000000 HTTP/1.1\r\nHost: a\r\n\r\n".to_vec();
    }
    let plan = LoadPlan { documents: 3, ..plan() };
    let state = crate::load::run_state::RunState::new(&target, &plan).unwrap();
    let number =
        |others| String::from_utf8_lossy(&state.request_after(others)[14..20]).into_owned();
    assert_eq!([0, 1, 2, 3].map(number), ["000000", "000001", "000002", "000000"]);
}
