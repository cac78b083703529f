//! The registry that creates counters and adds them up.
//!
//! One `Telemetry` for the whole process. A mutex is taken to create a counter and to read them
//! all, never to count. Counters are keyed by name (of a route, of an upstream), not by
//! configuration, so that they outlive a reload.

use crate::cell::{CachePadded, Counter, Gauge, SharedCounter, SharedGauge};
use crate::escape::cut;
use crate::exemplars::Exemplars;
use crate::families::{self, CLASSES, Family};
use crate::histogram::{Histogram, Snapshot};
use crate::limits::{LABEL_BYTES, OTHER, ROUTES};
use crate::marks::Marks;
use crate::reasons::{CloseReason, LimitHit};
use crate::scripted::Scripted;
use crate::series::{Sample, SeriesSet, Stored, Value};
use crate::worker::{RouteMetrics, WebSocketMetrics, WorkerMetrics};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::grpc::Code;

/// A family and all its samples.
#[derive(Debug)]
pub struct FamilySamples {
    pub family: &'static Family,
    pub samples: Vec<Sample>,
}

/// The counters of a route in each worker, in their order. A list, because there may be 100 000
/// routes, and a worker or two.
type RouteCells = Vec<(usize, Arc<RouteMetrics>)>;

#[derive(Debug, Default)]
struct RegistryState {
    workers: BTreeMap<usize, Arc<WorkerMetrics>>,
    routes: BTreeMap<String, RouteCells>,
    /// True if a search at the limit found only routes in use, until the metrics are read.
    is_route_table_full: bool,
    families: BTreeMap<&'static str, SeriesSet>,
}

/// The registry, shared in an `Arc`.
#[derive(Debug, Default)]
pub struct Telemetry {
    state: Mutex<RegistryState>,
    scripted: Arc<Scripted>,
    exemplars: Exemplars,
    marks: Marks,
}

impl Telemetry {
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, RegistryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the metrics defined by programs.
    pub fn scripted(&self) -> &Arc<Scripted> {
        &self.scripted
    }

    /// Returns the traces that are examples of durations.
    pub fn exemplars(&self) -> &Exemplars {
        &self.exemplars
    }

    /// Returns the marks of time series.
    pub fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Returns the counters of a worker; only that worker may write them.
    pub fn worker(&self, worker: usize) -> Arc<WorkerMetrics> {
        Arc::clone(self.state().workers.entry(worker).or_default())
    }

    /// Returns all known workers with their counters.
    pub fn workers(&self) -> Vec<(usize, Arc<WorkerMetrics>)> {
        self.state().workers.iter().map(|(i, metrics)| (*i, Arc::clone(metrics))).collect()
    }

    /// Returns a worker's counters of a route; only that worker may write them. At the limit on
    /// names, routes that no plan uses any more are removed; if there are none, "other" is
    /// returned, and none are looked for until the metrics are read: a plan of 100 000 routes asks
    /// for all of them at once.
    pub fn route(&self, worker: usize, name: &str) -> Arc<RouteMetrics> {
        let mut state = self.state();
        let RegistryState { routes, is_route_table_full, .. } = &mut *state;
        let mut key = cut(name, LABEL_BYTES).to_owned();
        if !routes.contains_key(&key) {
            if routes.len() >= ROUTES && !*is_route_table_full {
                routes.retain(|name, cells| {
                    name == OTHER || cells.iter().any(|(_, cell)| Arc::strong_count(cell) > 1)
                });
                *is_route_table_full = routes.len() >= ROUTES;
            }
            if routes.len() >= ROUTES {
                key = OTHER.to_owned();
            }
        }
        let cells = routes.entry(key).or_default();
        let at = cells.binary_search_by_key(&worker, |(worker, _)| *worker);
        let at = at.unwrap_or_else(|at| {
            cells.reserve_exact(1);
            cells.insert(at, (worker, Arc::default()));
            at
        });
        Arc::clone(&cells[at].1)
    }

    /// Returns a counter any thread may write. `labels` are the values of `family.labels`, in
    /// order.
    pub fn counter(&self, family: &'static Family, labels: &[&str]) -> Arc<SharedCounter> {
        self.cell(family, labels, None)
    }

    /// Returns a gauge any thread may write. Keep the handle: a labelled gauge without one is
    /// removed.
    pub fn gauge(&self, family: &'static Family, labels: &[&str]) -> Arc<SharedGauge> {
        self.cell(family, labels, None)
    }

    /// Returns a counter that only the given worker writes; the workers' counters add up.
    pub fn worker_counter(
        &self,
        worker: usize,
        family: &'static Family,
        labels: &[&str],
    ) -> Arc<CachePadded<Counter>> {
        self.cell(family, labels, Some(worker))
    }

    /// Returns a gauge that only the given worker writes; the workers' gauges add up.
    pub fn worker_gauge(
        &self,
        worker: usize,
        family: &'static Family,
        labels: &[&str],
    ) -> Arc<CachePadded<Gauge>> {
        self.cell(family, labels, Some(worker))
    }

    /// Returns a histogram that only the given worker writes; the workers' histograms add up.
    pub fn worker_histogram(
        &self,
        worker: usize,
        family: &'static Family,
        labels: &[&str],
    ) -> Arc<Histogram> {
        self.cell(family, labels, Some(worker))
    }

    fn cell<T: Stored>(
        &self,
        family: &'static Family,
        labels: &[&str],
        owner: Option<usize>,
    ) -> Arc<T> {
        debug_assert_eq!(labels.len(), family.labels.len(), "labels of {}", family.name);
        self.state().families.entry(family.name).or_default().cell(labels, owner)
    }

    /// Reads all metrics, family by family in the order of the table, without families that have no
    /// sample.
    pub fn collect(&self) -> Vec<FamilySamples> {
        let mut state = self.state();
        let mut samples: BTreeMap<&'static str, Vec<Sample>> = BTreeMap::new();
        for (name, set) in &mut state.families {
            samples.insert(name, set.collect());
        }
        worker_samples(&state.workers, &mut samples);
        route_samples(&state.routes, &mut samples);
        state.is_route_table_full = false;
        drop(state);
        families::ALL
            .iter()
            .filter_map(|family| {
                let samples = samples.remove(family.name).filter(|samples| !samples.is_empty())?;
                Some(FamilySamples { family, samples })
            })
            .collect()
    }
}

type SamplesByFamily = BTreeMap<&'static str, Vec<Sample>>;

fn push(samples: &mut SamplesByFamily, family: &'static Family, labels: &[&str], value: Value) {
    let labels = labels.iter().map(|&value| value.to_owned()).collect();
    samples.entry(family.name).or_default().push(Sample { labels, value });
}

/// The counters of one direction.
type WebSocketDirection = fn(&WorkerMetrics) -> &WebSocketMetrics;

fn worker_samples(workers: &BTreeMap<usize, Arc<WorkerMetrics>>, samples: &mut SamplesByFamily) {
    let count = |read: &dyn Fn(&WorkerMetrics) -> u64| {
        Value::Counter(workers.values().map(|worker| read(worker)).sum())
    };
    let level = |read: &dyn Fn(&WorkerMetrics) -> i64| {
        Value::Gauge(workers.values().map(|worker| read(worker)).sum())
    };
    push(samples, &families::WORKERS, &[], Value::Gauge(workers.len() as i64));
    let accepted = count(&|w| w.connections_accepted.get());
    push(samples, &families::CONNECTIONS_ACCEPTED, &[], accepted);
    let active = level(&|w| w.connections_active.get());
    push(samples, &families::CONNECTIONS_ACTIVE, &[], active);
    push(samples, &families::CONNECTIONS_IDLE, &[], level(&|w| w.connections_idle.get()));
    for &reason in CloseReason::ALL {
        let labels = [reason.slug(), reason.severity().slug()];
        push(samples, &families::CONNECTIONS_CLOSED, &labels, count(&|w| w.closes(reason)));
    }
    push(samples, &families::ACCEPT_ERRORS, &[], count(&|w| w.accept_errors.get()));
    for (result, handshakes) in [
        ("full", count(&|w| w.tls_handshakes_full.get())),
        ("resumed", count(&|w| w.tls_handshakes_resumed.get())),
    ] {
        push(samples, &families::TLS_HANDSHAKES, &[result], handshakes);
    }
    push(samples, &families::TUNNELS_ACTIVE, &[], level(&|w| w.tunnels_active.get()));
    let websocket: [(&str, WebSocketDirection); 2] =
        [("received", |w| &w.websocket_received), ("sent", |w| &w.websocket_sent)];
    for (direction, of) in websocket {
        let messages = &families::WEBSOCKET_MESSAGES;
        push(samples, messages, &[direction, "text"], count(&|w| of(w).text.get()));
        push(samples, messages, &[direction, "binary"], count(&|w| of(w).binary.get()));
        push(samples, messages, &[direction, "close"], count(&|w| of(w).close.get()));
        let bytes = &families::WEBSOCKET_BYTES;
        push(samples, bytes, &[direction], count(&|w| of(w).bytes.get()));
    }
    push(samples, &families::BYTES_RECEIVED, &[], count(&|w| w.bytes_received.get()));
    push(samples, &families::BYTES_SENT, &[], count(&|w| w.bytes_sent.get()));
    for &limit in LimitHit::ALL {
        push(samples, &families::LIMITS_HIT, &[limit.slug()], count(&|w| w.hits(limit)));
    }
    for (i, class) in CLASSES.into_iter().enumerate() {
        push(samples, &families::RESPONSES, &[class], count(&|w| w.responses(i)));
    }
    push(samples, &families::LUA_VMS, &[], level(&|w| w.lua.vms.get()));
    push(samples, &families::LUA_MEMORY, &[], level(&|w| w.lua.memory_bytes.get()));
    push(samples, &families::LUA_MEMORY_LIMIT, &[], level(&|w| w.lua.memory_limit_bytes.get()));
    push(samples, &families::LUA_REPLACED, &[], count(&|w| w.lua.replaced.get()));
    push(samples, &families::LUA_RESTARTED, &[], count(&|w| w.lua.restarted.get()));
    push(samples, &families::LUA_ERRORS, &[], count(&|w| w.lua.errors.get()));
    for (index, worker) in workers.iter().filter(|(_, worker)| worker.lua.vms.get() > 0) {
        let lag = Value::Float(worker.lua.loop_lag.ms() as f64 / 1e3);
        push(samples, &families::LUA_LOOP_LAG, &[&index.to_string()], lag);
    }
    let in_flight = level(&|w| w.requests_in_flight.get());
    push(samples, &families::EXCHANGES_IN_FLIGHT, &[], in_flight);
}

fn route_samples(routes: &BTreeMap<String, RouteCells>, samples: &mut SamplesByFamily) {
    for (name, cells) in routes {
        let mut duration = Snapshot::default();
        for (i, class) in CLASSES.into_iter().enumerate() {
            let requests = cells.iter().map(|(_, cell)| cell.requests(i)).sum::<u64>();
            if requests > 0 {
                push(samples, &families::REQUESTS, &[name, class], Value::Counter(requests));
            }
        }
        for &code in Code::ALL {
            let requests = cells.iter().map(|(_, cell)| cell.grpc_requests(code)).sum::<u64>();
            if requests > 0 {
                let labels = [name, code.slug()];
                push(samples, &families::GRPC_REQUESTS, &labels, Value::Counter(requests));
            }
        }
        let in_flight = cells.iter().map(|(_, cell)| cell.in_flight.get()).sum();
        push(samples, &families::REQUESTS_IN_FLIGHT, &[name], Value::Gauge(in_flight));
        for (_, cell) in cells {
            duration.merge(&cell.duration());
        }
        if duration.count() > 0 {
            let value = Value::Histogram(Box::new(duration));
            push(samples, &families::REQUEST_DURATION, &[name], value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{FamilySamples, Telemetry, Value};
    use crate::families::{self, Family};
    use crate::limits::ROUTES;
    use crate::reasons::CloseReason;
    use std::sync::Arc;

    fn value(all: &[FamilySamples], family: &Family, labels: &[&str]) -> Option<Value> {
        let samples = all.iter().find(|f| f.family.name == family.name)?;
        samples.samples.iter().find(|s| s.labels == labels).map(|s| s.value.clone())
    }

    #[test]
    fn workers_and_routes_add_up() {
        let telemetry = Telemetry::new();
        for i in 0..2 {
            let worker = telemetry.worker(i);
            worker.connections_accepted.add(2);
            worker.closed(CloseReason::Drain);
            let route = telemetry.route(i, "shop");
            route.finished(200, 1_000);
            route.in_flight.inc();
        }
        assert!(Arc::ptr_eq(&telemetry.worker(1), &telemetry.worker(1)));
        assert!(Arc::ptr_eq(&telemetry.route(1, "shop"), &telemetry.route(1, "shop")));
        let all = telemetry.collect();
        assert_eq!(value(&all, &families::WORKERS, &[]), Some(Value::Gauge(2)));
        let accepted = value(&all, &families::CONNECTIONS_ACCEPTED, &[]);
        assert_eq!(accepted, Some(Value::Counter(4)));
        let drained = value(&all, &families::CONNECTIONS_CLOSED, &["drain", "normal"]);
        assert_eq!(drained, Some(Value::Counter(2)));
        assert_eq!(value(&all, &families::REQUESTS, &["shop", "2xx"]), Some(Value::Counter(2)));
        assert_eq!(value(&all, &families::REQUESTS_IN_FLIGHT, &["shop"]), Some(Value::Gauge(2)));
        match value(&all, &families::REQUEST_DURATION, &["shop"]) {
            Some(Value::Histogram(snapshot)) => assert_eq!(snapshot.count(), 2),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn families_come_in_the_order_of_the_table() {
        let telemetry = Telemetry::new();
        telemetry.counter(&families::CONFIG_RELOADS, &[]).inc();
        telemetry.worker_counter(0, &families::UPSTREAM_RETRIES, &["api"]).add(3);
        telemetry.worker_counter(1, &families::UPSTREAM_RETRIES, &["api"]).add(4);
        let all = telemetry.collect();
        assert_eq!(value(&all, &families::UPSTREAM_RETRIES, &["api"]), Some(Value::Counter(7)));
        let place =
            |family: &Family| families::ALL.iter().position(|f| f.name == family.name).unwrap();
        let places: Vec<_> = all.iter().map(|f| place(f.family)).collect();
        assert!(places.is_sorted(), "{places:?}");
    }

    #[test]
    fn route_names_are_bounded() {
        let telemetry = Telemetry::new();
        let held: Vec<_> = (0..ROUTES).map(|i| telemetry.route(0, &format!("r{i}"))).collect();
        telemetry.route(0, "late").finished(200, 1);
        let all = telemetry.collect();
        assert_eq!(value(&all, &families::REQUESTS, &["other", "2xx"]), Some(Value::Counter(1)));
        telemetry.route(0, "late");
        drop((held, all));
        telemetry.route(0, "not looked for again").finished(200, 1);
        let all = telemetry.collect();
        assert_eq!(value(&all, &families::REQUESTS, &["other", "2xx"]), Some(Value::Counter(2)));
        telemetry.route(0, "later").finished(200, 1);
        let all = telemetry.collect();
        assert_eq!(value(&all, &families::REQUESTS, &["later", "2xx"]), Some(Value::Counter(1)));
    }
}
