//! The client against real servers (`etcd` of Debian); without them the tests say so and pass.

mod auth;
mod calls;
mod cluster;
mod failures;
mod watches;

use std::rc::Rc;
use std::time::Duration;

use net::Resolver;
use plugin::WorkerContext;

use crate::messages::{DeleteRangeRequest, PutRequest, RangeRequest, RangeResponse, prefix_end};
use crate::{Etcd, EtcdError, EtcdSettings, parse_endpoint};
use cluster::Cluster;

/// Runs a test with a cluster of so many members.
fn with_cluster<F: Future<Output = ()>>(
    members: usize,
    arguments: &[&str],
    test: impl FnOnce(Cluster) -> F,
) {
    if !cluster::is_installed() {
        return;
    }
    net::worker::block_on_local(async {
        let cluster = Cluster::start(members, arguments);
        eventually("etcd responds", &client(&cluster)).await;
        let limit = Duration::from_secs(60);
        net::timer::within(limit, test(cluster)).await.expect("the test ends in a minute");
    });
}

fn settings(cluster: &Cluster) -> EtcdSettings {
    let endpoints = cluster.urls().map(|url| parse_endpoint(&url).unwrap()).collect();
    EtcdSettings { silence: Duration::from_millis(300), ..EtcdSettings::new(endpoints) }
}

fn client(cluster: &Cluster) -> Rc<Etcd> {
    client_with(settings(cluster))
}

fn client_with(settings: EtcdSettings) -> Rc<Etcd> {
    let names = Rc::new(Resolver::system());
    Rc::new(Etcd::new(&WorkerContext::default(), names, settings).unwrap())
}

/// Waits until a client reads from etcd.
async fn eventually(what: &str, etcd: &Etcd) {
    let read = async { while get(etcd, "nothing").await.is_err() {} };
    net::timer::within(Duration::from_secs(60), read).await.expect(what);
}

async fn put(etcd: &Etcd, key: &str, value: &str) -> Result<i64, EtcdError> {
    let request = PutRequest {
        key: key.to_owned().into(),
        value: value.to_owned().into(),
        ..PutRequest::default()
    };
    Ok(etcd.put(&request).await?.header.unwrap().revision)
}

async fn get(etcd: &Etcd, key: &str) -> Result<RangeResponse, EtcdError> {
    etcd.range(&RangeRequest { key: key.to_owned().into(), ..RangeRequest::default() }).await
}

async fn delete_prefix(etcd: &Etcd, prefix: &str) -> i64 {
    let request = DeleteRangeRequest {
        key: prefix.to_owned().into(),
        range_end: prefix_end(prefix.as_bytes()),
        ..DeleteRangeRequest::default()
    };
    etcd.delete(&request).await.unwrap().deleted
}
