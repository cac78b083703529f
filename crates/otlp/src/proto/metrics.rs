//! The messages of opentelemetry/proto/metrics/v1.

use prost::Message;

use super::{KeyValue, Resource, Scope};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ExportMetricsServiceRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    pub(crate) resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) scope_metrics: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    pub(crate) scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) metrics: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metric {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) description: String,
    #[prost(string, tag = "3")]
    pub(crate) unit: String,
    #[prost(oneof = "Data", tags = "5, 7, 9")]
    pub(crate) data: Option<Data>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(crate) enum Data {
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    #[prost(message, tag = "7")]
    Sum(Sum),
    #[prost(message, tag = "9")]
    Histogram(Histogram),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Gauge {
    #[prost(message, repeated, tag = "1")]
    pub(crate) data_points: Vec<NumberDataPoint>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Sum {
    #[prost(message, repeated, tag = "1")]
    pub(crate) data_points: Vec<NumberDataPoint>,
    #[prost(int32, tag = "2")]
    pub(crate) aggregation_temporality: i32,
    #[prost(bool, tag = "3")]
    pub(crate) is_monotonic: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Histogram {
    #[prost(message, repeated, tag = "1")]
    pub(crate) data_points: Vec<HistogramDataPoint>,
    #[prost(int32, tag = "2")]
    pub(crate) aggregation_temporality: i32,
}

/// Values since the start of the process.
pub(crate) const CUMULATIVE: i32 = 2;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NumberDataPoint {
    #[prost(fixed64, tag = "2")]
    pub(crate) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    pub(crate) time_unix_nano: u64,
    #[prost(oneof = "Number", tags = "4, 6")]
    pub(crate) value: Option<Number>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) attributes: Vec<KeyValue>,
}

#[derive(Clone, Copy, PartialEq, prost::Oneof)]
pub(crate) enum Number {
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(sfixed64, tag = "6")]
    Int(i64),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HistogramDataPoint {
    #[prost(fixed64, tag = "2")]
    pub(crate) start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    pub(crate) time_unix_nano: u64,
    #[prost(fixed64, tag = "4")]
    pub(crate) count: u64,
    #[prost(double, optional, tag = "5")]
    pub(crate) sum: Option<f64>,
    #[prost(fixed64, repeated, tag = "6")]
    pub(crate) bucket_counts: Vec<u64>,
    #[prost(double, repeated, tag = "7")]
    pub(crate) explicit_bounds: Vec<f64>,
    #[prost(message, repeated, tag = "8")]
    pub(crate) exemplars: Vec<Exemplar>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Exemplar {
    #[prost(fixed64, tag = "2")]
    pub(crate) time_unix_nano: u64,
    #[prost(double, tag = "3")]
    pub(crate) as_double: f64,
    #[prost(bytes = "vec", tag = "4")]
    pub(crate) span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) trace_id: Vec<u8>,
}
