//! Servers that register themselves over the admin API.

use super::{Load, admin, body, gateway, server, wait_for};
use scenarios::{Tidegate, Upstream};

const SERVERS: &str = "/v1/upstreams/api/servers";

fn register(gateway: &Tidegate, server: &Upstream) -> u16 {
    admin(gateway, "PUT", SERVERS, &server.address().to_string()).status
}

#[test]
fn servers_register_renew_and_leave_under_load() {
    let servers = ["0", "1"].map(server);
    let gateway = gateway("discover: { registration: { ttl: 1h } }", "");
    assert_eq!(gateway.exchange("web", super::GET).status, 503, "no server has registered");
    assert_eq!(register(&gateway, &servers[0]), 201);
    wait_for(&gateway, &servers[..1]);
    assert_eq!(register(&gateway, &servers[0]), 200, "a heartbeat");
    let load = Load::start(gateway.address("web"));
    for _ in 0..3 {
        assert_eq!(register(&gateway, &servers[1]), 201);
        wait_for(&gateway, &servers);
        load.continues();
        let leaving = format!("{SERVERS}?address={}", servers[1].address());
        assert_eq!(admin(&gateway, "DELETE", &leaving, "").status, 204);
        wait_for(&gateway, &servers[..1]);
        load.continues();
    }
    load.end();
    // A reload keeps registrations.
    let reload = admin(&gateway, "POST", "/v1/reload?wait", "");
    assert_eq!(reload.status, 200, "{reload:?}");
    assert_eq!(body(&gateway), "0");
}

#[test]
fn a_server_without_a_heartbeat_is_removed() {
    let servers = ["0", "1"].map(server);
    let gateway = gateway("discover: { registration: { ttl: 1s }, on_empty: remove }", "");
    for server in &servers {
        assert_eq!(register(&gateway, server), 201);
    }
    // Before it the servers may not have been members yet.
    gateway.wait_for_log("registered servers have sent no heartbeat");
    wait_for(&gateway, []);
    assert_eq!(register(&gateway, &servers[1]), 201, "it is a new one");
}

#[test]
fn what_cannot_register_is_told_why() {
    let gateway = gateway("servers: ['127.0.0.1:9']", "");
    let response = admin(&gateway, "PUT", SERVERS, "127.0.0.1:9");
    assert!(response.status == 409 && response.text().contains("registration"), "{response:?}");
    let response = admin(&gateway, "PUT", "/v1/upstreams/apo/servers", "127.0.0.1:9");
    assert!(response.status == 404 && response.text().contains("did you mean"), "{response:?}");
}
