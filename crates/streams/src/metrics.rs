//! What a stream counts on one worker.

use std::sync::Arc;

use plugin::WorkerContext;
use telemetry::families;
use telemetry::{
    CachePadded, CloseReason, Counter, Gauge, SharedCounter, Telemetry, WorkerMetrics,
};

pub(crate) struct StreamMetrics {
    pub(crate) connections: Arc<CachePadded<Counter>>,
    pub(crate) active: Arc<CachePadded<Gauge>>,
    pub(crate) received: Arc<CachePadded<Counter>>,
    pub(crate) sent: Arc<CachePadded<Counter>>,
    pub(crate) datagrams_received: Arc<CachePadded<Counter>>,
    pub(crate) datagrams_sent: Arc<CachePadded<Counter>>,
    pub(crate) datagrams_dropped: Arc<CachePadded<Counter>>,
    /// Of the worker, which count every connection.
    pub(crate) worker: Arc<WorkerMetrics>,
    telemetry: Arc<Telemetry>,
    stream: Box<str>,
}

impl StreamMetrics {
    pub(crate) fn of(stream: &str, context: &WorkerContext) -> StreamMetrics {
        let telemetry = &context.telemetry;
        let worker = context.index;
        let counter = |family| telemetry.worker_counter(worker, family, &[stream]);
        let datagrams = |result| {
            let family = &families::STREAM_DATAGRAMS;
            telemetry.worker_counter(worker, family, &[stream, result])
        };
        StreamMetrics {
            connections: counter(&families::STREAM_CONNECTIONS),
            active: telemetry.worker_gauge(worker, &families::STREAM_ACTIVE, &[stream]),
            received: counter(&families::STREAM_RECEIVED),
            sent: counter(&families::STREAM_SENT),
            datagrams_received: datagrams("received"),
            datagrams_sent: datagrams("sent"),
            datagrams_dropped: datagrams("dropped"),
            worker: telemetry.worker(worker),
            telemetry: telemetry.clone(),
            stream: stream.into(),
        }
    }

    pub(crate) fn began(&self) {
        self.connections.inc();
        self.active.inc();
        self.worker.connections_accepted.inc();
        self.worker.connections_active.add(1);
    }

    pub(crate) fn ended(&self, reason: CloseReason) {
        self.active.dec();
        self.worker.connections_active.add(-1);
        self.closed(reason);
    }

    /// Counts an end. Not by a stored handle: there are many reasons, and most never occur.
    pub(crate) fn closed(&self, reason: CloseReason) {
        self.worker.closed(reason);
        let labels = [&*self.stream, reason.slug()];
        let ended: Arc<SharedCounter> = self.telemetry.counter(&families::STREAM_CLOSED, &labels);
        ended.inc();
    }
}
