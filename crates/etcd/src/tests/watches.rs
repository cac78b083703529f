//! Watches: order, whole revisions, restarts, compaction.

use super::*;
use crate::messages::{
    CompactionRequest, RequestOp, RequestOpKind, TxnRequest, WatchCreateRequest, WatchResponse,
};
use crate::{Watch, WatchError};

fn watch(etcd: &Rc<Etcd>, prefix: &'static str, start_revision: i64) -> Watch {
    let request = WatchCreateRequest {
        key: prefix.into(),
        range_end: prefix_end(prefix.as_bytes()),
        start_revision,
        ..WatchCreateRequest::default()
    };
    Watch::new(etcd.clone(), request)
}

fn values(response: &WatchResponse) -> Vec<String> {
    let texts = response.events.iter().map(|event| {
        let kv = event.kv.as_ref().unwrap();
        let value = if event.is_delete() { "deleted" } else { str::from_utf8(&kv.value).unwrap() };
        format!("{}={value}", str::from_utf8(&kv.key).unwrap())
    });
    texts.collect()
}

async fn put_together(etcd: &Etcd, pairs: impl IntoIterator<Item = (String, String)>) {
    let operation = |(key, value): (String, String)| -> RequestOp {
        let request = PutRequest { key: key.into(), value: value.into(), ..PutRequest::default() };
        RequestOpKind::Put(request).into()
    };
    let success = pairs.into_iter().map(operation).collect();
    etcd.txn(&TxnRequest { success, ..TxnRequest::default() }).await.unwrap();
}

#[test]
fn events_of_one_revision_arrive_together() {
    with_cluster(1, &[], async |cluster| {
        let etcd = client(&cluster);
        let mut watch = watch(&etcd, "a/", 0);
        watch.created().await.unwrap();
        put(&etcd, "b", "1").await.unwrap();
        put(&etcd, "a/1", "1").await.unwrap();
        assert_eq!(values(&watch.next().await.unwrap()), ["a/1=1"]);
        // 4 MiB in one revision, which etcd sends in several messages.
        let long = "x".repeat(256 * 1024);
        for batch in 0..4 {
            let pairs = (0..4).map(|index| (format!("b/{batch}{index}"), long.clone()));
            put_together(&etcd, pairs).await;
        }
        let expected = delete_prefix(&etcd, "b/").await;
        assert_eq!(expected, 16);
        put_together(&etcd, [("a/1", "2"), ("a/2", "2")].map(|(k, v)| (k.into(), v.into()))).await;
        assert_eq!(values(&watch.next().await.unwrap()), ["a/1=2", "a/2=2"]);
        delete_prefix(&etcd, "a/").await;
        assert_eq!(values(&watch.next().await.unwrap()), ["a/1=deleted", "a/2=deleted"]);
    });
}

#[test]
fn a_large_backlog_arrives_in_pieces_or_is_refused() {
    with_cluster(1, &[], async |cluster| {
        let etcd = client(&cluster);
        let first = put(&etcd, "a/", "begin").await.unwrap();
        let long = "x".repeat(512 * 1024);
        for index in 0..8 {
            put(&etcd, &format!("a/{index}"), &long).await.unwrap();
        }
        let mut backlog = watch(&etcd, "a/", first);
        let mut keys = 0;
        while keys < 9 {
            keys += backlog.next().await.unwrap().events.len();
        }
        assert_eq!(keys, 9);
        let small = EtcdSettings { message_bytes: 1024 * 1024, ..settings(&cluster) };
        let refused = watch(&client_with(small), "a/", first).next().await.unwrap_err();
        assert!(matches!(refused, WatchError::Refused(_)), "{refused:?}");
    });
}

#[test]
fn a_watch_continues_where_it_was_when_etcd_returns() {
    with_cluster(1, &[], async |mut cluster| {
        let etcd = client(&cluster);
        let states = Rc::new(std::cell::RefCell::new(Vec::new()));
        let seen = states.clone();
        let mut watch = watch(&etcd, "a/", 0)
            .with_observer(move |error| seen.borrow_mut().push(error.is_none()));
        watch.created().await.unwrap();
        put(&etcd, "a/1", "1").await.unwrap();
        assert_eq!(values(&watch.next().await.unwrap()), ["a/1=1"]);
        cluster.restart(0);
        eventually("etcd responds", &etcd).await;
        put(&etcd, "a/2", "2").await.unwrap();
        put(&etcd, "a/3", "3").await.unwrap();
        let mut seen = values(&watch.next().await.unwrap());
        while seen.len() < 2 {
            seen.extend(values(&watch.next().await.unwrap()));
        }
        assert_eq!(seen, ["a/2=2", "a/3=3"]);
        let states = states.borrow();
        assert!(states[0] && states.contains(&false) && states[states.len() - 1], "{states:?}");
    });
}

#[test]
fn a_watch_that_lost_revisions_says_so() {
    with_cluster(1, &[], async |mut cluster| {
        let etcd = client(&cluster);
        let mut watch = watch(&etcd, "a/", 0);
        watch.created().await.unwrap();
        cluster.restart(0);
        eventually("etcd responds", &etcd).await;
        for value in ["1", "2", "3"] {
            put(&etcd, "a/1", value).await.unwrap();
        }
        let revision = put(&etcd, "a/1", "4").await.unwrap();
        etcd.compact(&CompactionRequest { revision, physical: false }).await.unwrap();
        assert_eq!(watch.next().await, Err(WatchError::Compacted(revision)));
        let mut again = self::watch(&etcd, "a/", revision);
        assert_eq!(values(&again.next().await.unwrap()), ["a/1=4"]);
    });
}

#[test]
fn a_watch_that_is_dropped_while_it_waits_loses_nothing() {
    with_cluster(1, &[], async |cluster| {
        let etcd = client(&cluster);
        let mut watch = watch(&etcd, "a/", 0);
        watch.created().await.unwrap();
        // Longer than the silence after which it requests a sign of life, in short waits.
        for _ in 0..80 {
            let waited = net::timer::within(Duration::from_millis(10), watch.next()).await;
            assert!(waited.is_none(), "{waited:?}");
        }
        put(&etcd, "a/1", "1").await.unwrap();
        assert_eq!(values(&watch.next().await.unwrap()), ["a/1=1"]);
    });
}

#[test]
fn progress_is_reported_to_those_that_request_it() {
    let notify = ["--experimental-watch-progress-notify-interval=1s"];
    with_cluster(1, &notify, async |cluster| {
        let etcd = client(&cluster);
        let request = WatchCreateRequest {
            key: "a".into(),
            progress_notify: true,
            ..WatchCreateRequest::default()
        };
        let mut watch = Watch::new(etcd.clone(), request);
        watch.created().await.unwrap();
        let revision = put(&etcd, "b", "1").await.unwrap();
        let response = watch.next().await.unwrap();
        assert!(response.events.is_empty() && watch.next_revision() > revision, "{response:?}");
    });
}
