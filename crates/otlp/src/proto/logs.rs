//! The messages of opentelemetry/proto/logs/v1.

use prost::Message;

use super::{AnyValue, KeyValue, Resource, Scope};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ExportLogsServiceRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resource_logs: Vec<ResourceLogs>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResourceLogs {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scope_logs: Vec<ScopeLogs>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ScopeLogs {
    #[prost(message, optional, tag = "1")]
    pub(crate) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) log_records: Vec<LogRecord>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LogRecord {
    #[prost(fixed64, tag = "1")]
    pub(crate) time_unix_nano: u64,
    #[prost(int32, tag = "2")]
    pub(crate) severity_number: i32,
    #[prost(string, tag = "3")]
    pub(crate) severity_text: String,
    #[prost(message, optional, tag = "5")]
    pub(crate) body: Option<AnyValue>,
    #[prost(message, repeated, tag = "6")]
    pub(crate) attributes: Vec<KeyValue>,
    #[prost(bytes = "vec", tag = "9")]
    pub(crate) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "10")]
    pub(crate) span_id: Vec<u8>,
    #[prost(fixed64, tag = "11")]
    pub(crate) observed_time_unix_nano: u64,
}
