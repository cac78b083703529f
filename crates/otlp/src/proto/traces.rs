//! The messages of opentelemetry/proto/trace/v1.

use message::{FinishedTrace, SpanKind};
use prost::Message;

use super::{KeyValue, Resource, Scope};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ExportTraceServiceRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    pub(crate) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) spans: Vec<Span>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Span {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    pub(crate) name: String,
    #[prost(int32, tag = "6")]
    pub(crate) kind: i32,
    #[prost(fixed64, tag = "7")]
    pub(crate) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "8")]
    pub(crate) end_time_unix_nano: u64,
    #[prost(message, repeated, tag = "9")]
    pub(crate) attributes: Vec<KeyValue>,
    #[prost(message, optional, tag = "15")]
    pub(crate) status: Option<Status>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(crate) struct Status {
    #[prost(int32, tag = "3")]
    pub(crate) code: i32,
}

/// The code of a failed span's status.
const STATUS_ERROR: i32 = 2;

/// The spans of a trace as messages.
pub(crate) fn spans(trace: FinishedTrace) -> impl Iterator<Item = Span> {
    let FinishedTrace { context, spans, clock_offset_us, .. } = trace;
    let unix_ns = move |us: u64| (us + clock_offset_us) * 1000;
    spans.into_iter().map(move |span| Span {
        trace_id: context.trace_id.to_vec(),
        span_id: span.id.to_vec(),
        parent_span_id: span.parent.map(Vec::from).unwrap_or_default(),
        name: span.name.into(),
        kind: match span.kind {
            SpanKind::Internal => 1,
            SpanKind::Server => 2,
            SpanKind::Client => 3,
        },
        start_time_unix_nano: unix_ns(span.began_us),
        end_time_unix_nano: unix_ns(span.ended_us.max(span.began_us)),
        attributes: span
            .attributes
            .into_iter()
            .map(|(name, value)| KeyValue::new(name, value))
            .collect(),
        status: span.has_failed.then_some(Status { code: STATUS_ERROR }),
    })
}
