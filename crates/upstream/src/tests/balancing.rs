//! Distribution of requests. No request is sent: only the choice is made, with a fixed seed.

use std::collections::BTreeMap;

use net::worker::block_on_local;

use super::*;
use crate::balance::Choice;
use crate::local::LocalCluster;
use crate::view::Peer;
use crate::worker_rng::WorkerRng;

const PICKS: usize = 10_000;

/// An upstream of servers with weights, without any connection.
pub(super) struct Table {
    pub(super) gateway: Gateway,
    pub(super) local: Rc<LocalCluster>,
    rng: WorkerRng,
}

impl Table {
    pub(super) fn new(weights: &[u32], more: Node) -> Table {
        let servers = weights.iter().enumerate().map(|(at, weight)| {
            let key = |name: &str| MapKey { name: name.to_owned(), span: Span::NOWHERE };
            Node::made(Value::Map(vec![
                (key("address"), Node::plain(format!("10.0.0.{}:80", at + 1))),
                (key("weight"), Node::plain(weight.to_string())),
            ]))
        });
        let key = MapKey { name: "servers".to_owned(), span: Span::NOWHERE };
        let mut entries = vec![(key, Node::made(Value::List(servers.collect())))];
        let Value::Map(more) = more.value else { panic!("settings are a map") };
        entries.extend(more);
        let gateway = Gateway::new(Node::made(Value::Map(entries)));
        let cluster = gateway.upstreams.get("test").unwrap();
        let local = LocalCluster::of(&gateway.context, &cluster);
        Table { gateway, local, rng: WorkerRng::new(7) }
    }

    pub(super) fn pick(
        &self,
        request: &Request,
        tried: &[Rc<Peer>],
        now_us: u64,
    ) -> Option<Rc<Peer>> {
        let view = self.local.view(now_us / 1000);
        let choice = Choice { view: &view, rng: &self.rng, tried, now_us };
        choice.pick(request).cloned()
    }

    /// The share of each server in many picks.
    pub(super) fn shares(&self, now_us: u64) -> Vec<f64> {
        let request = request(Method::Get, Body::Empty);
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for _ in 0..PICKS {
            let peer = self.pick(&request, &[], now_us).unwrap();
            *counts.entry(peer.name.to_string()).or_default() += 1;
        }
        let view = self.local.view(now_us / 1000);
        let count = |peer: &Rc<Peer>| counts.get(&*peer.name).copied().unwrap_or_default();
        view.peers.iter().map(|peer| count(peer) as f64 / PICKS as f64).collect()
    }
}

fn assert_near(shares: &[f64], expected: &[f64], tolerance: f64) {
    for (share, expected) in shares.iter().zip(expected) {
        assert!((share - expected).abs() <= tolerance, "{shares:?}, expected {expected}");
    }
}

#[test]
fn shares_follow_weights_whatever_the_method() {
    block_on_local(async {
        for method in ["random", "round_robin", "p2c"] {
            let settings = || {
                let key = MapKey { name: "balance".to_owned(), span: Span::NOWHERE };
                Node::made(Value::Map(vec![(key, Node::plain(method))]))
            };
            let even = Table::new(&[1, 1, 1, 1], settings());
            assert_near(&even.shares(1), &[0.25; 4], 0.02);
            let uneven = Table::new(&[1, 3, 4], settings());
            let tolerance = if method == "round_robin" { 0.0011 } else { 0.06 };
            assert_near(&uneven.shares(1), &[0.125, 0.375, 0.5], tolerance);
        }
    });
}

#[test]
fn round_robin_is_smooth() {
    block_on_local(async {
        let table = Table::new(&[5, 1, 1], node!({ "balance": "round_robin" }));
        let request = request(Method::Get, Body::Empty);
        let order: Vec<char> = (0..7)
            .map(|_| {
                let peer = table.pick(&request, &[], 1).unwrap();
                peer.name.strip_prefix("10.0.0.").unwrap().chars().next().unwrap()
            })
            .collect();
        assert_eq!(order.into_iter().collect::<String>(), "1121311");
    });
}

#[test]
fn p2c_prefers_the_faster_server_and_forgets_with_time() {
    block_on_local(async {
        let table = Table::new(&[1, 1], node!({}));
        let now_us = 1_000_000;
        let view = table.local.view(now_us / 1000);
        view.peers[0].stats.measure(100_000, now_us);
        view.peers[1].stats.measure(1_000, now_us);
        assert_near(&table.shares(now_us), &[0.0, 1.0], 0.0);
        // Only the fast server is measured again; the slow one's latency decays.
        let later_us = now_us + 2_000_000_000;
        view.peers[1].stats.measure(1_000, later_us);
        let shares = table.shares(later_us);
        assert!(shares[0] > 0.4, "{shares:?}");
    });
}

#[test]
fn one_slow_response_is_forgotten_within_seconds() {
    block_on_local(async {
        for (slow_us, within_s) in [(100_000, 20), (1_000_000, 32), (30_000_000, 50)] {
            let table = Table::new(&[1, 1], node!({}));
            let view = table.local.view(1_000);
            view.peers[0].stats.measure(slow_us, 1_000_000);
            let later_us = 1_000_000 + within_s * 1_000_000;
            view.peers[1].stats.measure(1_000, later_us);
            let shares = table.shares(later_us);
            assert!(shares[0] > 0.4, "{slow_us}: {shares:?}");
            // While it is measured, its latency does not decay.
            view.peers[0].stats.measure(slow_us, later_us);
            assert_near(&table.shares(later_us), &[0.0, 1.0], 0.0);
        }
    });
}

#[test]
fn p2c_prefers_the_server_with_fewer_requests_in_flight() {
    block_on_local(async {
        let server = Server::start(Does::Hang);
        let other = Server::start(Does::Hang);
        let gateway = Gateway::new(with(&[&server.text(), &other.text()], node!({})));
        let hanging: Vec<_> = (0..40).map(|_| async { gateway.get().await }).collect();
        let mut hanging: Vec<_> = hanging.into_iter().map(Box::pin).collect();
        let waiting = std::future::poll_fn(|cx| {
            for hanging in &mut hanging {
                assert!(hanging.as_mut().poll(cx).is_pending());
            }
            match server.requests.get() + other.requests.get() {
                40 => std::task::Poll::Ready(()),
                _ => {
                    cx.waker().wake_by_ref();
                    std::task::Poll::Pending
                }
            }
        });
        waiting.await;
        assert_eq!((server.requests.get(), other.requests.get()), (20, 20));
    });
}

#[test]
fn a_server_that_returns_starts_slowly() {
    block_on_local(async {
        for method in ["random", "round_robin", "p2c", "least_requests"] {
            let balance = MapKey { name: "balance".to_owned(), span: Span::NOWHERE };
            let slow_start = MapKey { name: "slow_start".to_owned(), span: Span::NOWHERE };
            let settings = Node::made(Value::Map(vec![
                (balance, Node::plain(method)),
                (slow_start, Node::plain("10s")),
            ]));
            let table = Table::new(&[1, 1], settings);
            let cluster = &table.local.cluster;
            let members = cluster.snapshot().members;
            let back_ms = 50_000;
            cluster.set_checked(&members.list[0], false, back_ms - 1, "");
            cluster.set_checked(&members.list[0], true, back_ms, "");
            let share = |now_ms: u64| table.shares(now_ms * 1000)[0];
            assert!(share(back_ms + 1000) < 0.2, "{method}");
            assert!(share(back_ms + 10_000) > 0.45, "{method}");
        }
    });
}

#[test]
fn a_key_stays_with_its_server_and_moves_only_when_that_fails() {
    block_on_local(async {
        let table = Table::new(&[1, 1, 1, 1], node!({ "balance": { "hash": "header.x-user" } }));
        let owner = |user: usize, tried: &[Rc<Peer>]| {
            let mut request = request(Method::Get, Body::Empty);
            request.headers.append("X-User", format!("user-{user}"));
            table.pick(&request, tried, 1).unwrap()
        };
        let before: Vec<_> = (0..1000).map(|user| owner(user, &[])).collect();
        let again: Vec<_> = (0..1000).map(|user| owner(user, &[])).collect();
        assert!(before.iter().zip(&again).all(|(one, other)| one.name == other.name));
        let cluster = &table.local.cluster;
        let failed = cluster.snapshot().members.list[2].clone();
        cluster.set_checked(&failed, false, 1, "");
        for (user, before) in before.iter().enumerate() {
            let after = owner(user, &[]);
            assert_ne!(after.name.as_ref(), failed.name.as_ref());
            assert!(after.name == before.name || before.name.as_ref() == failed.name.as_ref());
        }
        // A retry uses the next server on the ring, not the same one again.
        let first = owner(1, &[]);
        assert_ne!(owner(1, std::slice::from_ref(&first)).name, first.name);
    });
}

#[test]
fn no_server_is_picked_twice_for_one_request() {
    block_on_local(async {
        for method in ["p2c", "random", "round_robin", "least_requests"] {
            let key = MapKey { name: "balance".to_owned(), span: Span::NOWHERE };
            let settings = Node::made(Value::Map(vec![(key, Node::plain(method))]));
            let table = Table::new(&[1, 2, 3], settings);
            let request = request(Method::Get, Body::Empty);
            for _ in 0..100 {
                let mut tried = Vec::new();
                while let Some(peer) = table.pick(&request, &tried, 1) {
                    tried.push(peer);
                }
                let mut names: Vec<_> = tried.iter().map(|peer| peer.name.clone()).collect();
                names.sort();
                names.dedup();
                assert_eq!((tried.len(), names.len()), (3, 3), "{method}");
            }
        }
    });
}
