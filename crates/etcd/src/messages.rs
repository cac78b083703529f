//! The messages of etcd's API, version 3, as the services exchange them (`rpc.proto`, `kv.proto`).
//!
//! Written by hand: field numbers are the contract, and what this client does not use is left out,
//! which protobuf allows.

mod kv;
mod lease;
mod watch;

pub use kv::{
    CompactionRequest, CompactionResponse, Compare, CompareTarget, DeleteRangeRequest,
    DeleteRangeResponse, PutRequest, PutResponse, RangeRequest, RangeResponse, RequestOp,
    RequestOpKind, ResponseOp, ResponseOpKind, TxnRequest, TxnResponse,
};
pub use lease::{
    Lease, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    LeaseLeasesRequest, LeaseLeasesResponse, LeaseRevokeRequest, LeaseRevokeResponse,
    LeaseTimeToLiveRequest, LeaseTimeToLiveResponse,
};
pub use watch::{Event, WatchCreateRequest, WatchResponse};
pub(crate) use watch::{WatchProgressRequest, WatchRequest, WatchRequestKind};

use bytes::Bytes;
use prost::Message;

/// What every response begins with.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct ResponseHeader {
    #[prost(uint64, tag = "1")]
    pub cluster_id: u64,
    #[prost(uint64, tag = "2")]
    pub member_id: u64,
    /// The revision of the store when the request was applied.
    #[prost(int64, tag = "3")]
    pub revision: i64,
    #[prost(uint64, tag = "4")]
    pub raft_term: u64,
}

/// A key with its value at one revision.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(int64, tag = "2")]
    pub create_revision: i64,
    #[prost(int64, tag = "3")]
    pub mod_revision: i64,
    /// Counts the changes since the key was created.
    #[prost(int64, tag = "4")]
    pub version: i64,
    #[prost(bytes = "bytes", tag = "5")]
    pub value: Bytes,
    /// The lease that the key ends with; 0 for none.
    #[prost(int64, tag = "6")]
    pub lease: i64,
}

/// Name and password for a token.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AuthenticateRequest {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub password: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AuthenticateResponse {
    #[prost(string, tag = "2")]
    pub token: String,
}

/// The end of the range of all keys that begin with `prefix`; a zero byte, which means "to the last
/// key", if there is no greater prefix.
pub fn prefix_end(prefix: &[u8]) -> Bytes {
    match prefix.iter().rposition(|byte| *byte < 0xFF) {
        Some(last) => {
            let mut end = prefix[..=last].to_vec();
            end[last] += 1;
            end.into()
        }
        None => Bytes::from_static(b"\0"),
    }
}

#[cfg(test)]
mod tests {
    use super::prefix_end;

    #[test]
    fn a_prefix_ends_before_the_next_one() {
        for (prefix, end) in
            [(&b"/a/"[..], &b"/a0"[..]), (b"a\xFF", b"b"), (b"\xFF\xFF", b"\0"), (b"", b"\0")]
        {
            assert_eq!(prefix_end(prefix), end);
        }
    }
}
