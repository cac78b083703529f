//! Connections kept between requests: used again, bounded, and never the reason why a request
//! fails.

use super::{GET, OK, ask, assert_fault, gateway, servers, wait_until, wait_until_released};
use scenarios::gate;
use scenarios::{Connection, Metrics, Tidegate, Upstream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

const POST: &str = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nhi";

fn kept(metrics: &Metrics) -> f64 {
    let idle = metrics.sum("tidegate_upstream_connections", &[("state", "idle")]);
    idle + metrics.sum("tidegate_upstream_connections", &[("state", "parked")])
}

fn wait_for_kept(server: &Tidegate, count: f64) {
    wait_until(server, "so many kept connections", |metrics| kept(metrics) == count);
}

#[test]
fn one_connection_carries_request_after_request_of_any_client() {
    let upstream = Upstream::responding(OK);
    let server = gateway(&servers(&[&upstream]));
    for _ in 0..5 {
        assert_eq!(ask(&server).status, 200);
    }
    assert_eq!(upstream.accepted(), 1);
    let metrics = server.metrics();
    assert_eq!(metrics.sum("tidegate_upstream_connection_reuses_total", &[]), 4.0);
    wait_for_kept(&server, 1.0);
    wait_until_released(&server);
}

#[test]
fn a_kept_connection_that_the_server_closes_is_not_used() {
    let (closed, closing) = std::sync::mpsc::channel();
    let closed = Mutex::new(closed);
    let upstream = Upstream::start(move |peer: &mut Connection| {
        peer.read_head();
        peer.send(OK);
        peer.finish_sending();
        closed.lock().expect("no script panics with it").send(()).expect("the test waits");
        peer.read_until_gone();
    });
    let server = gateway(&servers(&[&upstream]));
    let mut client = server.connect("web");
    for method in ["GET", "POST", "PATCH", "GET"] {
        client.send(GET.replace("GET", method));
        assert_eq!(client.read_response().status, 200, "{method}");
        closing.recv_timeout(scenarios::PATIENCE).expect("the server closes");
    }
    let failed = [("class", "error")];
    assert_eq!(server.metrics().sum("tidegate_upstream_requests_total", &failed), 0.0);
    drop(client);
    wait_until_released(&server);
}

/// Serves one request on a connection and hangs up at the second, after reading it. Counts
/// requests.
fn hanging_up_at_the_second(requests: &Arc<AtomicUsize>) -> Upstream {
    let requests = Arc::clone(requests);
    Upstream::start(move |peer: &mut Connection| {
        for turn in 0..2 {
            if peer.at_end() {
                return;
            }
            if peer.read_head().starts_with("POST") {
                peer.expect("hi");
            }
            requests.fetch_add(1, Ordering::SeqCst);
            if turn == 0 {
                peer.send(OK);
            }
        }
    })
}

#[test]
fn a_connection_that_dies_at_the_moment_of_use_fails_no_idempotent_request() {
    let requests = Arc::new(AtomicUsize::new(0));
    let upstream = hanging_up_at_the_second(&requests);
    let server = gateway(&servers(&[&upstream]));
    let mut client = server.connect("web");
    for _ in 0..4 {
        client.send(GET);
        assert_eq!(client.read_response().text(), "ok");
    }
    // Every one but the first met a dying connection before it got a fresh one.
    assert_eq!(requests.load(Ordering::SeqCst), 7);
    let metrics = server.metrics();
    assert_eq!(metrics.sum("tidegate_upstream_retries_total", &[]), 0.0, "it is the same server");
    drop(client);
    wait_until_released(&server);
}

#[test]
fn a_request_that_is_not_idempotent_is_not_sent_twice() {
    let requests = Arc::new(AtomicUsize::new(0));
    let upstream = hanging_up_at_the_second(&requests);
    let server = gateway(&servers(&[&upstream]));
    let mut client = server.connect("web");
    client.send(GET);
    assert_eq!(client.read_response().status, 200);
    client.send(POST);
    assert_fault(&client.read_response(), 502, "connection_terminated");
    assert_eq!(requests.load(Ordering::SeqCst), 2);
    drop(client);
    wait_until_released(&server);
}

#[test]
fn what_the_server_says_about_its_connection_counts() {
    for response in [
        "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
    ] {
        // It says that it closes and does not.
        let upstream = Upstream::start(move |peer| {
            peer.read_head();
            peer.send(response);
            peer.expect_closed();
        });
        let server = gateway(&servers(&[&upstream]));
        let mut client = server.connect("web");
        for _ in 0..2 {
            client.send(GET);
            let response = client.read_response();
            assert_eq!((response.text().as_str(), response.header("connection")), ("ok", None));
        }
        assert_eq!(upstream.accepted(), 2, "{response:?}");
        assert_eq!(kept(&server.metrics()), 0.0);
    }
    let upstream = Upstream::responding(
        "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok",
    );
    let server = gateway(&servers(&[&upstream]));
    for _ in 0..3 {
        assert_eq!(ask(&server).text(), "ok");
    }
    assert_eq!(upstream.accepted(), 1);
}

#[test]
fn kept_connections_are_bounded_in_number_requests_and_time() {
    let upstream = Upstream::responding(OK);
    let with = |keepalive: &str| gateway(&format!("{}, {keepalive}", servers(&[&upstream])));

    let server = with("keepalive: { max_idle: 0 }");
    ask(&server);
    assert_eq!(kept(&server.metrics()), 0.0);

    let server = with("keepalive: { max_requests: 2 }");
    let before = upstream.accepted();
    for _ in 0..4 {
        assert_eq!(ask(&server).status, 200);
    }
    assert_eq!(upstream.accepted() - before, 2);

    let server = with("timeouts: { idle: 200ms }");
    ask(&server);
    wait_for_kept(&server, 0.0);

    // Four requests at a time need four connections; two of them are kept.
    let (opener, gate) = gate();
    let slow = Upstream::start(move |peer| {
        while !peer.at_end() {
            peer.read_head();
            gate.wait();
            peer.send(OK);
        }
    });
    let server = gateway(&format!("{}, keepalive: {{ max_idle: 2 }}", servers(&[&slow])));
    let mut clients: Vec<_> = (0..4).map(|_| server.connect("web")).collect();
    for client in &mut clients {
        client.send(GET);
    }
    wait_until(&server, "four requests", |metrics| {
        metrics.sum("tidegate_upstream_requests_in_flight", &[]) == 4.0
    });
    opener.open();
    for client in &mut clients {
        assert_eq!(client.read_response().status, 200);
    }
    assert_eq!(slow.accepted(), 4);
    wait_for_kept(&server, 2.0);
}

#[test]
fn a_connection_that_its_worker_does_not_need_is_there_for_all() {
    let (opener, gate) = gate();
    let (closed, closing) = std::sync::mpsc::channel();
    let closed = Mutex::new(closed);
    let upstream = Upstream::start(move |peer: &mut Connection| {
        for _ in 0..if peer.number() == 0 { 2 } else { 1 } {
            peer.read_head();
            peer.send(OK);
        }
        gate.wait();
        peer.finish_sending();
        closed.lock().expect("no script panics with it").send(()).expect("the test waits");
        peer.read_until_gone();
    });
    let server = Tidegate::start(&super::config(&servers(&[&upstream]), 2));
    let parked = |server: &Tidegate| {
        wait_until(server, "a parked connection", |metrics| {
            metrics.sum("tidegate_upstream_connections", &[("state", "parked")]) == 1.0
        });
    };
    for _ in 0..2 {
        assert_eq!(ask(&server).status, 200);
        parked(&server);
    }
    assert_eq!(upstream.accepted(), 1);

    // One that dies there is not used, even by a request that could not be sent again.
    opener.open();
    closing.recv_timeout(scenarios::PATIENCE).expect("the server closes");
    assert_eq!(server.exchange("web", GET.replace("GET", "POST")).status, 200);
    assert_eq!(upstream.accepted(), 2);
    wait_until_released(&server);
}
