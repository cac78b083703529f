//! Messages of the service `KV`.

use bytes::Bytes;
use prost::{Message, Oneof};

use super::{KeyValue, ResponseHeader};

/// Reads the keys from `key` up to `range_end`, or one key without an end.
#[derive(Clone, PartialEq, Message)]
pub struct RangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub range_end: Bytes,
    /// 0 for no limit.
    #[prost(int64, tag = "3")]
    pub limit: i64,
    /// The revision to read at; 0 for the newest.
    #[prost(int64, tag = "4")]
    pub revision: i64,
    /// 0 none, 1 ascending, 2 descending.
    #[prost(int32, tag = "5")]
    pub sort_order: i32,
    /// 0 key, 1 version, 2 create revision, 3 mod revision, 4 value.
    #[prost(int32, tag = "6")]
    pub sort_target: i32,
    /// True to read from one member without consulting the others: possibly old data.
    #[prost(bool, tag = "7")]
    pub serializable: bool,
    #[prost(bool, tag = "8")]
    pub keys_only: bool,
    #[prost(bool, tag = "9")]
    pub count_only: bool,
    #[prost(int64, tag = "10")]
    pub min_mod_revision: i64,
    #[prost(int64, tag = "11")]
    pub max_mod_revision: i64,
    #[prost(int64, tag = "12")]
    pub min_create_revision: i64,
    #[prost(int64, tag = "13")]
    pub max_create_revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub kvs: Vec<KeyValue>,
    /// True if `limit` left keys out.
    #[prost(bool, tag = "3")]
    pub more: bool,
    /// All keys in the range, those left out included.
    #[prost(int64, tag = "4")]
    pub count: i64,
}

#[derive(Clone, PartialEq, Message)]
pub struct PutRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
    #[prost(int64, tag = "3")]
    pub lease: i64,
    #[prost(bool, tag = "4")]
    pub prev_kv: bool,
    #[prost(bool, tag = "5")]
    pub ignore_value: bool,
    #[prost(bool, tag = "6")]
    pub ignore_lease: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct PutResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(message, optional, tag = "2")]
    pub prev_kv: Option<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct DeleteRangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub range_end: Bytes,
    #[prost(bool, tag = "3")]
    pub prev_kv: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct DeleteRangeResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(int64, tag = "2")]
    pub deleted: i64,
    #[prost(message, repeated, tag = "3")]
    pub prev_kvs: Vec<KeyValue>,
}

/// One operation of a transaction.
#[derive(Clone, PartialEq, Message)]
pub struct RequestOp {
    #[prost(oneof = "RequestOpKind", tags = "1, 2, 3, 4")]
    pub request: Option<RequestOpKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum RequestOpKind {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeRequest),
    #[prost(message, tag = "4")]
    Txn(TxnRequest),
}

impl From<RequestOpKind> for RequestOp {
    fn from(kind: RequestOpKind) -> RequestOp {
        RequestOp { request: Some(kind) }
    }
}

/// The response to one operation of a transaction.
#[derive(Clone, PartialEq, Message)]
pub struct ResponseOp {
    #[prost(oneof = "ResponseOpKind", tags = "1, 2, 3, 4")]
    pub response: Option<ResponseOpKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum ResponseOpKind {
    #[prost(message, tag = "1")]
    Range(RangeResponse),
    #[prost(message, tag = "2")]
    Put(PutResponse),
    #[prost(message, tag = "3")]
    DeleteRange(DeleteRangeResponse),
    #[prost(message, tag = "4")]
    Txn(TxnResponse),
}

/// A condition of a transaction: what the store has is compared with `target`.
#[derive(Clone, PartialEq, Message)]
pub struct Compare {
    /// 0 equal, 1 greater, 2 less, 3 not equal.
    #[prost(int32, tag = "1")]
    pub result: i32,
    /// Names the kind of `target`: 0 version, 1 create revision, 2 mod revision, 3 value, 4 lease.
    #[prost(int32, tag = "2")]
    pub kind: i32,
    #[prost(bytes = "bytes", tag = "3")]
    pub key: Bytes,
    #[prost(oneof = "CompareTarget", tags = "4, 5, 6, 7, 8")]
    pub target: Option<CompareTarget>,
    #[prost(bytes = "bytes", tag = "64")]
    pub range_end: Bytes,
}

#[derive(Clone, PartialEq, Oneof)]
pub enum CompareTarget {
    #[prost(int64, tag = "4")]
    Version(i64),
    #[prost(int64, tag = "5")]
    CreateRevision(i64),
    #[prost(int64, tag = "6")]
    ModRevision(i64),
    #[prost(bytes = "bytes", tag = "7")]
    Value(Bytes),
    #[prost(int64, tag = "8")]
    Lease(i64),
}

impl Compare {
    pub const EQUAL: i32 = 0;
    pub const GREATER: i32 = 1;
    pub const LESS: i32 = 2;
    pub const NOT_EQUAL: i32 = 3;

    pub fn new(key: impl Into<Bytes>, result: i32, target: CompareTarget) -> Compare {
        let kind = match target {
            CompareTarget::Version(_) => 0,
            CompareTarget::CreateRevision(_) => 1,
            CompareTarget::ModRevision(_) => 2,
            CompareTarget::Value(_) => 3,
            CompareTarget::Lease(_) => 4,
        };
        Compare { result, kind, key: key.into(), target: Some(target), range_end: Bytes::new() }
    }
}

/// Executes `success` if all conditions hold and `failure` otherwise, in one revision.
#[derive(Clone, PartialEq, Message)]
pub struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")]
    pub succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub responses: Vec<ResponseOp>,
}

/// Forgets what was before a revision.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct CompactionRequest {
    #[prost(int64, tag = "1")]
    pub revision: i64,
    /// True to respond only after the data has left the disk.
    #[prost(bool, tag = "2")]
    pub physical: bool,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub struct CompactionResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
}
