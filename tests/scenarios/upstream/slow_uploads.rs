//! Clients that send slowly or read slowly: they occupy no server that others need.

use super::{GET, OK, ask, closed, gateway, servers, shown, wait_until, wait_until_released};
use scenarios::{Connection, Tidegate, Upstream, eventually};
use std::time::Duration;

const MIB: usize = 1 << 20;

/// Reads a request with its body, and answers `OK`; `/big` gets 64 MiB.
fn serving() -> Upstream {
    Upstream::start(|peer| {
        while !peer.at_end() {
            let head = peer.read_head().to_ascii_lowercase();
            if head.starts_with("get /big") {
                peer.send(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", 64 * MIB));
                let block = vec![b'x'; MIB];
                if !(0..64).all(|_| peer.try_send(&block)) {
                    return;
                }
                continue;
            }
            let length = head.split_once("content-length: ").map_or(0, |(_, rest)| {
                let digits = rest.split("\r\n").next().unwrap_or_default();
                digits.parse().expect("a length")
            });
            if peer.try_read_exactly(length).is_none() {
                return;
            }
            peer.send(OK);
        }
    })
}

fn in_use(server: &Tidegate) -> i64 {
    shown(server)["servers"][0]["in_flight"].as_i64().expect("a number")
}

fn post(client: &mut Connection, head: &str) {
    client.send(format!("POST / HTTP/1.1\r\nhost: a\r\n{head}\r\n\r\n"));
}

#[test]
fn a_body_that_does_not_come_occupies_no_server() {
    let upstream = serving();
    let address = upstream.address();
    let server = gateway(&format!("servers: [{{ address: \"{address}\", max_connections: 1 }}]"));
    let mut waiting: Vec<_> = (0..6).map(|_| server.connect("web")).collect();
    // Nothing of the body; all of a short one but its last byte; a client that waits to be asked.
    post(&mut waiting[0], "content-length: 1000000");
    post(&mut waiting[1], "transfer-encoding: chunked");
    post(&mut waiting[2], "content-length: 5");
    post(&mut waiting[3], "content-length: 5");
    waiting[3].send("hell");
    post(&mut waiting[4], "content-length: 5\r\nexpect: 100-continue");
    waiting[4].expect("HTTP/1.1 100 Continue\r\n\r\n");
    post(&mut waiting[5], "transfer-encoding: chunked");
    waiting[5].send("5\r\n");
    let in_flight =
        |metrics: &scenarios::Metrics| metrics.sum("tidegate_requests_in_flight", &[]) >= 6.0;
    wait_until(&server, "every request in flight", in_flight);
    for _ in 0..20 {
        assert_eq!(ask(&server).status, 200);
        eventually("no connection is in use", || in_use(&server) == 0);
    }
    for (at, rest) in [(2, "hello"), (3, "o"), (4, "hello")] {
        waiting[at].send(rest);
        assert_eq!(waiting[at].read_response().status, 200);
    }
    drop(waiting);
    wait_until_released(&server);
}

#[test]
fn a_body_below_the_minimum_rate_is_cut_off() {
    let upstream = serving();
    let more = "timeouts: { body: 500ms, body_rate: 100KiB }\n";
    let server = Tidegate::start(&(super::config(&servers(&[&upstream]), 1) + more));
    let mut client = server.connect("web");
    post(&mut client, "content-length: 1000000");
    // Never a pause as long as `body`, and yet too slow.
    let mut sending = client.clone_for_reading();
    let sender = std::thread::spawn(move || {
        while sending.try_send("x") {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let response = client.read_response();
    assert_eq!((response.status, response.header("connection")), (408, Some("close")));
    client.read_until_gone();
    drop(client);
    sender.join().expect("the sender ends");
    let limit = [("limit", "slow_body")];
    server.wait_for_metric("tidegate_limits_hit_total", &limit, 1.0);
    closed(&server, "body_timeout");
    wait_until_released(&server);
}

#[test]
fn a_body_may_take_only_so_long_in_all() {
    let upstream = serving();
    let more = "timeouts: { body_rate: 0B }\n";
    let config = super::config(&servers(&[&upstream]), 1) + more;
    let route = "handler: { upstream: u }, timeouts: { body_total: 700ms }";
    let server = Tidegate::start(&config.replace("handler: { upstream: u }", route));
    let mut client = server.connect("web");
    post(&mut client, "content-length: 10000000");
    let mut sending = client.clone_for_reading();
    let sender = std::thread::spawn(move || {
        // Never idle, and yet not done in the total time.
        let block = [b'x'; 100];
        while sending.try_send(block) {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(client.read_response().status, 408);
    client.read_until_gone();
    drop(client);
    sender.join().expect("the sender ends");
    server.wait_for_metric("tidegate_limits_hit_total", &[("limit", "body_total")], 1.0);
    wait_until_released(&server);
}

#[test]
fn a_response_below_the_minimum_rate_is_cut_off() {
    let upstream = serving();
    let more = "timeouts: { write: 1s, write_rate: 512MiB }\n";
    let server = Tidegate::start(&(super::config(&servers(&[&upstream]), 1) + more));
    let mut client = server.connect("web");
    client.set_receive_buffer(64 << 10);
    client.send(GET.replace(" / ", " /big "));
    client.read_head();
    let mut reading = client.clone_for_reading();
    let reader = std::thread::spawn(move || {
        // A good piece every few milliseconds: no pause, and yet below this rate.
        while reading.try_read_exactly(32 << 10).is_some() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    server.wait_for_metric("tidegate_limits_hit_total", &[("limit", "slow_reader")], 1.0);
    closed(&server, "write_timeout");
    reader.join().expect("the reader ends");
    drop(client);
    wait_until_released(&server);
}

#[test]
fn slow_clients_hold_at_most_their_share_of_the_connections() {
    let upstream = serving();
    let address = upstream.address();
    let server = gateway(&format!("servers: [{{ address: \"{address}\", max_connections: 4 }}]"));
    // Two that send and two that read: all four connections wait for clients.
    let mut waiting: Vec<_> = (0..4).map(|_| server.connect("web")).collect();
    for client in &mut waiting[..2] {
        post(client, "content-length: 1000000");
        client.send("x");
    }
    for client in &mut waiting[2..] {
        client.set_receive_buffer(16 << 10);
        client.send(GET.replace(" / ", " /big "));
        client.read_head();
    }
    // Half of `max_connections` is left to them, so others are served.
    server.wait_for_metric("tidegate_limits_hit_total", &[("limit", "slow_clients")], 2.0);
    let reason = [("reason", "slow_client")];
    wait_until(&server, "two connections closed", |metrics| {
        metrics.sum("tidegate_connections_closed_total", &reason) == 2.0
    });
    eventually("two connections are in use", || in_use(&server) == 2);
    for _ in 0..10 {
        assert_eq!(ask(&server).status, 200);
    }
    drop(waiting);
    wait_until_released(&server);
}
