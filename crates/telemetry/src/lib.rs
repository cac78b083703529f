//! Metrics and logs.
//!
//! Owns counters, gauges and histograms that one worker writes and any thread reads, the registry
//! that adds them up, the table of metric families, the tables of close reasons and limits, and the
//! log: events, rings between workers and the writing thread, messages of syslog, the last errors
//! of programs. Guarantees: counting takes no lock, a full ring drops a line and counts it, and
//! label sets are bounded. Never exports (that is `admin`; only metrics defined by programs are
//! formatted here) and never decides anything by a metric.

pub mod cell;
pub mod escape;
mod exemplars;
pub mod families;
pub mod histogram;
pub mod limits;
pub mod log;
mod loop_lag;
mod marks;
pub mod reasons;
mod recent_errors;
mod registry;
mod ring;
mod scripted;
mod series;
mod syslog;
pub mod timestamp;
mod worker;
mod writer;
mod writer_signal;

/// `tests/models` has loom's types under these names.
mod sync {
    pub(crate) use std::sync::atomic::{AtomicBool, Ordering, fence};
    pub(crate) use std::thread::{Thread, park};
}

pub use cell::{CachePadded, Counter, Gauge, SharedCounter, SharedGauge};
pub use exemplars::{BucketExemplars, Exemplar, Exemplars};
pub use families::{Family, Kind, Unit};
pub use histogram::{Histogram, Snapshot};
pub use loop_lag::LoopLag;
pub use marks::{Mark, MarkKind, Marks};
pub use reasons::{CloseReason, LimitHit, Severity};
pub use recent_errors::{ErrorRecord, RecentErrors};
pub use registry::{FamilySamples, Telemetry};
pub use ring::LogRing;
pub use scripted::{MetricDeclaration, Scripted, ScriptedCell};
pub use series::{Sample, Value};
pub use syslog::{EVENTS as SYSLOG_EVENTS, SyslogHeader};
pub use worker::{LuaMetrics, RouteMetrics, WebSocketMetrics, WorkerMetrics, class_index};
pub use writer::{LineReceiver, LineSender, LogWriter, Sink};
