//! Numbers and lines that say what the server is doing.
//!
//! Owns counters, gauges and histograms that one worker writes and anyone reads, the registry that
//! adds them up, the table of metric families, the tables of close reasons and limits, and the log:
//! events, rings between workers and the thread that writes. Promises that counting never locks,
//! that a full ring drops a line and counts it, and that label sets are bounded. Never exports
//! (that is `admin`; but what programs make up writes itself), never decides anything by reading a
//! number.

pub mod cell;
pub mod escape;
pub mod families;
pub mod histogram;
pub mod limits;
pub mod log;
pub mod reasons;
mod registry;
mod ring;
mod scripted;
mod series;
pub mod timestamp;
mod worker;
mod writer;

pub use cell::{Counter, Gauge, Lane, SharedCounter, SharedGauge};
pub use families::{Family, Kind, Unit};
pub use histogram::{Histogram, Snapshot};
pub use reasons::{CloseReason, LimitHit, Severity};
pub use registry::{FamilySamples, Sample, Telemetry, Value};
pub use ring::LogRing;
pub use scripted::{Declared, Scripted, ScriptedCell};
pub use worker::{RouteMetrics, WorkerMetrics, class_index};
pub use writer::{LogWriter, Sink};
