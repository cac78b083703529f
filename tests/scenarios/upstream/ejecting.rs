//! Passive health: a server whose requests keep failing is left alone for a while, then one request
//! shows whether it is back.

use super::{
    OK, ask, assert_fault, gateway, sent_to, servers, shown, wait_for_states, wait_until_released,
};
use scenarios::{Connection, Tidegate, Upstream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Answers while it is well, and hangs up without a response while it is not.
fn failing() -> (Upstream, Arc<AtomicBool>) {
    let well = Arc::new(AtomicBool::new(false));
    let state = Arc::clone(&well);
    let upstream = Upstream::start(move |peer: &mut Connection| {
        while !peer.at_end() {
            peer.read_head();
            if !state.load(Ordering::SeqCst) {
                return;
            }
            peer.send(OK);
        }
    });
    (upstream, well)
}

const NO_RETRIES: &str = "balance: round_robin, retries: { attempts: 1 }";

fn statuses(server: &Tidegate, count: usize) -> Vec<u16> {
    (0..count).map(|_| ask(server).status).collect()
}

#[test]
fn a_failing_server_is_left_alone_until_one_request_shows_that_it_is_back() {
    let (bad, well) = failing();
    let good = Upstream::responding(OK);
    let start = |time: &str| {
        let servers = servers(&[&bad, &good]);
        let ejection = format!("ejection: {{ failures: 3, ejected_for: {time} }}");
        gateway(&format!("{servers}, {NO_RETRIES}, {ejection}"))
    };
    let server = start("1h");
    // In turn: three failures, and three that went to the other.
    assert_eq!(statuses(&server, 6).iter().filter(|status| **status == 502).count(), 3);
    wait_for_states(&server, &["ejected", "healthy"]);
    server.wait_for_log("a server is ejected after failures");
    assert_eq!(server.metrics().sum("tidegate_upstream_ejections_total", &[]), 1.0);
    assert!(shown(&server)["servers"][0]["healthy"] == false);

    // Each time that its time is over, one request finds out that it still fails. A busy machine
    // may let that happen between any two requests.
    let server = start("1s");
    let ejections = || server.metrics().sum("tidegate_upstream_ejections_total", &[]);
    let failures =
        |count| statuses(&server, count).into_iter().filter(|status| *status == 502).count() as f64;
    assert_eq!(failures(6), 2.0 + ejections());
    wait_for_states(&server, &["trial", "healthy"]);
    let (before, sent) = (ejections(), sent_to(&server, &bad, "error"));
    let found = failures(4);
    assert!(found >= 1.0, "{found}");
    assert_eq!(ejections() - before, found);
    assert_eq!(sent_to(&server, &bad, "error") - sent, found);

    well.store(true, Ordering::SeqCst);
    wait_for_states(&server, &["trial", "healthy"]);
    assert_eq!(statuses(&server, 4), [200; 4]);
    wait_for_states(&server, &["healthy", "healthy"]);
    server.wait_for_log("an ejected server is back");
    assert!(sent_to(&server, &bad, "2xx") >= 2.0);
    wait_until_released(&server);
}

#[test]
fn responses_of_chosen_statuses_are_failures_and_others_are_not() {
    let response = |status: &str| {
        Upstream::responding(format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n"))
    };
    let (busy, missing) = (response("503 Busy"), response("404 Missing"));
    let server = gateway(&format!(
        "{}, {NO_RETRIES}, ejection: {{ failures: 2, ejected_for: 1h }}",
        servers(&[&busy, &missing])
    ));
    let seen = statuses(&server, 8);
    assert_eq!(seen.iter().filter(|status| **status == 503).count(), 2, "{seen:?}");
    wait_for_states(&server, &["ejected", "healthy"]);
    wait_until_released(&server);
}

#[test]
fn no_more_than_the_allowed_share_is_left_alone() {
    let (one, _) = failing();
    let (two, _) = failing();
    let server = gateway(&format!(
        "{}, {NO_RETRIES}, ejection: {{ failures: 1, ejected_for: 1h, max_ejected: 50% }}",
        servers(&[&one, &two])
    ));
    assert_eq!(statuses(&server, 6), [502; 6]);
    assert_eq!(server.metrics().sum("tidegate_upstream_ejections_total", &[]), 1.0);
    wait_until_released(&server);
}

#[test]
fn when_all_are_left_alone_the_response_is_503_at_once() {
    let (only, _) = failing();
    let server = gateway(&format!(
        "{}, {NO_RETRIES}, ejection: {{ failures: 1, ejected_for: 1h, max_ejected: 100% }}",
        servers(&[&only])
    ));
    assert_fault(&ask(&server), 502, "connection_terminated");
    assert_fault(&ask(&server), 503, "destination_unavailable");
    // An ejected server is connected to, to see whether it was restarted, and sent nothing.
    assert_eq!(sent_to(&server, &only, "error"), 1.0);
    wait_until_released(&server);
}

#[test]
fn a_full_server_is_passed_over_and_full_servers_are_503() {
    let (opener, gate) = scenarios::gate();
    let slow = Upstream::start(move |peer| {
        peer.read_head();
        gate.wait();
        peer.send(OK);
    });
    let server = gateway(&format!(
        r#"servers: [{{ address: "{}", max_connections: 2 }}], timeouts: {{ queue: 0s }}"#,
        slow.address()
    ));
    let mut waiting: Vec<_> = (0..2).map(|_| server.connect("web")).collect();
    for client in &mut waiting {
        client.send(super::GET);
    }
    super::wait_until(&server, "two requests", |metrics| {
        metrics.sum("tidegate_upstream_requests_in_flight", &[]) == 2.0
    });
    assert_fault(&ask(&server), 503, "connection_limit_reached");
    let limit = [("limit", "upstream_connections")];
    server.wait_for_metric("tidegate_limits_hit_total", &limit, 1.0);
    opener.open();
    for client in &mut waiting {
        assert_eq!(client.read_response().status, 200);
    }
    assert_eq!(ask(&server).status, 200);
    drop(waiting);
    wait_until_released(&server);
}

#[test]
fn workers_together_do_not_exceed_max_connections_and_no_request_fails() {
    let in_flight = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let upstream = {
        let most = most.clone();
        Upstream::start(move |peer| {
            while !peer.at_end() {
                peer.read_head();
                most.fetch_max(in_flight.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                in_flight.fetch_sub(1, Ordering::SeqCst);
                peer.send(OK);
            }
        })
    };
    let server = format!(
        r#"servers: [{{ address: "{}", max_connections: 1 }}], timeouts: {{ queue: 1m }}"#,
        upstream.address()
    );
    let server = Tidegate::start(&super::config(&server, 2));
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                let mut client = server.connect("web");
                for _ in 0..200 {
                    client.send(super::GET);
                    assert_eq!(client.read_response().status, 200);
                }
            });
        }
    });
    assert_eq!(most.load(Ordering::SeqCst), 1);
    wait_until_released(&server);
}
