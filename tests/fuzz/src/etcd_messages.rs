//! Messages of etcd, which its members send, and the addresses of members.

use crate::FuzzTarget;
use etcd::messages::{
    Event, KeyValue, LeaseTimeToLiveResponse, RangeResponse, ResponseHeader, ResponseOp,
    ResponseOpKind, TxnResponse, WatchResponse,
};
use etcd::parse_endpoint;
use prost::Message;

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: messages,
    seeds,
    dictionary: &["https://", "http://[::1]:2379", ":2379", "\u{a}", "\u{12}", "\u{5a}", "\u{1a}"],
    cases: 4500,
};

fn seeds() -> Vec<Vec<u8>> {
    let header = Some(ResponseHeader { cluster_id: u64::MAX, revision: 7, ..Default::default() });
    let kv =
        KeyValue { key: "a".into(), value: "b".into(), mod_revision: -1, ..Default::default() };
    let range = RangeResponse { header, kvs: vec![kv.clone(), kv.clone()], more: true, count: 9 };
    let nested = TxnResponse { header, succeeded: true, responses: Vec::new() };
    let kinds = [ResponseOpKind::Range(range.clone()), ResponseOpKind::Txn(nested)];
    let responses = kinds.map(|kind| ResponseOp { response: Some(kind) }).to_vec();
    let event = Event { kind: 1, kv: Some(kv.clone()), prev_kv: Some(kv) };
    let watch = WatchResponse {
        header,
        canceled: true,
        compact_revision: 3,
        cancel_reason: "compacted".to_owned(),
        events: vec![event],
        ..Default::default()
    };
    let lease = LeaseTimeToLiveResponse { keys: vec!["a".into()], ttl: -1, ..Default::default() };
    vec![
        range.encode_to_vec(),
        TxnResponse { header, succeeded: false, responses }.encode_to_vec(),
        watch.encode_to_vec(),
        lease.encode_to_vec(),
        b"https://etcd.example:2379".to_vec(),
        b"[::1]".to_vec(),
    ]
}

/// What is decoded is encoded to a message with the same content.
fn stable<M: Message + Default + PartialEq>(data: &[u8]) {
    if let Ok(message) = M::decode(data) {
        let encoded = message.encode_to_vec();
        assert_eq!(encoded.len(), message.encoded_len());
        assert!(M::decode(&*encoded).is_ok_and(|again| again == message));
    }
}

fn messages(data: &[u8]) {
    stable::<RangeResponse>(data);
    stable::<TxnResponse>(data);
    stable::<WatchResponse>(data);
    stable::<LeaseTimeToLiveResponse>(data);
    if let Ok(text) = str::from_utf8(data)
        && let Ok(url) = parse_endpoint(text)
    {
        assert!(url.target.raw() == b"/" && !url.authority.is_empty(), "{text}");
    }
}
