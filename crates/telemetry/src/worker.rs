//! The counters of one worker: connections, responses and routes.
//!
//! One `WorkerMetrics` per worker and one `RouteMetrics` per worker and route name, written by that
//! worker only, read by any thread.

use crate::cell::{Counter, Gauge};
use crate::histogram::{Histogram, Snapshot};
use crate::loop_lag::LoopLag;
use crate::reasons::{CloseReason, LimitHit};
use std::sync::OnceLock;
use wire::grpc::Code;

/// Returns the index of a status in an array of classes: 1xx is 0, 5xx (and anything unexpected) is
/// 4.
#[inline]
pub fn class_index(status: u16) -> usize {
    match status {
        100..=199 => 0,
        200..=299 => 1,
        300..=399 => 2,
        400..=499 => 3,
        _ => 4,
    }
}

/// One direction of the WebSocket tunnels of a worker.
#[derive(Debug, Default)]
pub struct WebSocketMetrics {
    pub text: Counter,
    pub binary: Counter,
    pub close: Counter,
    pub bytes: Counter,
}

/// The Lua VMs of a worker: that of the current plan, and those of earlier ones that still serve.
#[derive(Debug, Default)]
pub struct LuaMetrics {
    pub vms: Gauge,
    /// As of the end of the last event that each handled.
    pub memory_bytes: Gauge,
    pub memory_limit_bytes: Gauge,
    /// VMs that were replaced because they exceeded their limit.
    pub replaced: Counter,
    /// VMs that were replaced on request.
    pub restarted: Counter,
    /// Coroutines that ended with an error.
    pub errors: Counter,
    /// Of the worker's event loop; measured while it has a VM.
    pub loop_lag: LoopLag,
}

/// The counters of one worker.
#[derive(Debug)]
#[repr(align(128))] // two lines, because of the adjacent-line prefetcher
pub struct WorkerMetrics {
    pub connections_accepted: Counter,
    pub connections_active: Gauge,
    /// Kept alive and waiting for a request.
    pub connections_idle: Gauge,
    /// Upgraded connections.
    pub tunnels_active: Gauge,
    /// Of WebSocket tunnels: from clients, and to them.
    pub websocket_received: WebSocketMetrics,
    pub websocket_sent: WebSocketMetrics,
    pub requests_in_flight: Gauge,
    pub bytes_received: Counter,
    pub bytes_sent: Counter,
    pub accept_errors: Counter,
    /// Completed TLS handshakes with a key exchange, and those that resumed a session.
    pub tls_handshakes_full: Counter,
    pub tls_handshakes_resumed: Counter,
    pub lua: LuaMetrics,
    responses: [Counter; 5],
    closed: [Counter; CloseReason::COUNT],
    limits: [Counter; LimitHit::COUNT],
}

impl WorkerMetrics {
    pub fn new() -> Self {
        Self {
            connections_accepted: Counter::new(),
            connections_active: Gauge::new(),
            connections_idle: Gauge::new(),
            tunnels_active: Gauge::new(),
            websocket_received: WebSocketMetrics::default(),
            websocket_sent: WebSocketMetrics::default(),
            requests_in_flight: Gauge::new(),
            bytes_received: Counter::new(),
            bytes_sent: Counter::new(),
            accept_errors: Counter::new(),
            tls_handshakes_full: Counter::new(),
            tls_handshakes_resumed: Counter::new(),
            lua: LuaMetrics::default(),
            responses: [const { Counter::new() }; 5],
            closed: [const { Counter::new() }; CloseReason::COUNT],
            limits: [const { Counter::new() }; LimitHit::COUNT],
        }
    }

    /// Counts a response by its status class, with or without a route.
    #[inline]
    pub fn count_response(&self, status: u16) {
        self.responses[class_index(status)].inc();
    }

    /// Counts the end of a connection; the caller decrements `connections_active`.
    #[inline]
    pub fn closed(&self, reason: CloseReason) {
        self.closed[reason.index()].inc();
    }

    /// Counts a completed TLS handshake.
    pub fn count_handshake(&self, is_resumed: bool) {
        match is_resumed {
            true => self.tls_handshakes_resumed.inc(),
            false => self.tls_handshakes_full.inc(),
        }
    }

    #[inline]
    pub fn hit(&self, limit: LimitHit) {
        self.limits[limit.index()].inc();
    }

    pub fn responses(&self, class: usize) -> u64 {
        self.responses.get(class).map_or(0, Counter::get)
    }

    pub fn closes(&self, reason: CloseReason) -> u64 {
        self.closed[reason.index()].get()
    }

    pub fn hits(&self, limit: LimitHit) -> u64 {
        self.limits[limit.index()].get()
    }
}

impl Default for WorkerMetrics {
    fn default() -> Self {
        Self::new()
    }
}

/// The counters of one route in one worker. Small, because there may be 100 000 routes, most of
/// them without a request. The worker allocates them, and so no other worker writes near them.
#[derive(Debug, Default)]
pub struct RouteMetrics {
    requests: [Counter; 5],
    /// Of gRPC calls, by status; made with the first of them, as most routes have none.
    grpc: OnceLock<Box<[Counter; Code::COUNT]>>,
    pub in_flight: Gauge,
    /// Made with the first request.
    duration: OnceLock<Box<Histogram>>,
}

impl RouteMetrics {
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts a finished request; the caller decrements `in_flight`.
    #[inline]
    pub fn finished(&self, status: u16, duration_us: u64) {
        self.requests[class_index(status)].inc();
        self.duration.get_or_init(Box::default).record_us(duration_us);
    }

    /// Returns how long requests took.
    pub fn duration(&self) -> Snapshot {
        self.duration.get().map_or_else(Snapshot::default, |duration| duration.snapshot())
    }

    pub fn requests(&self, class: usize) -> u64 {
        self.requests.get(class).map_or(0, Counter::get)
    }

    /// Counts a finished gRPC call.
    pub fn count_grpc(&self, code: Code) {
        self.grpc.get_or_init(Box::default)[usize::from(code.number())].inc();
    }

    pub fn grpc_requests(&self, code: Code) -> u64 {
        self.grpc.get().map_or(0, |counters| counters[usize::from(code.number())].get())
    }
}

#[cfg(test)]
mod tests {
    use super::{RouteMetrics, WorkerMetrics, class_index};
    use crate::reasons::{CloseReason, LimitHit};

    #[test]
    fn classes_cover_every_status() {
        let expected = [(100, 0), (204, 1), (304, 2), (499, 3), (500, 4), (0, 4), (999, 4)];
        for (status, class) in expected {
            assert_eq!(class_index(status), class, "{status}");
        }
    }

    #[test]
    fn counters_are_independent() {
        let worker = WorkerMetrics::new();
        worker.closed(CloseReason::IdleTimeout);
        worker.hit(LimitHit::Idle);
        worker.count_response(404);
        assert_eq!(worker.closes(CloseReason::IdleTimeout), 1);
        assert_eq!(worker.closes(CloseReason::ClientClosed), 0);
        assert_eq!(worker.hits(LimitHit::Idle), 1);
        assert_eq!((worker.responses(3), worker.responses(1), worker.responses(9)), (1, 0, 0));
    }

    #[test]
    fn a_route_counts_class_and_time() {
        let route = RouteMetrics::new();
        route.finished(201, 300);
        route.finished(503, 20);
        assert_eq!((route.requests(1), route.requests(4), route.requests(0)), (1, 1, 0));
        assert_eq!(route.duration().sum_us, 320);
    }
}
