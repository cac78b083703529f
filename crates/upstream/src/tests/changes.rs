//! Servers that an operator drains or whose weight changes, until the next reload.

use net::worker::block_on_local;
use settings::node;

use super::balancing::Table;
use super::*;
use crate::ServerChange;

const DRAIN: ServerChange = ServerChange { drain: Some(true), weight: None };
const READY: ServerChange = ServerChange { drain: Some(false), weight: None };

fn weight(weight: u32) -> ServerChange {
    ServerChange { drain: None, weight: Some(weight) }
}

#[test]
fn a_draining_server_gets_no_requests_until_it_is_ready() {
    block_on_local(async {
        let (one, two) = (Server::start(Does::Respond(200)), Server::start(Does::Respond(200)));
        let gateway = Gateway::new(with(&[&one.text(), &two.text()], node!({})));
        assert!(gateway.upstreams.change_server("test", &one.text(), DRAIN));
        assert_eq!(gateway.states(), ["draining", "healthy"]);
        for _ in 0..20 {
            assert_eq!(gateway.status().await, 200);
        }
        assert_eq!((one.requests.get(), two.requests.get()), (0, 20));
        assert!(gateway.upstreams.change_server("test", &two.text(), DRAIN));
        assert_eq!(gateway.status().await, 503, "no server is in rotation");
        assert!(gateway.upstreams.change_server("test", &one.text(), READY));
        assert_eq!(gateway.states(), ["healthy", "draining"]);
        assert_eq!(gateway.status().await, 200);
        assert_eq!((one.requests.get(), two.requests.get()), (1, 20));
        let mut changes = gateway.health_changes();
        changes.sort();
        let mut expected = [
            format!("{} draining: by the admin API", one.text()),
            format!("{} draining: by the admin API", two.text()),
            format!("{} healthy: the drain has ended", one.text()),
        ];
        expected.sort();
        assert_eq!(changes, expected);
    });
}

#[test]
fn a_draining_server_does_not_count_among_those_that_have_failed() {
    block_on_local(async {
        let servers: Vec<Server> = (0..3).map(|_| Server::start(Does::Respond(200))).collect();
        let names: Vec<String> = servers.iter().map(Server::text).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let gateway = Gateway::new(with(&names, node!({ "panic_threshold": "50%" })));
        assert!(gateway.upstreams.change_server("test", names[0], DRAIN));
        assert!(gateway.upstreams.change_server("test", names[1], DRAIN));
        assert!(!gateway.upstreams.status(&gateway.context.shared, 1)[0].panic);
        for _ in 0..5 {
            assert_eq!(gateway.status().await, 200);
        }
        assert_eq!(servers[2].requests.get(), 5);
    });
}

#[test]
fn a_reload_ends_changes() {
    block_on_local(async {
        let server = Server::start(Does::Respond(200));
        let settings = || with(&[&server.text()], node!({}));
        let gateway = Gateway::new(settings());
        assert!(gateway.upstreams.change_server("test", &server.text(), weight(7)));
        assert!(gateway.upstreams.change_server("test", &server.text(), DRAIN));
        let shown = || {
            let status = gateway.upstreams.status(&gateway.context.shared, 1);
            let server = &status[0].servers[0];
            (server.weight, server.state.as_str(), server.changed)
        };
        assert_eq!(shown(), (7, "draining", true), "the second change adds to the first");
        gateway.apply(settings());
        assert_eq!(shown(), (1, "healthy", false));
        assert_eq!(gateway.status().await, 200);
    });
}

#[test]
fn what_does_not_exist_is_not_changed() {
    block_on_local(async {
        let gateway = Gateway::new(with(&["10.0.0.1:80"], node!({})));
        let change = |upstream, server| gateway.upstreams.change_server(upstream, server, DRAIN);
        assert!(!change("other", "10.0.0.1:80") && !change("test", "10.0.0.2:80"));
        assert_eq!(gateway.states(), ["healthy"]);
        assert!(change("test", "10.0.0.1:80"));
    });
}

#[test]
fn a_changed_weight_distributes_requests() {
    block_on_local(async {
        let table = Table::new(&[1, 1], node!({ "balance": "round_robin" }));
        assert!(table.gateway.upstreams.change_server("test", "10.0.0.1:80", weight(3)));
        assert_eq!(table.shares(1), [0.75, 0.25]);
    });
}

#[test]
fn the_latency_of_a_server_is_shown() {
    block_on_local(async {
        let table = Table::new(&[1, 1], node!({}));
        let latencies = || {
            let status = table.gateway.upstreams.status(&table.gateway.context.shared, 1);
            status[0].servers.iter().map(|server| server.latency_us).collect::<Vec<_>>()
        };
        let view = table.local.view(1);
        assert_eq!(latencies(), [None, None]);
        view.peers[0].stats.measure(100_000, 1_000_000);
        assert_eq!(latencies(), [Some(100_000), None]);
        view.peers[0].stats.measure_failure(1, 1_000_001);
        assert_eq!(latencies(), [Some(100_000), None], "a failure is not a latency");
    });
}
