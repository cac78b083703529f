//! Keys, transactions and leases.

use super::*;
use crate::messages::{
    CompactionRequest, Compare, CompareTarget, LeaseGrantRequest, LeaseKeepAliveRequest,
    LeaseRevokeRequest, LeaseTimeToLiveRequest, RequestOp, RequestOpKind, ResponseOpKind,
    TxnRequest,
};
use wire::grpc::Code;

#[test]
fn keys_are_put_read_and_deleted() {
    with_cluster(1, &[], async |cluster| {
        let etcd = client(&cluster);
        assert!(get(&etcd, "a").await.unwrap().kvs.is_empty());
        let first = put(&etcd, "dir/a", "1").await.unwrap();
        let second = put(&etcd, "dir/b", "2").await.unwrap();
        put(&etcd, "dis", "3").await.unwrap();
        let range = RangeRequest {
            key: "dir/".into(),
            range_end: prefix_end(b"dir/"),
            sort_order: 2,
            ..RangeRequest::default()
        };
        let response = etcd.range(&range).await.unwrap();
        let pairs: Vec<(&[u8], i64)> =
            response.kvs.iter().map(|kv| (&kv.value[..], kv.mod_revision)).collect();
        assert_eq!(pairs, [(&b"2"[..], second), (b"1", first)]);
        let limited = RangeRequest { limit: 1, keys_only: true, ..range.clone() };
        let limited = etcd.range(&limited).await.unwrap();
        assert!(limited.more && limited.count == 2 && limited.kvs[0].value.is_empty());
        let old = RangeRequest { revision: first, ..range.clone() };
        assert_eq!(etcd.range(&old).await.unwrap().kvs.len(), 1);
        assert_eq!(delete_prefix(&etcd, "dir/").await, 2);
        assert!(etcd.range(&range).await.unwrap().kvs.is_empty());
        let compaction = CompactionRequest { revision: second, physical: true };
        etcd.compact(&compaction).await.unwrap();
        let error = etcd.range(&old).await.unwrap_err();
        assert!(error.code == Code::OutOfRange && error.message.contains("compacted"), "{error}");
    });
}

#[test]
fn a_transaction_is_executed_as_a_whole() {
    with_cluster(1, &[], async |cluster| {
        let etcd = client(&cluster);
        let set = |key: &'static str, value: &'static str| -> RequestOp {
            let request =
                PutRequest { key: key.into(), value: value.into(), ..PutRequest::default() };
            RequestOpKind::Put(request).into()
        };
        let read = RangeRequest { key: "a".into(), ..RangeRequest::default() };
        let request = TxnRequest {
            compare: vec![Compare::new("a", Compare::EQUAL, CompareTarget::ModRevision(0))],
            success: vec![set("a", "1"), set("b", "1")],
            failure: vec![RequestOpKind::Range(read).into()],
        };
        let first = etcd.txn(&request).await.unwrap();
        assert!(first.succeeded && first.responses.len() == 2);
        let (a, b) = (get(&etcd, "a").await.unwrap(), get(&etcd, "b").await.unwrap());
        assert_eq!(a.kvs[0].mod_revision, b.kvs[0].mod_revision);
        let second = etcd.txn(&request).await.unwrap();
        assert!(!second.succeeded);
        let Some(ResponseOpKind::Range(found)) = &second.responses[0].response else {
            panic!("{second:?}");
        };
        assert_eq!(&found.kvs[0].value[..], b"1");
        for (target, succeeds) in [
            (CompareTarget::Value("1".into()), true),
            (CompareTarget::Version(2), false),
            (CompareTarget::CreateRevision(a.kvs[0].create_revision), true),
            (CompareTarget::Lease(0), true),
        ] {
            let compare = vec![Compare::new("a", Compare::EQUAL, target)];
            let request = TxnRequest { compare, ..TxnRequest::default() };
            assert_eq!(etcd.txn(&request).await.unwrap().succeeded, succeeds, "{request:?}");
        }
    });
}

#[test]
fn a_lease_lives_while_it_is_kept_alive() {
    with_cluster(1, &[], async |cluster| {
        let etcd = client(&cluster);
        let grant = LeaseGrantRequest { ttl: 3, id: 0 };
        let (kept, left) =
            (etcd.lease_grant(&grant).await.unwrap(), etcd.lease_grant(&grant).await);
        let left = left.unwrap();
        for (key, lease) in [("kept", &kept), ("left", &left)] {
            let request = PutRequest { key: key.into(), lease: lease.id, ..PutRequest::default() };
            etcd.put(&request).await.unwrap();
        }
        assert_eq!(etcd.leases().await.unwrap().leases.len(), 2);
        let keeper = {
            let etcd = etcd.clone();
            net::task::spawn_local(async move { etcd.keep_alive(kept.id, kept.ttl).await })
        };
        while !get(&etcd, "left").await.unwrap().kvs.is_empty() {
            net::timer::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(get(&etcd, "kept").await.unwrap().kvs.len(), 1);
        let query = LeaseTimeToLiveRequest { id: kept.id, keys: true };
        let state = etcd.lease_time_to_live(&query).await.unwrap();
        assert!(state.keys == ["kept"] && state.granted_ttl == kept.ttl, "{state:?}");
        let gone = LeaseTimeToLiveRequest { id: left.id, keys: false };
        assert_eq!(etcd.lease_time_to_live(&gone).await.unwrap().ttl, -1);
        let renewed = etcd.lease_renew(&LeaseKeepAliveRequest { id: left.id }).await.unwrap();
        assert_eq!(renewed.ttl, 0);
        etcd.lease_revoke(&LeaseRevokeRequest { id: kept.id }).await.unwrap();
        assert!(get(&etcd, "kept").await.unwrap().kvs.is_empty());
        assert_eq!(keeper.await.unwrap().code, Code::NotFound);
        let error = etcd.lease_revoke(&LeaseRevokeRequest { id: kept.id }).await.unwrap_err();
        assert_eq!(error.code, Code::NotFound);
    });
}

#[test]
fn a_message_beyond_the_limit_is_an_error() {
    with_cluster(1, &[], async |cluster| {
        let etcd = client_with(EtcdSettings { message_bytes: 1000, ..settings(&cluster) });
        put(&etcd, "a", &"x".repeat(2000)).await.unwrap();
        let error = get(&etcd, "a").await.unwrap_err();
        assert!(error.message.contains("too long"), "{error}");
        put(&etcd, "a", "x").await.unwrap();
        assert_eq!(get(&etcd, "a").await.unwrap().kvs.len(), 1);
    });
}
