//! The parts of the server as JSON: status, routes, upstreams, workers.

use crate::control::{
    BreakerStatus, Control, RouteStatus, ServerStatus, Status, UpstreamStatus, WorkerStatus,
};
use crate::messages::{json_response, time};
use message::Response;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use telemetry::families::{self, CLASSES};
use telemetry::{CloseReason, LuaMetrics, Telemetry, Value, timestamp};
use upstream::{DiscoveryStatus, HealthChange};

pub(crate) fn status(status: &Status) -> Response {
    json_response(200, &status_json(status))
}

pub(crate) fn status_json(status: &Status) -> Json {
    let listeners: Vec<Json> = status
        .listeners
        .iter()
        .map(|listener| json!({ "name": listener.name, "address": listener.address }))
        .collect();
    let reload = status.last_reload.as_ref().map(|reload| {
        json!({
            "at": time(reload.at_ms),
            "ok": reload.errors.is_empty(),
            "errors": reload.errors,
        })
    });
    json!({
        "state": status.state.slug(),
        "build": status.build,
        "pid": status.pid,
        "started": time(status.started_ms),
        "uptime_s": timestamp::now_ms().saturating_sub(status.started_ms) / 1_000,
        "config_version": status.config_version,
        "listeners": listeners,
        "last_reload": reload,
        "troubles": status.problems,
    })
}

/// The counters of one route.
#[derive(Default)]
struct RouteNumbers {
    classes: Map<String, Json>,
    in_flight: i64,
    latency: Option<Box<telemetry::Snapshot>>,
}

fn route_numbers(telemetry: &Telemetry) -> BTreeMap<String, RouteNumbers> {
    let mut numbers: BTreeMap<String, RouteNumbers> = BTreeMap::new();
    for found in telemetry.collect() {
        let name = found.family.name;
        for sample in found.samples {
            match (sample.labels.as_slice(), sample.value) {
                ([route, class], Value::Counter(n)) if name == families::REQUESTS.name => {
                    let route = numbers.entry(route.clone()).or_default();
                    route.classes.insert(class.clone(), json!(n));
                }
                ([route], Value::Gauge(n)) if name == families::REQUESTS_IN_FLIGHT.name => {
                    numbers.entry(route.clone()).or_default().in_flight = n;
                }
                ([route], Value::Histogram(h)) if name == families::REQUEST_DURATION.name => {
                    numbers.entry(route.clone()).or_default().latency = Some(h);
                }
                _ => {}
            }
        }
    }
    numbers
}

pub(crate) fn routes(routes: &[RouteStatus], telemetry: &Telemetry) -> Response {
    let mut numbers = route_numbers(telemetry);
    let rows: Vec<Json> = routes
        .iter()
        .map(|route| {
            let counted = numbers.remove(&route.name).unwrap_or_default();
            let latency = counted.latency.map(|snapshot| {
                // Upper bounds of histogram buckets; null is above the last.
                json!({
                    "p50": snapshot.quantile_us(0.5),
                    "p90": snapshot.quantile_us(0.9),
                    "p99": snapshot.quantile_us(0.99),
                })
            });
            json!({
                "name": route.name,
                "match": route.rule,
                "filters": route.filters,
                "handler": route.handler,
                "requests": counted.classes,
                "in_flight": counted.in_flight,
                "latency_below_us": latency,
            })
        })
        .collect();
    json_response(200, &json!({ "routes": rows }))
}

pub(crate) fn upstreams(upstreams: &[UpstreamStatus]) -> Response {
    let rows: Vec<Json> = upstreams
        .iter()
        .map(|upstream| {
            let servers: Vec<Json> = upstream
                .servers
                .iter()
                .map(|server| {
                    json!({
                        "server": server.server,
                        "address": server.address,
                        "weight": server.weight,
                        "changed": server.changed,
                        "backup": server.backup,
                        "healthy": server.healthy,
                        "state": server.state,
                        "in_flight": server.in_flight,
                        "connections": server.connections,
                        "latency_us": server.latency_us,
                        "last_error": server.last_error,
                        "ejected_for_ms": server.ejected_for_ms,
                        "last_change": server.last_change.as_ref().map(health_change),
                    })
                })
                .collect();
            json!({
                "name": upstream.name,
                "balance": upstream.balance,
                "healthy": upstream.servers.iter().filter(|server| server.healthy).count(),
                "panic": upstream.panic,
                "servers": servers,
                "discovery": upstream.discovery.as_ref().map(discovery),
                "breakers": upstream.breakers.iter().map(breaker).collect::<Vec<_>>(),
            })
        })
        .collect();
    json_response(200, &json!({ "upstreams": rows }))
}

pub(crate) fn health_change(change: &HealthChange) -> Json {
    json!({ "at": time(change.at_ms), "state": change.state.as_str(), "why": change.why })
}

fn breaker(status: &BreakerStatus) -> Json {
    let BreakerStatus { breaker, routes, uses } = status;
    json!({
        "name": breaker.name,
        "routes": routes,
        "uses": uses,
        "state": breaker.state,
        "since": breaker.since_ms.map(time),
        "requests": breaker.requests,
        "failed": breaker.failed,
        "slow": breaker.slow,
        "window_ms": breaker.window_ms,
    })
}

fn discovery(source: &DiscoveryStatus) -> Json {
    json!({
        "source": source.source,
        "servers": source.servers,
        "age_s": source.age_ms.map(|age_ms| age_ms / 1000),
        "error": source.error,
    })
}

/// The counters of one stream.
#[derive(Default)]
struct StreamNumbers {
    active: i64,
    accepted: u64,
    received_bytes: u64,
    sent_bytes: u64,
    closed: Map<String, Json>,
    datagrams: Map<String, Json>,
}

fn stream_numbers(telemetry: &Telemetry) -> BTreeMap<String, StreamNumbers> {
    let mut numbers: BTreeMap<String, StreamNumbers> = BTreeMap::new();
    for found in telemetry.collect() {
        let name = found.family.name;
        if !name.starts_with("tidegate_stream_") {
            continue;
        }
        for sample in found.samples {
            let Some((stream, detail)) = sample.labels.split_first() else { continue };
            let stream = numbers.entry(stream.clone()).or_default();
            match (detail, sample.value) {
                ([], Value::Gauge(n)) => stream.active = n,
                ([], Value::Counter(n)) if name == families::STREAM_RECEIVED.name => {
                    stream.received_bytes = n;
                }
                ([], Value::Counter(n)) if name == families::STREAM_SENT.name => {
                    stream.sent_bytes = n;
                }
                ([], Value::Counter(n)) => stream.accepted = n,
                ([reason], Value::Counter(n)) if name == families::STREAM_CLOSED.name => {
                    stream.closed.insert(reason.clone(), json!(n));
                }
                ([result], Value::Counter(n)) => {
                    stream.datagrams.insert(result.clone(), json!(n));
                }
                _ => {}
            }
        }
    }
    numbers
}

pub(crate) fn streams(control: &dyn Control) -> Response {
    let mut numbers = stream_numbers(&control.telemetry());
    let upstreams = control.upstreams();
    let is_member = |server: &&ServerStatus| server.state != "removed";
    let rows: Vec<Json> = control
        .streams()
        .into_iter()
        .map(|stream| {
            let used =
                upstreams.iter().filter(|upstream| stream.upstreams.contains(&upstream.name));
            let used: Vec<Json> = used
                .map(|upstream| {
                    json!({
                        "name": upstream.name,
                        "healthy": upstream.servers.iter().filter(|server| server.healthy).count(),
                        "servers": upstream.servers.iter().filter(is_member).count(),
                    })
                })
                .collect();
            let counted = numbers.remove(&stream.name).unwrap_or_default();
            json!({
                "name": stream.name,
                "bind": stream.bind,
                "protocol": stream.protocol,
                "tls": stream.tls,
                "upstreams": used,
                "connections": {
                    "active": counted.active,
                    "accepted": counted.accepted,
                    "closed": counted.closed,
                },
                "received_bytes": counted.received_bytes,
                "sent_bytes": counted.sent_bytes,
                "datagrams": counted.datagrams,
            })
        })
        .collect();
    json_response(200, &json!({ "streams": rows }))
}

pub(crate) fn workers(workers: &[WorkerStatus], telemetry: &Telemetry) -> Response {
    let rows: Vec<Json> = workers
        .iter()
        .map(|worker| {
            let counted = telemetry.worker(worker.index);
            let answers: Map<String, Json> = CLASSES
                .iter()
                .enumerate()
                .map(|(i, class)| ((*class).to_owned(), json!(counted.responses(i))))
                .collect();
            let closed: Map<String, Json> = CloseReason::ALL
                .iter()
                .filter(|reason| counted.closes(**reason) > 0)
                .map(|reason| (reason.slug().to_owned(), json!(counted.closes(*reason))))
                .collect();
            json!({
                "index": worker.index,
                "cpu": worker.cpu,
                "config_version": worker.config_version,
                "connections": {
                    "accepted": counted.connections_accepted.get(),
                    "active": counted.connections_active.get(),
                    "idle": counted.connections_idle.get(),
                    "tunnels": counted.tunnels_active.get(),
                    "closed": closed,
                },
                "in_flight": counted.requests_in_flight.get(),
                "responses": answers,
                "received_bytes": counted.bytes_received.get(),
                "sent_bytes": counted.bytes_sent.get(),
                "lua": lua(&counted.lua),
            })
        })
        .collect();
    json_response(200, &json!({ "workers": rows }))
}

/// The Lua VMs of a worker; `null` if it has none and had to replace none.
fn lua(counted: &LuaMetrics) -> Option<Json> {
    let (vms, replaced) = (counted.vms.get(), counted.replaced.get());
    (vms > 0 || replaced > 0).then(|| {
        json!({
            "vms": vms,
            "memory_bytes": counted.memory_bytes.get(),
            "memory_limit_bytes": counted.memory_limit_bytes.get(),
            "replaced": replaced,
            "restarted": counted.restarted.get(),
            "errors": counted.errors.get(),
            "loop_lag_ms": counted.loop_lag.ms(),
        })
    })
}
