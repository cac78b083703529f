//! Ejection, its bound, the return, panic mode, backups, and what a new plan preserves.

use std::time::Duration;

use net::worker::block_on_local;

use super::*;

#[test]
fn a_failing_server_is_ejected_and_a_trial_brings_it_back() {
    net::manual_time::block_on(async {
        let (bad, good) = (Server::start(Does::Respond(503)), Server::start(Does::Respond(200)));
        let more = node!({
            "balance": "round_robin",
            "ejection": { "failures": 3, "ejected_for": "60ms" }
        });
        let gateway = Gateway::new(with(&[&bad.text(), &good.text()], more));
        for _ in 0..6 {
            gateway.status().await;
        }
        assert_eq!(gateway.states(), ["ejected", "healthy"]);
        assert_eq!(bad.requests.get(), 3);
        for _ in 0..4 {
            assert_eq!(gateway.status().await, 200);
        }
        assert_eq!(bad.requests.get(), 3);
        // The ejection has ended: one request tries the server, fails, and it is out for twice as
        // long.
        until(&gateway, "trial").await;
        assert_eq!(gateway.status().await, 503);
        assert_eq!(gateway.states()[0], "ejected");
        let status = gateway.upstreams.status(&gateway.context.shared, 1);
        assert!(status[0].servers[0].ejected_for_ms > 80);
        until(&gateway, "trial").await;
        bad.does.set(Does::Respond(200));
        assert_eq!(gateway.status().await, 200);
        assert_eq!(gateway.states(), ["healthy", "healthy"]);
        assert_eq!(bad.requests.get(), 5);
        let expected = [
            ("healthy", "the trial request succeeded"),
            ("ejected", "the trial request failed; for 120 ms"),
            ("ejected", "3 failures in a row; for 60 ms"),
        ];
        let expected = expected.map(|(state, why)| format!("{} {state}: {why}", bad.text()));
        assert_eq!(gateway.health_changes(), expected);
        let status = gateway.upstreams.status(&gateway.context.shared, 1);
        let last = status[0].servers[0].last_change.clone().unwrap();
        assert_eq!(last.why, "the trial request succeeded");
        assert_eq!(status[0].servers[1].last_change, None);
        let marks = gateway.context.telemetry.marks().since(0);
        assert_eq!((marks.len(), marks[0].kind), (3, telemetry::MarkKind::Bad));
        let text = format!("test {} is back: the trial request succeeded", bad.text());
        assert_eq!((&marks[2].text, marks[2].kind), (&text, telemetry::MarkKind::Good));
    });
}

/// Moves the clock until the first server has that state.
async fn until(gateway: &Gateway, state: &str) {
    while gateway.states()[0] != state {
        net::manual_time::advance(Duration::from_millis(4)).await;
    }
}

#[test]
fn only_one_request_at_a_time_tries_an_ejected_server() {
    net::manual_time::block_on(async {
        let (bad, good) = (Server::start(Does::Respond(503)), Server::start(Does::Respond(200)));
        let more = node!({ "ejection": { "failures": 1, "ejected_for": "20ms" } });
        let gateway = Gateway::new(with(&[&bad.text(), &good.text()], more));
        while gateway.states()[0] != "ejected" {
            gateway.status().await;
        }
        let before = bad.requests.get();
        until(&gateway, "trial").await;
        bad.does.set(Does::Hang);
        // Of these, the one that tries the server hangs; the other server responds to the rest.
        let trial = async {
            loop {
                assert_eq!(gateway.status().await, 200);
            }
        };
        let others = async {
            while bad.requests.get() == before {
                tokio::task::yield_now().await;
            }
            for _ in 0..20 {
                assert_eq!(gateway.status().await, 200);
            }
        };
        tokio::select! {
            () = trial => {}
            () = others => {}
        }
        assert_eq!(bad.requests.get(), before + 1);
        // The trial was dropped: another request may try.
        bad.does.set(Does::Respond(200));
        assert_eq!(gateway.status().await, 200);
        assert_eq!(gateway.states()[0], "healthy");
    });
}

#[test]
fn no_more_than_the_allowed_share_is_ejected() {
    block_on_local(async {
        let servers: Vec<Server> = (0..4).map(|_| Server::start(Does::Respond(503))).collect();
        let texts: Vec<String> = servers.iter().map(Server::text).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let more = node!({ "balance": "round_robin", "ejection": { "failures": 1 } });
        let gateway = Gateway::new(with(&texts, more));
        for _ in 0..12 {
            assert_eq!(gateway.status().await, 503);
        }
        let ejected = gateway.states().into_iter().filter(|state| *state == "ejected").count();
        assert_eq!(ejected, 2);
        // A single server is never ejected: half of one is none.
        let more = node!({ "ejection": { "failures": 1 } });
        let gateway = Gateway::new(with(&texts[..1], more));
        gateway.status().await;
        gateway.status().await;
        assert_eq!(gateway.states(), ["healthy"]);
    });
}

/// Marks servers as unhealthy, as active checks do.
fn fail(gateway: &Gateway, servers: &[usize]) {
    let cluster = gateway.upstreams.get("test").unwrap();
    let members = cluster.snapshot().members;
    for server in servers {
        cluster.set_checked(&members.list[*server], false, 1, "by the test");
    }
}

#[test]
fn without_a_healthy_server_the_response_is_503_or_panic_mode() {
    block_on_local(async {
        let (one, other) = (Server::start(Does::Respond(200)), Server::start(Does::Respond(200)));
        let servers = [&*one.text(), &*other.text()];
        let gateway = Gateway::new(with(&servers, node!({ "health": {} })));
        fail(&gateway, &[0]);
        assert_eq!(gateway.status().await, 200);
        assert_eq!((one.requests.get(), other.requests.get()), (0, 1));
        fail(&gateway, &[1]);
        let fault = gateway.get().await.err().unwrap();
        assert_eq!((fault.status, fault.slug()), (503, "destination_unavailable"));
        // In rotation, even if one of the two was slow on a busy machine.
        let more = node!({ "health": {}, "panic_threshold": "50%", "balance": "round_robin" });
        gateway.apply(with(&servers, more));
        for _ in 0..20 {
            assert_eq!(gateway.status().await, 200);
        }
        assert!(one.requests.get() > 0 && other.requests.get() > 1);
        assert!(gateway.upstreams.status(&gateway.context.shared, 1)[0].panic);
    });
}

#[test]
fn backups_are_used_only_when_no_primary_is() {
    block_on_local(async {
        let (primary, backup) =
            (Server::start(Does::Respond(200)), Server::start(Does::Respond(200)));
        let servers = Node::made(Value::List(vec![
            Node::plain(primary.text()),
            Node::made(Value::Map(vec![
                (key("address"), Node::plain(backup.text())),
                (key("backup"), Node::plain("true")),
            ])),
        ]));
        let settings =
            Node::made(Value::Map(vec![(key("servers"), servers), (key("health"), node!({}))]));
        let gateway = Gateway::new(settings);
        for _ in 0..5 {
            gateway.status().await;
        }
        assert_eq!((primary.requests.get(), backup.requests.get()), (5, 0));
        fail(&gateway, &[0]);
        assert_eq!(gateway.status().await, 200);
        assert_eq!((primary.requests.get(), backup.requests.get()), (5, 1));
    });
}

fn key(name: &str) -> MapKey {
    MapKey { name: name.to_owned(), span: Span::NOWHERE }
}

#[test]
fn a_new_plan_keeps_health_and_connections() {
    block_on_local(async {
        let (one, other) = (Server::start(Does::Respond(200)), Server::start(Does::Respond(200)));
        let servers = [&*one.text(), &*other.text()];
        let gateway =
            Gateway::new(with(&servers, node!({ "balance": "round_robin", "health": {} })));
        gateway.status().await;
        gateway.status().await;
        fail(&gateway, &[1]);
        // The next plan: another order, other settings, another handler.
        let reversed = [servers[1], servers[0]];
        gateway.apply(with(&reversed, node!({ "balance": "random", "health": {} })));
        let next = handler(&gateway.context);
        for _ in 0..5 {
            let mut get = request(Method::Get, Body::Empty);
            assert_eq!(next.handle(&mut get).resolve().await.unwrap().status, 200);
        }
        assert_eq!(gateway.states(), ["unhealthy", "healthy"]);
        assert_eq!((one.requests.get(), other.requests.get()), (6, 1));
        assert_eq!((one.connections.get(), other.connections.get()), (1, 1));
        // Without checks nothing could mark it healthy again.
        gateway.apply(with(&servers, node!({})));
        assert_eq!(gateway.states(), ["healthy", "healthy"]);
        let last = &gateway.health_changes()[0];
        assert!(last.ends_with("healthy: the configuration has no checks any more"), "{last}");
        // A server that leaves the configuration gets no more requests.
        gateway.apply(with(&servers[1..], node!({})));
        gateway.status().await;
        assert_eq!((one.requests.get(), other.requests.get()), (6, 2));
    });
}

/// A server with one connection, and how long requests wait for it.
fn one_connection(server: &Server, queue: &str) -> Node {
    let servers = Node::made(Value::List(vec![Node::made(Value::Map(vec![
        (key("address"), Node::plain(server.text())),
        (key("max_connections"), Node::plain("1")),
    ]))]));
    let timeouts = Node::made(Value::Map(vec![(key("queue"), Node::plain(queue))]));
    Node::made(Value::Map(vec![(key("servers"), servers), (key("timeouts"), timeouts)]))
}

async fn requested(server: &Server) {
    while server.requests.get() == 0 {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_full_server_is_skipped_and_full_servers_are_503() {
    block_on_local(async {
        let server = Server::start(Does::Hang);
        let gateway = Gateway::new(one_connection(&server, "0s"));
        let second = async {
            requested(&server).await;
            gateway.get().await.err().unwrap()
        };
        let fault = tokio::select! {
            _ = gateway.get() => panic!("the server does not respond"),
            fault = second => fault,
        };
        assert_eq!((fault.status, fault.slug()), (503, "connection_limit_reached"));
    });
}

#[test]
fn requests_above_max_connections_wait_for_room() {
    // The clock does not advance: only the end of a request wakes the next one.
    net::manual_time::block_on(async {
        let server = Server::start(Does::Hang);
        let gateway = Gateway::new(one_connection(&server, "1m"));
        let mut first = Box::pin(gateway.get());
        tokio::select! {
            _ = &mut first => panic!("the server does not respond"),
            () = requested(&server) => {}
        }
        let (second, third) = (gateway.get(), gateway.get());
        let waiting = async {
            tokio::join!(async { second.await.unwrap().status }, async {
                third.await.unwrap().status
            })
        };
        tokio::pin!(waiting);
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("there is no room"),
            () = tokio::task::yield_now() => {}
        }
        server.does.set(Does::Respond(200));
        drop(first);
        assert_eq!(waiting.await, (200, 200));
    });
}
