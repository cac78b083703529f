//! Exports traces by OTLP, the OpenTelemetry protocol.
//!
//! Owns the settings of the section `traces`, the messages of the protocol and the task that sends
//! them from the control thread. Promises that a collector that is slow, fails or lies delays no
//! request and costs a bounded amount of memory: traces that find the queue full are dropped and
//! counted. Never decides what is recorded: `http-server` does.

mod export;
mod proto;
mod settings;

pub use export::TraceExporter;
pub use settings::{TraceFormat, TracePlan, TraceSettings};
