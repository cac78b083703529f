//! Members that come and go: no request fails, those in flight end whole.

use super::{GET, Load, addresses, body, gateway, lines, replace, server, wait_for};
use scenarios::{Upstream, eventually, gate};
use std::collections::VecDeque;

/// Servers are added and removed in turn while clients send requests. A removed server ends as
/// soon as nothing is in flight to it.
fn no_request_fails(settings: &str) {
    let mut servers: VecDeque<Upstream> = ["0", "1", "2"].map(server).into();
    let settings =
        format!("discover: {{ file: {{ path: servers, interval: 100ms }} }}, {settings}");
    let gateway = gateway(&settings, &lines(&servers));
    let address = gateway.address("web");
    wait_for(&gateway, &servers);
    let load = Load::start(address);
    for round in 3..9 {
        load.continues();
        servers.push_back(server(&round.to_string()));
        replace(&gateway, "servers", &lines(&servers));
        wait_for(&gateway, &servers);
        load.continues();
        let removed = servers.pop_front().expect("a server");
        replace(&gateway, "servers", &lines(&servers));
        wait_for(&gateway, &servers);
        assert!(removed.accepted() > 0, "the server of round {round} was not used");
    }
    // All at once.
    let others: VecDeque<Upstream> = ["a", "b"].map(server).into();
    replace(&gateway, "servers", &lines(&others));
    wait_for(&gateway, &others);
    drop(servers);
    load.continues();
    load.end();
    let metrics = gateway.metrics();
    let changed = [("upstream", "api"), ("result", "changed")];
    assert_eq!(metrics.sum("tidegate_discovery_updates_total", &changed), 14.0);
    assert_eq!(metrics.sum("tidegate_discovery_servers", &[]), 2.0);
    assert_eq!(
        metrics.sum("tidegate_upstream_server_healthy", &[]),
        2.0,
        "no gauge of a removed one"
    );
}

#[test]
fn no_request_fails_under_p2c_with_health_checks() {
    no_request_fails("health: { path: /, interval: 100ms, timeout: 1m }, slow_start: 1s");
}

#[test]
fn no_request_fails_under_round_robin() {
    no_request_fails("balance: round_robin");
}

#[test]
fn a_request_in_flight_to_a_removed_server_ends_whole() {
    let (opener, gate) = gate();
    let old = Upstream::start(move |peer| {
        peer.read_head();
        peer.send("HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nold");
        gate.wait();
        peer.send(" one");
    });
    let new = server("new");
    let gateway = gateway("discover: { file: { path: servers, interval: 100ms } }", &lines([&old]));
    let mut client = gateway.connect("web");
    client.send(GET);
    client.read_until("old");
    replace(&gateway, "servers", &lines([&new]));
    eventually("the removed server is shown", || {
        addresses(&gateway, "removed") == [old.address().to_string()]
            && addresses(&gateway, "healthy") == [new.address().to_string()]
    });
    assert_eq!(body(&gateway), "new");
    opener.open();
    client.expect(" one");
    client.send(GET);
    assert_eq!(client.read_response().text(), "new");
    wait_for(&gateway, [&new]);
}

#[test]
fn a_key_moves_only_if_its_server_leaves() {
    let servers = ["0", "1", "2", "3"].map(server);
    let settings =
        "discover: { file: { path: servers, interval: 100ms } }, balance: { hash: header.x-user }";
    let gateway = gateway(settings, &lines(&servers));
    wait_for(&gateway, &servers);
    let mut client = gateway.connect("web");
    let mut owners = || -> Vec<String> {
        let owner = |user| {
            client.send(format!("GET / HTTP/1.1\r\nhost: a\r\nx-user: {user}\r\n\r\n"));
            client.read_response().text()
        };
        (0..64).map(owner).collect()
    };
    let before = owners();
    replace(&gateway, "servers", &lines(&servers[..3]));
    wait_for(&gateway, &servers[..3]);
    let without = owners();
    for (before, after) in before.iter().zip(&without) {
        assert!(before == after || before == "3", "a key of {before} moved to {after}");
    }
    assert!(before.iter().any(|owner| owner == "3") && !without.iter().any(|owner| owner == "3"));
    replace(&gateway, "servers", &lines(&servers));
    wait_for(&gateway, &servers);
    assert_eq!(owners(), before, "the server that returned has its keys");
}
