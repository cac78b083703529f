//! The network between a server and etcd or Redis fails: nothing passes, connections are left
//! half-open, reset or refused, or everything is late. No request fails, and what was missed is
//! made up for.

use std::time::Duration;

use crate::etcd::{Server, etcdctl};
use crate::etcd_canary::serving;
use crate::etcd_configuration::{Fleet, Load, body, ready, serve};
use crate::etcd_discovery::{upstream, wait_for};
use crate::purges::{self, Site, all_are_confirmed, all_serve, fill, get, purge_page, rounds};
use crate::shared_limits::{Redis, alone, is_used_up, server, together, use_up};
use crate::tools::has;
use scenarios::{TcpProxy, Tidegate, Upstream, eventually, free_port, temporary_directory};

/// Waits until so many servers report that they serve.
fn report(fleet: &Fleet, count: usize) {
    eventually("every server reports", || {
        let (code, nodes) = fleet.ctl(&["nodes"]);
        code == Some(0) && nodes.matches(" serving").count() == count
    });
}

#[test]
fn configuration_arrives_after_each_fault_of_the_network_to_etcd() {
    if !has("etcd") {
        return;
    }
    let fleet = Fleet::start();
    fleet.apply("one");
    let proxy = fleet.proxy();
    let nodes = [fleet.node("n1"), fleet.node_at("n2", proxy.port())];
    serve(&nodes, "one");
    let [near, far] = &nodes;
    let load = Load::start(&nodes);
    let notices = || {
        eventually("the server notices that it does not reach etcd", || {
            let (status, text) = ready(far);
            assert_eq!(status, 200);
            text.contains("etcd: ")
        });
    };
    // The watch hangs: nothing tells it so.
    proxy.silence();
    fleet.apply("two");
    serve(std::slice::from_ref(near), "two");
    assert_eq!(body(far.address("web")), "one");
    notices();
    proxy.pass();
    serve(&nodes, "two");
    eventually("the server follows etcd again", || ready(far) == (200, "ready\n".to_owned()));
    // New connections pass; the one that the server has never ends by itself.
    proxy.leave_half_open();
    fleet.apply("three");
    serve(&nodes, "three");
    proxy.reset();
    fleet.apply("four");
    serve(&nodes, "four");
    proxy.refuse();
    notices();
    fleet.apply("five");
    serve(std::slice::from_ref(near), "five");
    proxy.pass();
    serve(&nodes, "five");
    proxy.delay(Duration::from_millis(200));
    fleet.apply("six");
    serve(&nodes, "six");
    proxy.pass();
    load.end();
    report(&fleet, 2);
    fleet.kill_etcd();
}

/// A fleet of two servers that serve `one`, each behind a proxy in front of etcd.
fn fleet_behind_proxies() -> (Fleet, [TcpProxy; 2], [Tidegate; 2]) {
    let fleet = Fleet::start();
    fleet.apply("one");
    let proxies = [fleet.proxy(), fleet.proxy()];
    let nodes = [("n1", &proxies[0]), ("n2", &proxies[1])]
        .map(|(name, proxy)| fleet.node_at(name, proxy.port()));
    serve(&nodes, "one");
    report(&fleet, 2);
    (fleet, proxies, nodes)
}

#[test]
fn a_canary_ends_if_its_command_is_cut_off_from_etcd() {
    if !has("etcd") {
        return;
    }
    let (fleet, _proxies, nodes) = fleet_behind_proxies();
    let load = Load::start(&nodes);
    // Its lease ends while the command still runs.
    let of_command = fleet.proxy();
    let trial = fleet.try_out_at("two", &Fleet::url_at(of_command.port()));
    eventually("one server tries it", || serving(&nodes, "two") == 1);
    of_command.silence();
    eventually("the lease has ended", || serving(&nodes, "one") == 2);
    assert_eq!(trial.wait().code, Some(1));
    load.end();
    fleet.kill_etcd();
}

#[test]
fn a_canary_ends_if_its_server_is_cut_off_from_etcd() {
    if !has("etcd") {
        return;
    }
    let (fleet, proxies, nodes) = fleet_behind_proxies();
    let load = Load::start(&nodes);
    // A server that does not report fails the trial, and returns by itself.
    let trial = fleet.try_out_at("two", &fleet.url());
    let mut at = nodes.len();
    eventually("one server tries it", || {
        at = nodes.iter().position(|node| body(node.address("web")) == "two").unwrap_or(at);
        at < nodes.len()
    });
    proxies[at].silence();
    let failed = trial.wait();
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let why = failed.stdout + &failed.stderr;
    assert!(why.contains("does not report any more"), "{why}");
    serve(&nodes, "one");
    proxies[at].pass();
    fleet.apply("three");
    serve(&nodes, "three");
    load.end();
    fleet.kill_etcd();
}

#[test]
fn limits_are_settled_after_each_fault_of_the_network_to_redis() {
    if !has("redis-server") {
        return;
    }
    let (directory, port) = (temporary_directory(), free_port());
    let _redis = Redis::on_port(directory.path(), port, &[]);
    let proxy = TcpProxy::start(port);
    let start = |name: &str, port: u16| {
        let shared = format!("redis: [\"redis://127.0.0.1:{port}\"], timeout: 200ms");
        server(&directory.path().join(name), &shared)
    };
    let servers = [start("a", port), start("b", proxy.port())];
    for server in &servers {
        server.wait_for_metric("tidegate_shared_limits_servers", &[], 2.0);
    }
    let [near, far] = &servers;
    let load = Load::start(&servers);
    let settles = |user: &str| {
        use_up(near, "/quota", user, 20);
        is_used_up(far, "/quota", user);
    };
    settles("ann");
    proxy.silence();
    alone(far);
    proxy.pass();
    together(&servers[1..]);
    settles("bob");
    proxy.leave_half_open();
    settles("cid");
    proxy.reset();
    settles("dan");
    proxy.refuse();
    alone(far);
    proxy.pass();
    together(&servers[1..]);
    settles("eve");
    proxy.delay(Duration::from_millis(30));
    settles("fay");
    load.end();
}

#[test]
fn purges_are_applied_after_each_fault_of_the_network_to_redis() {
    if !has("redis-server") {
        return;
    }
    let (directory, port) = (temporary_directory(), free_port());
    let _redis = Redis::on_port(directory.path(), port, &[]);
    let (site, proxy) = (Site::start(), TcpProxy::start(port));
    let start = |name: &str, port: u16| {
        site.with_redis(name, &format!("redis://127.0.0.1:{port}"), "alone: 1m", None)
    };
    let servers = [start("a", port), start("b", proxy.port())];
    all_serve(&servers);
    purge_through_faults(&site, &proxy, &servers);
}

#[test]
fn purges_are_applied_after_each_fault_of_the_network_to_etcd() {
    if !has("etcd") {
        return;
    }
    let site = Site::start();
    let mut fleet = purges::Fleet::start(&site);
    let proxy = TcpProxy::start(fleet.port);
    let servers = [fleet.node_at("a", fleet.port), fleet.node_at("b", proxy.port())];
    fleet.all_serve(&servers);
    purge_through_faults(&site, &proxy, &servers);
    fleet.kill();
}

/// The second server is behind the proxy.
fn purge_through_faults(site: &Site, proxy: &TcpProxy, servers: &[Tidegate; 2]) {
    let [near, far] = servers;
    assert_eq!(rounds(site, servers, 10), 10);
    // A purge is not confirmed while a server does not hear of it, and reaches it later.
    fill(servers, "/0");
    proxy.silence();
    let version = site.change("/0");
    let answer = purge_page(near, "/0");
    assert!(answer["confirmed"] == false && answer["missing"][0]["server"] == "b", "{answer}");
    eventually("the server notices that it does not reach the log", || {
        let (status, text) = ready(far);
        status == 200 && text.contains("purges: ")
    });
    proxy.pass();
    eventually("the purge reaches the server", || get(far, "/0").0 == version);
    confirmed(near, "/0");
    all_are_confirmed(site, servers, 10);
    // Both ways: what this server purges, and what it applies.
    for server in servers {
        fill(servers, "/1");
        proxy.leave_half_open();
        let version = site.change("/1");
        confirmed(server, "/1");
        for server in servers {
            assert_eq!(get(server, "/1").0, version);
        }
    }
    proxy.reset();
    confirmed(far, "/2");
    all_are_confirmed(site, servers, 10);
    proxy.delay(Duration::from_millis(20));
    all_are_confirmed(site, servers, 5);
}

/// Purges a page until all servers have applied that.
fn confirmed(server: &Tidegate, path: &str) {
    eventually("the purge is confirmed", || purge_page(server, path)["confirmed"] == true);
}

#[test]
fn members_of_an_upstream_arrive_after_each_fault_of_the_network_to_etcd() {
    if !has("etcd") || !has("etcdctl") {
        return;
    }
    let directory = temporary_directory();
    let etcd = Server::start(directory.path(), "http", &[]);
    let proxy = TcpProxy::start(etcd.port);
    let servers =
        [(); 2].map(|()| Upstream::responding("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"));
    let endpoint = format!("http://127.0.0.1:{}", etcd.port);
    let change = |verb: &[&str]| drop(etcdctl(directory.path(), &endpoint, verb));
    let [first, second] = &servers;
    let addresses = [first, second].map(|server| server.address().to_string());
    change(&["put", "/services/api/1", &addresses[0]]);
    let gateways = [Tidegate::start(&format!(
        r#"
listeners: {{ web: {{ bind: "127.0.0.1:0" }} }}
admin: {{ bind: "127.0.0.1:0", token: sesame, socket: admin.sock }}
upstreams:
  api: {{ discover: {{ etcd: {{ endpoints: "127.0.0.1:{}", prefix: /services/api/ }} }} }}
routes:
  - {{ handler: {{ upstream: api }} }}
"#,
        proxy.port()
    ))];
    let [gateway] = &gateways;
    wait_for(gateway, &[first]);
    let load = Load::start(&gateways);
    // Each fault is followed by a change, and the last known members stay until it arrives.
    proxy.silence();
    change(&["put", "/services/api/2", &addresses[1]]);
    eventually("the failure is shown", || upstream(gateway)["discovery"]["error"].is_string());
    wait_for(gateway, &[first]);
    proxy.pass();
    wait_for(gateway, &[first, second]);
    proxy.leave_half_open();
    change(&["del", "/services/api/1"]);
    wait_for(gateway, &[second]);
    proxy.reset();
    change(&["put", "/services/api/1", &addresses[0]]);
    wait_for(gateway, &[first, second]);
    proxy.refuse();
    change(&["del", "/services/api/2"]);
    eventually("the failure is shown", || upstream(gateway)["discovery"]["error"].is_string());
    proxy.pass();
    wait_for(gateway, &[first]);
    load.end();
    etcd.kill();
}
