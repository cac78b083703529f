//! Members that are killed or stand still.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Instant;

use net::{Bind, ListenOptions, Listening, Outgoing, task};

use super::*;
use crate::Watch;
use crate::messages::WatchCreateRequest;
use wire::grpc::Code;

fn watch(etcd: &Rc<Etcd>, key: &'static str) -> Watch {
    let request = WatchCreateRequest { key: key.into(), ..WatchCreateRequest::default() };
    Watch::new(etcd.clone(), request)
}

/// A client that tries until its time-out: a busy machine elects a leader slowly.
fn patient(cluster: &Cluster) -> Rc<Etcd> {
    client_with(EtcdSettings { attempts: 20, ..settings(cluster) })
}

/// Waits for an event with this value: one before it may come more than once.
async fn delivers(watch: &mut Watch, value: &[u8]) {
    loop {
        let response = watch.next().await.unwrap();
        if response.events[0].kv.as_ref().unwrap().value == value {
            return;
        }
    }
}

/// Puts a value, again if it is not certain that it was put.
async fn put_surely(etcd: &Etcd, key: &str, value: &str) {
    while let Err(error) = put(etcd, key, value).await {
        assert!(error.blames_member(), "{error}");
    }
}

#[test]
fn a_member_that_is_killed_is_replaced_by_another() {
    with_cluster(3, &[], async |mut cluster| {
        let etcd = patient(&cluster);
        let mut watch = watch(&etcd, "a");
        watch.created().await.unwrap();
        put_surely(&etcd, "a", "1").await;
        delivers(&mut watch, b"1").await;
        let member = etcd.members.current();
        cluster.kill(member);
        assert_eq!(get(&etcd, "a").await.unwrap().kvs.len(), 1);
        assert_ne!(etcd.members.current(), member);
        put_surely(&etcd, "a", "2").await;
        delivers(&mut watch, b"2").await;
        // The last two are not enough to write, and enough to know that.
        let second = etcd.members.current();
        cluster.kill(second);
        assert!(put(&etcd, "a", "3").await.is_err());
        cluster.restart(member);
        put_surely(&etcd, "a", "4").await;
        delivers(&mut watch, b"4").await;
    });
}

#[test]
fn a_member_that_stands_still_is_left() {
    with_cluster(3, &[], async |cluster| {
        let etcd = patient(&cluster);
        let mut watch = watch(&etcd, "a");
        watch.created().await.unwrap();
        let member = etcd.members.current();
        cluster.signal(member, "STOP");
        let begun = Instant::now();
        assert!(get(&etcd, "a").await.unwrap().kvs.is_empty());
        assert!(begun.elapsed() < etcd.settings().timeout, "{:?}", begun.elapsed());
        put_surely(&etcd, "a", "1").await;
        delivers(&mut watch, b"1").await;
        cluster.signal(member, "CONT");
    });
}

#[test]
fn a_watch_that_is_read_in_short_waits_notices_a_member_that_stands_still() {
    with_cluster(3, &[], async |cluster| {
        let etcd = client(&cluster);
        let mut watch = watch(&etcd, "a");
        watch.created().await.unwrap();
        let member = etcd.members.current();
        cluster.signal(member, "STOP");
        // Each wait is shorter than the silence after which a stream is replaced.
        while etcd.members.current() == member {
            let _ = net::timer::within(Duration::from_millis(10), watch.next()).await;
        }
        put_surely(&etcd, "a", "1").await;
        delivers(&mut watch, b"1").await;
        cluster.signal(member, "CONT");
    });
}

#[test]
fn calls_end_at_their_deadline() {
    with_cluster(1, &[], async |mut cluster| {
        let timeout = Duration::from_millis(300);
        let etcd = client_with(EtcdSettings { timeout, ..settings(&cluster) });
        eventually("etcd responds", &etcd).await;
        cluster.signal(0, "STOP");
        let begun = Instant::now();
        let error = put(&etcd, "a", "1").await.unwrap_err();
        assert!(error.code == Code::DeadlineExceeded && !error.is_unsent, "{error}");
        assert_eq!(get(&etcd, "a").await.unwrap_err().code, Code::DeadlineExceeded);
        // Two calls with the usual time-out would take longer.
        let usual = 2 * settings(&cluster).timeout;
        assert!(begun.elapsed() < usual, "{:?}", begun.elapsed());
        cluster.signal(0, "CONT");
        cluster.kill(0);
        let once = client_with(EtcdSettings { attempts: 1, ..settings(&cluster) });
        let error = put(&once, "a", "1").await.unwrap_err();
        assert_eq!(error.code, Code::Unavailable, "{error}");
    });
}

#[test]
fn a_connection_on_which_nothing_arrives_is_given_up() {
    net::worker::block_on_local(async {
        let anywhere = Bind::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
        let listening = Listening::bind(&anywhere, 1, &ListenOptions::default()).unwrap();
        let address = listening.local().to_string();
        let listener = listening.into_sockets().remove(0).adopt().unwrap();
        let accepted = Rc::new(Cell::new(0));
        let count = accepted.clone();
        drop(task::spawn_local(async move {
            while let Ok(connection) = listener.accept().await {
                count.set(count.get() + 1);
                drop(task::spawn_local(async move {
                    // The SETTINGS that every connection of HTTP/2 begins with, and nothing more.
                    let mut outgoing = Outgoing::default();
                    outgoing.push(b"\0\0\0\x04\0\0\0\0\0".to_vec().into());
                    connection.stream.send_all(&mut outgoing).await.unwrap();
                    while connection.stream.receive().await.is_ok_and(|chunk| !chunk.is_empty()) {}
                }));
            }
        }));
        let endpoint = parse_endpoint(&address).unwrap();
        let etcd = client_with(EtcdSettings {
            timeout: Duration::from_millis(300),
            silence: Duration::from_millis(100),
            attempts: 1,
            ..EtcdSettings::new(vec![endpoint])
        });
        for expected in 1..=2 {
            assert_eq!(get(&etcd, "a").await.unwrap_err().code, Code::DeadlineExceeded);
            assert_eq!(accepted.get(), expected);
        }
    });
}

#[test]
fn settings_that_cannot_be_used_are_rejected() {
    let refused = |endpoints: Vec<_>| {
        let names = Rc::new(Resolver::system());
        Etcd::new(&WorkerContext::default(), names, EtcdSettings::new(endpoints)).err()
    };
    assert!(refused(Vec::new()).is_some());
    let many = (0..65).map(|_| parse_endpoint("a").unwrap()).collect();
    assert!(refused(many).is_some());
}
