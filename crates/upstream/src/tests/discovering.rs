//! Members that come from a source: how new ones begin, what remaining ones keep, DNS.

use std::net::Ipv4Addr;
use std::time::Duration;

use net::clock::{self, Moment};
use net::worker::block_on_local;
use net::{Datagram, Resolver, ResolverSettings};

use super::*;
use crate::cluster::Cluster;
use crate::control;
use crate::discovered::{DiscoveredServers, read_list};
use crate::server_address::ServerProtocol;

fn found(servers: &[&str]) -> DiscoveredServers {
    read_list(servers.join("\n").as_bytes(), ServerProtocol::Http).unwrap()
}

fn cluster(gateway: &Gateway) -> Arc<Cluster> {
    gateway.upstreams.get("test").unwrap()
}

/// The addresses of the members, with their states.
fn members(gateway: &Gateway) -> Vec<String> {
    let status = gateway.upstreams.status(&gateway.context.shared, 1);
    let show =
        |server: &crate::ServerStatus| format!("{} {}", server.address, server.state.as_str());
    status[0].servers.iter().map(show).collect()
}

/// A gateway whose servers are set by the test.
fn discovering(more: Node) -> Gateway {
    let key = |name: &str| MapKey { name: name.to_owned(), span: Span::NOWHERE };
    let mut entries = vec![(key("discover"), node!({ "registration": {} }))];
    if let Value::Map(more) = more.value {
        entries.extend(more);
    }
    Gateway::new(Node::made(Value::Map(entries)))
}

#[test]
fn remaining_servers_keep_their_health() {
    block_on_local(async {
        let (bad, good) = (Server::start(Does::Respond(503)), Server::start(Does::Respond(200)));
        let other = Server::start(Does::Respond(200));
        let gateway = discovering(node!({
            "balance": "round_robin",
            "ejection": { "failures": 1 },
            "retries": { "attempts": 1 }
        }));
        let cluster = cluster(&gateway);
        cluster.discovered(found(&[&bad.text(), &good.text()]));
        let is_ejected = || members(&gateway).contains(&format!("{} ejected", bad.text()));
        while !is_ejected() || good.requests.get() == 0 {
            gateway.status().await;
        }
        let connections = good.connections.get();
        cluster.discovered(found(&[&bad.text(), &good.text(), &other.text()]));
        assert!(is_ejected());
        for _ in 0..4 {
            assert_eq!(gateway.status().await, 200);
        }
        assert_eq!(good.connections.get(), connections, "its connection is reused");
        cluster.discovered(found(&[&other.text()]));
        assert_eq!(members(&gateway), [format!("{} healthy", other.text())]);
        cluster.discovered(found(&[&bad.text(), &other.text()]));
        assert!(members(&gateway).contains(&format!("{} healthy", bad.text())), "it is a new one");
    });
}

#[test]
fn a_new_server_begins_slowly_and_the_first_ones_do_not() {
    block_on_local(async {
        let gateway = discovering(node!({ "slow_start": "30s" }));
        let cluster = cluster(&gateway);
        cluster.discovered(found(&["10.0.0.1:80", "10.0.0.2:80"]));
        let local = crate::local::LocalCluster::of(&gateway.context, &cluster);
        let warmth = || -> Vec<f64> {
            let now_ms = clock::precise_us() / 1000;
            let view = local.view(now_ms);
            view.peers.iter().map(|peer| peer.warmth(view.slow_start_ms, now_ms)).collect()
        };
        assert_eq!(warmth(), [1.0, 1.0]);
        cluster.discovered(found(&["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80"]));
        let warmth = warmth();
        assert_eq!(&warmth[..2], [1.0, 1.0]);
        assert!(warmth[2] < 0.2, "{warmth:?}");
    });
}

#[test]
fn a_new_server_is_used_after_its_first_check() {
    block_on_local(async {
        let servers = [Server::start(Does::Respond(200)), Server::start(Does::Respond(200))];
        let gateway = discovering(node!({ "health": { "path": "/", "interval": "100ms" } }));
        let cluster = cluster(&gateway);
        cluster.discovered(found(&[&servers[0].text()]));
        assert_eq!(members(&gateway), [format!("{} healthy", servers[0].text())]);
        cluster.discovered(found(&[&servers[0].text(), &servers[1].text()]));
        assert!(members(&gateway).contains(&format!("{} unhealthy", servers[1].text())));
        // Without another server it is used at once.
        cluster.discovered(found(&[&servers[1].text()]));
        cluster.discovered(found(&[&servers[0].text()]));
        assert_eq!(members(&gateway), [format!("{} healthy", servers[0].text())]);
        cluster.discovered(found(&[&servers[0].text(), &servers[1].text()]));
        let names = Arc::new(Resolver::system());
        let control = net::task::spawn_local(control::run(gateway.upstreams.clone(), names));
        let checked = async {
            // The source, without registrations, names no server, and the last ones stay.
            while members(&gateway).iter().any(|member| !member.ends_with(" healthy")) {
                net::timer::sleep(Duration::from_millis(5)).await;
            }
        };
        net::timer::within(Duration::from_secs(20), checked).await.expect("a check");
        control.abort();
    });
}

#[test]
fn a_retry_goes_to_a_server_that_has_come_since() {
    block_on_local(async {
        let good = Server::start(Does::Respond(200));
        let gone = listening();
        let gateway = discovering(node!({}));
        let cluster = cluster(&gateway);
        cluster.discovered(found(&[&gone.local().to_string()]));
        let listener = gone.into_sockets().remove(0).adopt().unwrap();
        let leaving = async {
            let accepted = listener.accept().await.unwrap();
            accepted.stream.receive().await.unwrap();
            cluster.discovered(found(&[&good.text()]));
        };
        let mut request = request(Method::Get, Body::Empty);
        let (sent, ()) = tokio::join!(gateway.send(&mut request), leaving);
        assert_eq!(sent.unwrap().status, 200);
        assert_eq!(good.requests.get(), 1);
    });
}

#[test]
fn a_plan_with_another_source_keeps_the_servers_until_it_responds() {
    block_on_local(async {
        let gateway = discovering(node!({}));
        cluster(&gateway).discovered(found(&["10.0.0.1:80"]));
        gateway.apply(node!({ "discover": { "file": "/nowhere" } }));
        assert_eq!(members(&gateway), ["10.0.0.1:80 healthy"]);
        cluster(&gateway).discovery_failed("no such file");
        assert_eq!(members(&gateway), ["10.0.0.1:80 healthy"]);
        let problems = gateway.upstreams.problems();
        assert_eq!(problems, ["upstream test: file /nowhere: no such file; 1 servers in use"]);
        gateway.apply(node!({ "servers": ["10.0.0.2:80"] }));
        assert_eq!(members(&gateway), ["10.0.0.2:80 healthy"]);
        assert!(gateway.upstreams.problems().is_empty());
        cluster(&gateway).discovered(found(&["10.0.0.1:80"]));
        assert_eq!(members(&gateway), ["10.0.0.2:80 healthy"], "a late response of the source");
    });
}

#[test]
fn servers_stay_until_a_name_of_the_next_ones_is_resolved() {
    block_on_local(async {
        let gateway = discovering(node!({}));
        let cluster = cluster(&gateway);
        cluster.discovered(found(&["10.0.0.1:80"]));
        cluster.discovered(found(&["next.test:80"]));
        assert_eq!(members(&gateway), ["10.0.0.1:80 healthy"]);
        let name = found(&["next.test:80"]).servers[0].address.address.clone();
        let address = http_client::Destination::Tcp("10.0.0.2:80".parse().unwrap());
        cluster.resolve(&name, vec![address]);
        assert_eq!(members(&gateway), ["10.0.0.2:80 healthy"]);
        cluster.resolve(&name, Vec::new());
        assert!(members(&gateway).is_empty(), "it is known to have no address");
    });
}

#[test]
fn names_keep_their_addresses_until_their_source_has_a_newer_list() {
    block_on_local(async {
        let gateway = Gateway::new(node!({ "discover": { "file": "/nowhere" } }));
        let cluster = cluster(&gateway);
        let list = found(&["next.test:80"]);
        let name = list.servers[0].address.address.clone();
        let resolve = || {
            let address = http_client::Destination::Tcp("10.0.0.2:80".parse().unwrap());
            cluster.resolve(&name, vec![address]);
        };
        let (before, after) = (None, Some(Moment::NEVER));
        cluster.discovered(list.clone());
        resolve();
        cluster.name_unknown(&name, after);
        assert_eq!(members(&gateway), ["10.0.0.2:80 healthy"], "the list is the older one");
        cluster.discovery_failed("no such file");
        cluster.name_unknown(&name, before);
        assert_eq!(members(&gateway), ["10.0.0.2:80 healthy"], "the source fails");
        cluster.discovered(found(&[]));
        cluster.discovery_confirmed();
        cluster.name_unknown(&name, before);
        assert_eq!(members(&gateway), ["10.0.0.2:80 healthy"], "the list is kept");
        cluster.discovered(list.clone());
        cluster.name_unknown(&name, before);
        assert!(members(&gateway).is_empty(), "the source still names it");
        resolve();
        gateway.apply(node!({ "discover": { "file": "/nowhere", "on_empty": "remove" } }));
        cluster.name_unknown(&name, after);
        assert!(members(&gateway).is_empty(), "the setting");
        let listed = node!({ "servers": ["next.test:80"], "discover": { "file": "/nowhere" } });
        gateway.apply(listed);
        resolve();
        cluster.name_unknown(&name, after);
        assert!(members(&gateway).is_empty(), "a name of the configuration");
    });
}

#[test]
fn what_is_empty_follows_the_setting() {
    block_on_local(async {
        let gateway = discovering(node!({}));
        let cluster = cluster(&gateway);
        cluster.discovered(found(&["10.0.0.1:80"]));
        cluster.discovered(found(&[]));
        assert_eq!(members(&gateway), ["10.0.0.1:80 healthy"]);
        assert!(gateway.upstreams.problems()[0].contains("the response has no servers"));
        gateway.apply(node!({ "discover": { "registration": {}, "on_empty": "remove" } }));
        assert_eq!(members(&gateway), ["10.0.0.1:80 healthy"], "the source is the same");
        let unusable = DiscoveredServers { servers: Vec::new(), rejected: vec!["x".to_owned()] };
        cluster.discovered(unusable);
        assert_eq!(members(&gateway), ["10.0.0.1:80 healthy"], "not empty, but malformed");
        cluster.discovered(found(&[]));
        assert!(members(&gateway).is_empty() && gateway.upstreams.problems().is_empty());
    });
}

/// A name server with one service of two hosts, which it responds to all queries for.
async fn name_server(socket: Datagram, ports: [u16; 2]) {
    while let Ok((query, from)) = socket.receive_from().await {
        // After the header and the name: type and class (RFC 1035 4.1).
        let name = query[12..].iter().position(|byte| *byte == 0).unwrap() + 13;
        let kind = u16::from_be_bytes([query[name], query[name + 1]]);
        let records: Vec<Vec<u8>> = match kind {
            33 => [(1, ports[0], "one"), (2, ports[1], "two")]
                .map(|(priority, port, host): (u16, u16, &str)| {
                    let mut data = [priority, 10, port].map(u16::to_be_bytes).concat();
                    for label in [host, "discovery", "test"] {
                        data.push(u8::try_from(label.len()).unwrap());
                        data.extend(label.bytes());
                    }
                    data.push(0);
                    data
                })
                .to_vec(),
            1 => vec![Ipv4Addr::LOCALHOST.octets().to_vec()],
            _ => Vec::new(),
        };
        let mut response = query[..2].to_vec();
        let counts = [1, u16::try_from(records.len()).unwrap(), 0, 0].map(u16::to_be_bytes);
        response.extend([0x84, 0x00]);
        response.extend(counts.concat());
        response.extend(&query[12..name + 4]);
        for data in records {
            response.extend([0xc0, 12]);
            response.extend([kind, 1].map(u16::to_be_bytes).concat());
            response.extend(300u32.to_be_bytes());
            response.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
            response.extend(data);
        }
        if socket.send_to(&response, from).await.is_err() {
            return;
        }
    }
}

#[test]
fn dns_names_a_service_or_a_host() {
    block_on_local(async {
        let servers = [Server::start(Does::Respond(200)), Server::start(Does::Respond(200))];
        let ports = [servers[0].address.port(), servers[1].address.port()];
        let socket = Datagram::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let settings = ResolverSettings {
            servers: vec![socket.local()],
            search: Some(Vec::new()),
            ..ResolverSettings::default()
        };
        let serving = net::task::spawn_local(name_server(socket, ports));
        for (name, expected, backups) in [
            ("_api._tcp.discovery.test".to_owned(), 2, 1),
            (format!("api.discovery.test:{}", ports[1]), 1, 0),
        ] {
            let gateway = Gateway::new(node!({ "discover": { "dns": name } }));
            let names = Arc::new(Resolver::with_settings(settings.clone()));
            let control = net::task::spawn_local(control::run(gateway.upstreams.clone(), names));
            let resolved = async {
                while gateway.states().len() < expected {
                    net::timer::sleep(Duration::from_millis(5)).await;
                }
            };
            net::timer::within(Duration::from_secs(20), resolved).await.expect("servers");
            let status = gateway.upstreams.status(&gateway.context.shared, 1);
            let are_backups = status[0].servers.iter().filter(|server| server.backup);
            assert_eq!(are_backups.count(), backups, "{status:?}");
            assert_eq!(gateway.status().await, 200);
            control.abort();
        }
        assert_eq!(servers[0].requests.get(), 1, "the first priority");
        assert_eq!(servers[1].requests.get(), 1);
        serving.abort();
    });
}
