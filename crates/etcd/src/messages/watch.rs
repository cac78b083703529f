//! Messages of the service `Watch`.

use bytes::Bytes;
use prost::{Message, Oneof};

use super::{KeyValue, ResponseHeader};

/// A message of the client in the stream of a watch.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchRequest {
    #[prost(oneof = "WatchRequestKind", tags = "1, 3")]
    pub request: Option<WatchRequestKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum WatchRequestKind {
    #[prost(message, tag = "1")]
    Create(WatchCreateRequest),
    #[prost(message, tag = "3")]
    Progress(WatchProgressRequest),
}

/// Which keys to watch, from which revision on.
#[derive(Clone, PartialEq, Message)]
pub struct WatchCreateRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub range_end: Bytes,
    /// The first revision of interest; 0 for what comes from now on.
    #[prost(int64, tag = "3")]
    pub start_revision: i64,
    /// True to be told about progress without events.
    #[prost(bool, tag = "4")]
    pub progress_notify: bool,
    /// 0 leaves out puts, 1 leaves out deletions.
    #[prost(int32, repeated, tag = "5")]
    pub filters: Vec<i32>,
    /// True to have the pair as it was before with each event.
    #[prost(bool, tag = "6")]
    pub prev_kv: bool,
    #[prost(int64, tag = "7")]
    pub watch_id: i64,
    /// Lets etcd split a large set of events over several messages.
    #[prost(bool, tag = "8")]
    pub fragment: bool,
}

/// Requests a message that proves that the stream is alive.
#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct WatchProgressRequest {}

/// A message of etcd in the stream of a watch.
#[derive(Clone, PartialEq, Message)]
pub struct WatchResponse {
    #[prost(message, optional, tag = "1")]
    pub header: Option<ResponseHeader>,
    #[prost(int64, tag = "2")]
    pub watch_id: i64,
    #[prost(bool, tag = "3")]
    pub created: bool,
    #[prost(bool, tag = "4")]
    pub canceled: bool,
    /// The oldest revision that exists, if the watch wanted an older one.
    #[prost(int64, tag = "5")]
    pub compact_revision: i64,
    #[prost(string, tag = "6")]
    pub cancel_reason: String,
    /// True if the next message continues this one.
    #[prost(bool, tag = "7")]
    pub fragment: bool,
    #[prost(message, repeated, tag = "11")]
    pub events: Vec<Event>,
}

/// A change of a key.
#[derive(Clone, PartialEq, Message)]
pub struct Event {
    /// 0 put, 1 deleted.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    /// The pair after the change; of a deleted key, the key and the revision of the deletion.
    #[prost(message, optional, tag = "2")]
    pub kv: Option<KeyValue>,
    #[prost(message, optional, tag = "3")]
    pub prev_kv: Option<KeyValue>,
}

impl Event {
    pub fn is_delete(&self) -> bool {
        self.kind == 1
    }
}
