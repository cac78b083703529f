//! The background tasks: active checks and name resolution.

use std::time::Duration;

use net::Resolver;
use net::worker::block_on_local;

use super::*;
use crate::control;

/// Runs the background tasks until `done`.
async fn controlled(gateway: &Gateway, done: impl AsyncFnOnce()) {
    let names = Arc::new(Resolver::system());
    tokio::select! {
        () = control::run(gateway.upstreams.clone(), names) => panic!("it never ends"),
        () = done() => {}
    }
}

async fn until(gateway: &Gateway, states: &[&str]) {
    while gateway.states() != states {
        net::timer::sleep(Duration::from_millis(4)).await;
    }
}

#[test]
fn checks_take_a_server_out_and_bring_it_back() {
    block_on_local(async {
        let (one, other) = (Server::start(Does::Respond(200)), Server::start(Does::Respond(200)));
        let health = node!({ "health": {
            "path": "/healthz", "interval": "100ms", "healthy_after": 2, "unhealthy_after": 2
        } });
        let gateway = Gateway::new(with(&[&one.text(), &other.text()], health));
        controlled(&gateway, async || {
            while one.requests.get() == 0 {
                net::timer::sleep(Duration::from_millis(4)).await;
            }
            one.does.set(Does::Respond(500));
            until(&gateway, &["unhealthy", "healthy"]).await;
            let before = one.requests.get();
            one.does.set(Does::Respond(201));
            until(&gateway, &["healthy", "healthy"]).await;
            assert!(one.requests.get() >= before + 2);
            other.does.set(Does::Close);
            until(&gateway, &["healthy", "unhealthy"]).await;
        })
        .await;
    });
}

#[test]
fn without_a_path_a_connection_is_enough() {
    block_on_local(async {
        let server = Server::start(Does::Hang);
        let health = node!({ "health": { "interval": "100ms" } });
        let gateway = Gateway::new(with(&[NOWHERE, &server.text()], health));
        controlled(&gateway, async || until(&gateway, &["unhealthy", "healthy"]).await).await;
        assert_eq!(server.requests.get(), 0);
    });
}

#[test]
fn a_server_that_never_responds_fails_its_check() {
    block_on_local(async {
        let server = Server::start(Does::Hang);
        let health = node!({ "health": { "path": "/", "interval": "100ms", "timeout": "20ms" } });
        let gateway = Gateway::new(with(&[&server.text()], health));
        controlled(&gateway, async || until(&gateway, &["unhealthy"]).await).await;
        assert_eq!(gateway.status().await, 503);
    });
}

#[test]
fn names_become_servers_and_checks_follow_a_new_plan() {
    block_on_local(async {
        let server = Server::start(Does::Respond(200));
        let name = format!("localhost:{}", server.address.port());
        let gateway = Gateway::new(with(&[&name], node!({})));
        assert_eq!(gateway.status().await, 503);
        controlled(&gateway, async || {
            gateway.upstreams.wait_resolved(Duration::from_secs(20)).await;
            assert_eq!(gateway.status().await, 200);
            let health = node!({ "health": { "path": "/", "interval": "100ms", "status": "404" } });
            gateway.apply(with(&[&server.text()], health));
            until(&gateway, &["unhealthy"]).await;
            gateway.apply(with(&[&server.text()], node!({})));
            until(&gateway, &["healthy"]).await;
            assert_eq!(gateway.status().await, 200);
        })
        .await;
    });
}
