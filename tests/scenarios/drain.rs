//! The end of a server: requests in flight are finished, idle connections are closed, nothing that
//! was sent is lost, and after the deadline the rest is cut.

use crate::load::{AfterClose, Load, Tally};
use crate::setup::{behind, patient, responding};
use scenarios::{Connection, Tidegate, Upstream, eventually};
use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const PING: &str = "GET /ping HTTP/1.1\r\nhost: a\r\n\r\n";

#[test]
fn idle_connections_are_closed_and_the_server_ends_well() {
    let server = Tidegate::start(&responding(""));
    let mut clients: Vec<Connection> = (0..5).map(|_| server.connect("web")).collect();
    for client in &mut clients {
        client.send(PING);
        assert_eq!(client.read_response().status, 200);
    }
    server.signal("TERM");
    for client in &mut clients {
        client.expect_closed();
    }
    let exit = server.wait();
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
    // Not cut off by the time-out.
    assert!(exit.stderr.contains("drained"), "{}", exit.stderr);
    assert!(!exit.stderr.contains("cut off"), "{}", exit.stderr);
}

#[test]
fn a_request_in_flight_is_finished_and_its_response_is_the_last() {
    let (asked, is_asked) = channel();
    let (go_on, wait) = channel::<()>();
    let (asked, wait) = (Mutex::new(asked), Mutex::new(wait));
    let upstream = Upstream::start(move |peer| {
        peer.read_head();
        let _ = asked.lock().expect("no panic").send(());
        let _ = wait.lock().expect("no panic").recv();
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nlate");
        peer.at_end();
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = server.connect("web");
    client.send(PING);
    is_asked.recv_timeout(scenarios::PATIENCE).expect("the upstream is asked");
    server.signal("TERM");
    server.wait_for_log("draining");
    // Load balancers are notified, and no new connection is accepted.
    let ready = server.exchange("admin", "GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(ready.status, 503, "{}", ready.text());
    let web = server.address("web");
    eventually("every worker drains", || Connection::is_refused(web));
    go_on.send(()).expect("the upstream waits");
    let response = client.read_response();
    assert_eq!((response.text().as_str(), response.header("connection")), ("late", Some("close")));
    client.expect_closed();
    drop(client);
    assert_eq!(server.wait().code, Some(0));
}

#[test]
fn a_head_that_is_half_there_may_be_finished() {
    let server = Tidegate::start(&responding(""));
    let mut client = server.connect("web");
    client.send("GET /ping HT");
    server.wait_for_metric("tidegate_received_bytes_total", &[], 12.0);
    server.signal("TERM");
    server.wait_for_log("draining");
    client.send("TP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(client.read_response().status, 200);
    client.expect_closed();
}

#[test]
fn what_is_not_finished_in_time_is_cut() {
    let upstream = Upstream::start(|peer| {
        peer.read_until_gone();
    });
    let server = Tidegate::start(&behind(&upstream, "timeouts: { drain: 200ms }"));
    let mut client = server.connect("web");
    client.send(PING);
    server.wait_for_metric("tidegate_exchanges_in_flight", &[], 1.0);
    let begin = Instant::now();
    server.signal("TERM");
    client.read_until_gone();
    let exit = server.wait();
    assert!(begin.elapsed() >= Duration::from_millis(200));
    assert!(exit.stderr.contains("cut off connections=1"), "{}", exit.stderr);
    assert_eq!(exit.code, Some(0), "it ended as it was told to");
}

/// Without a length and chunks an end looks like the whole.
#[test]
fn a_response_that_ends_with_its_connection_is_cut_with_a_reset() {
    let upstream = Upstream::start(|peer| {
        peer.read_head();
        peer.send("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n");
        peer.read_until_gone();
    });
    let server = Tidegate::start(&behind(&upstream, "timeouts: { drain: 200ms }"));
    let mut client = server.connect("web");
    client.send("GET / HTTP/1.0\r\nhost: a\r\n\r\n");
    let head = client.read_head();
    assert!(!head.to_ascii_lowercase().contains("content-length"), "{head}");
    assert_eq!(client.read_exactly(4), b"half");
    server.signal("TERM");
    assert_eq!(client.expect_reset(), b"");
    assert_eq!(server.wait().code, Some(0));
}

#[test]
fn a_second_interrupt_stops_at_once() {
    let upstream = Upstream::start(|peer| {
        peer.read_until_gone();
    });
    let server = Tidegate::start(&behind(&upstream, ""));
    let mut client = server.connect("web");
    client.send(PING);
    server.wait_for_metric("tidegate_exchanges_in_flight", &[], 1.0);
    server.signal("INT");
    server.wait_for_log("draining");
    server.signal("INT");
    client.read_until_gone();
    let exit = server.wait();
    assert!(exit.stderr.contains("cut off connections=1"), "{}", exit.stderr);
}

#[test]
fn it_continues_to_accept_for_a_configured_time() {
    let server = Tidegate::start(&responding("timeouts: { drain_delay: 1h }"));
    let address = server.address("web");
    server.signal("TERM");
    server.wait_for_log("draining");
    let ready = server.exchange("admin", "GET /readyz HTTP/1.1\r\nhost: a\r\n\r\n");
    assert_eq!(ready.status, 503);
    let mut client = Connection::to(address);
    client.send(PING);
    assert_eq!(client.read_response().status, 200);
    // An interrupt ends the wait.
    server.signal("INT");
    assert_eq!(server.wait().code, Some(0));

    let server = Tidegate::start(&responding("timeouts: { drain_delay: 200ms }"));
    server.address("web");
    let begin = Instant::now();
    server.signal("TERM");
    let exit = server.wait();
    assert!(begin.elapsed() >= Duration::from_millis(200));
    assert!(exit.stderr.contains("drained"), "{}", exit.stderr);
    assert_eq!(exit.code, Some(0));
}

#[test]
fn the_last_lines_of_the_access_log_are_written() {
    let server = Tidegate::start(&responding("log: { access: { format: json, path: a.log } }"));
    let mut client = server.connect("web");
    let log = server.path("a.log");
    // Opened while it is there: the directory goes with the server.
    let kept = std::fs::File::open(log).expect("the log is opened at the start");
    for _ in 0..100 {
        client.send(PING);
        assert_eq!(client.read_response().status, 200);
    }
    server.signal("TERM");
    assert_eq!(server.wait().code, Some(0));
    let text = std::io::read_to_string(kept).expect("text");
    assert_eq!(text.lines().count(), 100, "{text}");
}

fn nothing_is_lost(server: Tidegate, count: usize, request: &str, think: Duration) {
    let address = server.address("web");
    let load = Load::start(address, count, request, think, AfterClose::Stop);
    load.wait_for(3 * count);
    server.signal("TERM");
    let Tally { answered, last, lost, held_up } = load.join();
    assert_eq!(lost, 0, "{answered} were answered, {last} of them the last of their connection");
    assert_eq!(last + held_up, count);
    let exit = server.wait();
    assert_eq!(exit.code, Some(0), "{}", exit.stderr);
}

#[test]
fn two_hundred_connections_lose_nothing() {
    let server = Tidegate::start(&responding(""));
    nothing_is_lost(server, 200, PING, Duration::from_millis(20));
}

#[test]
fn two_hundred_connections_through_an_upstream_lose_nothing() {
    let upstream = Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
    let server = Tidegate::start(&patient(&upstream));
    nothing_is_lost(server, 200, PING, Duration::from_millis(20));
}

#[test]
fn clients_that_pause_longer_lose_nothing_either() {
    let server = Tidegate::start(&responding(""));
    nothing_is_lost(server, 50, PING, Duration::from_millis(300));
}

#[test]
fn connections_that_wait_to_be_accepted_are_served() {
    let server = Tidegate::start(&responding("").replace("workers: 2", "workers: 1"));
    let address = server.address("web");
    // Stopped, so that the connections stay in the kernel's queue until the signal is there too.
    server.signal("STOP");
    let mut clients: Vec<Connection> = (0..50).map(|_| Connection::to(address)).collect();
    for client in &mut clients {
        client.send(PING);
    }
    server.signal("TERM");
    server.signal("CONT");
    for mut client in clients {
        // Accepted before or after the signal is heard: answered in either case, and then closed.
        assert_eq!(client.read_response().status, 200);
        client.expect_closed();
    }
    assert_eq!(server.wait().code, Some(0));
}
