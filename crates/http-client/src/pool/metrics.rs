//! The metrics of one pool.

use std::sync::Arc;

use message::{Fault, FaultKind};
use plugin::WorkerContext;
use telemetry::{CachePadded, Counter, Gauge, WorkerMetrics, families};

pub(super) struct Metrics {
    pub(super) active: Arc<CachePadded<Gauge>>,
    pub(super) in_flight: Arc<CachePadded<Gauge>>,
    pub(super) idle: Arc<CachePadded<Gauge>>,
    /// Connections of HTTP/2, and the requests on them.
    pub(super) shared: Arc<CachePadded<Gauge>>,
    pub(super) streams: Arc<CachePadded<Gauge>>,
    pub(super) parked: Arc<CachePadded<Gauge>>,
    pub(super) reuses: Arc<CachePadded<Counter>>,
    connects: [Arc<CachePadded<Counter>>; 6],
    pub(super) worker: Arc<WorkerMetrics>,
}

impl Metrics {
    pub(super) fn of(context: &WorkerContext, upstream: &str) -> Metrics {
        let telemetry = &context.telemetry;
        let gauge = |state| {
            let family = &families::UPSTREAM_CONNECTIONS;
            telemetry.worker_gauge(context.index, family, &[upstream, state])
        };
        let connects = |result| {
            let family = &families::UPSTREAM_CONNECTS;
            telemetry.worker_counter(context.index, family, &[upstream, result])
        };
        Metrics {
            active: gauge("active"),
            in_flight: telemetry.worker_gauge(
                context.index,
                &families::UPSTREAM_IN_FLIGHT,
                &[upstream],
            ),
            idle: gauge("idle"),
            shared: gauge("shared"),
            streams: telemetry.worker_gauge(
                context.index,
                &families::UPSTREAM_STREAMS,
                &[upstream],
            ),
            parked: gauge("parked"),
            reuses: telemetry.worker_counter(
                context.index,
                &families::UPSTREAM_REUSES,
                &[upstream],
            ),
            connects: ["ok", "refused", "timeout", "certificate", "tls", "error"].map(connects),
            worker: telemetry.worker(context.index),
        }
    }

    pub(super) fn connected(&self, outcome: Result<(), &Fault>) {
        let result = match outcome.map_err(|fault| fault.kind) {
            Ok(()) => 0,
            Err(FaultKind::ConnectionRefused) => 1,
            Err(FaultKind::ConnectionTimeout) => 2,
            Err(FaultKind::TlsCertificateError) => 3,
            Err(FaultKind::TlsProtocolError | FaultKind::TlsAlertReceived) => 4,
            Err(_) => 5,
        };
        self.connects[result].inc();
    }
}
