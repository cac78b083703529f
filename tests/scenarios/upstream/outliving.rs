//! Across reloads: an exchange ends with the servers it began with, what stays is kept, and what
//! the plan no longer names is closed.

use super::{GET, OK, ask, config, gateway, servers, wait_until, wait_until_released};
use scenarios::gate;
use scenarios::{Tidegate, Upstream};
use std::sync::Mutex;
use std::sync::mpsc::channel;

fn reload(server: &Tidegate, upstream: &str) {
    let count = |metrics: &scenarios::Metrics| metrics.sum("tidegate_config_reloads_total", &[]);
    let before = count(&server.metrics());
    server.rewrite_config(&config(upstream, 1));
    server.signal("HUP");
    wait_until(server, "a reload", |metrics| count(metrics) > before);
}

#[test]
fn an_exchange_ends_where_it_began() {
    let (opener, gate) = gate();
    let old = Upstream::start(move |peer| {
        peer.read_head();
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nold");
        gate.wait();
        peer.send(" one");
    });
    let new = Upstream::responding(OK);
    let server = gateway(&servers(&[&old]));
    let mut client = server.connect("web");
    client.send(GET);
    client.read_until("old");
    reload(&server, &servers(&[&new]));
    assert_eq!(ask(&server).text(), "ok");
    opener.open();
    client.expect(" one");
    // The same connection of the client, the new Plan.
    client.send(GET);
    assert_eq!(client.read_response().text(), "ok");
    assert_eq!(old.accepted(), 1);
    drop(client);
    wait_until_released(&server);
}

#[test]
fn kept_connections_stay_with_servers_that_stay() {
    let (stays, goes) = (Upstream::responding(OK), Upstream::responding(OK));
    let both = format!("{}, balance: round_robin", servers(&[&stays, &goes]));
    let server = gateway(&both);
    for _ in 0..2 {
        ask(&server);
    }
    reload(&server, &format!("{}, balance: random", servers(&[&stays])));
    for _ in 0..4 {
        assert_eq!(ask(&server).status, 200);
    }
    assert_eq!((stays.accepted(), goes.accepted()), (1, 1));
    wait_until_released(&server);
}

#[test]
fn connections_to_removed_servers_are_closed() {
    let (closed, closing) = channel();
    let closed = Mutex::new(closed);
    let old = Upstream::start(move |peer| {
        while !peer.at_end() {
            peer.read_head();
            peer.send(OK);
        }
        closed.lock().expect("no script panics with it").send(()).expect("the test waits");
    });
    let new = Upstream::responding(OK);
    let server = gateway(&servers(&[&old]));
    assert_eq!(ask(&server).text(), "ok");
    reload(&server, &servers(&[&new]));
    // The next request makes the worker read its servers again.
    assert_eq!(ask(&server).text(), "ok");
    closing.recv_timeout(scenarios::PATIENCE).expect("the kept connection is closed");
    wait_until(&server, "one kept connection", |metrics| {
        metrics.sum("tidegate_upstream_connections", &[]) == 1.0
    });
    wait_until_released(&server);
}
