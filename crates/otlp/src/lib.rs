//! Exports traces, metrics and logs by OTLP, the OpenTelemetry protocol, over HTTP or gRPC.
//!
//! Owns the settings of the section `traces` and of collectors, the messages of the protocol and
//! the tasks that send them from the control thread. Promises that a collector that is slow, fails
//! or lies delays no request and costs a bounded amount of memory: what finds its queue full is
//! dropped and counted. Never decides what is recorded: `http-server` does.

mod collector;
mod exposition;
mod grpc_reply;
mod logs;
mod metrics;
mod proto;
mod send_failure;
mod settings;
mod traces;

pub use logs::{LogExporter, LogSource};
pub use metrics::{MetricsExporter, MetricsText};
pub use settings::{
    ExportPlan, ExportSettings, MetricsSettings, TraceFormat, TracePlan, TraceSettings,
};
pub use traces::TraceExporter;
