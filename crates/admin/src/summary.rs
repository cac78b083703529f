//! `/v1/summary`: the server in numbers, of a size that does not depend on the number of routes.
//!
//! Clients take differences of two summaries: the numbers are those of the metrics.

use crate::control::Control;
use crate::limits::{MARKS_MS, SUMMARY_CERTIFICATES, SUMMARY_MARKS, SUMMARY_SERVERS};
use crate::messages::json_response;
use crate::{process, views};
use message::Response;
use serde_json::{Map, Value as Json, json};
use telemetry::families::{self, Family};
use telemetry::histogram::BOUNDS_US;
use telemetry::{FamilySamples, Mark, Snapshot, Telemetry, Value, timestamp};

/// Families whose samples are added up, and the names of the sums.
const SUMS: [(&Family, &str); 15] = [
    (&families::EXCHANGES_IN_FLIGHT, "in_flight"),
    (&families::CONNECTIONS_ACTIVE, "connections"),
    (&families::CONNECTIONS_IDLE, "connections_idle"),
    (&families::CONNECTIONS_ACCEPTED, "connections_accepted"),
    (&families::BYTES_RECEIVED, "received_bytes"),
    (&families::BYTES_SENT, "sent_bytes"),
    (&families::CACHE_HITS, "cache_hits"),
    (&families::CACHE_STALE, "cache_stale"),
    (&families::CACHE_MISSES, "cache_misses"),
    (&families::CACHE_PASSES, "cache_passes"),
    (&families::PROCESS_CPU, "cpu_s"),
    (&families::PROCESS_RSS, "rss_bytes"),
    (&families::PROCESS_FDS, "descriptors"),
    (&families::PROCESS_MAX_FDS, "descriptors_max"),
    (&families::WORKERS, "workers"),
];

#[derive(Default)]
struct Numbers {
    sums: Map<String, Json>,
    responses: Map<String, Json>,
    /// Of all routes.
    durations: Snapshot,
    /// Seconds until the end, listener, subject.
    certificates: Vec<(i64, String, String)>,
}

impl Numbers {
    fn add(&mut self, found: FamilySamples) {
        let name = found.family.name;
        if let Some((_, member)) = SUMS.iter().find(|(family, _)| family.name == name) {
            self.sums.insert((*member).to_owned(), sum(&found));
        }
        for sample in found.samples {
            match (sample.labels.as_slice(), sample.value) {
                ([class], Value::Counter(n)) if name == families::RESPONSES.name => {
                    self.responses.insert(class.clone(), json!(n));
                }
                (_, Value::Histogram(h)) if name == families::REQUEST_DURATION.name => {
                    self.durations.merge(&h);
                }
                ([listener, subject], Value::Gauge(left_s))
                    if name == families::CERTIFICATE_EXPIRY.name =>
                {
                    self.certificates.push((left_s, listener.clone(), subject.clone()));
                }
                _ => {}
            }
        }
    }
}

fn sum(found: &FamilySamples) -> Json {
    let (mut whole, mut real) = (0_i64, 0.0);
    for sample in &found.samples {
        match &sample.value {
            Value::Counter(n) => whole = whole.saturating_add_unsigned(*n),
            Value::Gauge(n) => whole = whole.saturating_add(*n),
            Value::Float(n) => real += n,
            Value::Histogram(_) => {}
        }
    }
    if real == 0.0 { json!(whole) } else { json!(real) }
}

pub(crate) fn of(control: &dyn Control) -> Response {
    let mut numbers = Numbers::default();
    let samples = process::samples().into_iter().chain(control.telemetry().collect());
    samples.chain(control.samples()).for_each(|found| numbers.add(found));
    let mut body = views::status_json(&control.status());
    body["at_ms"] = json!(timestamp::now_ms());
    body["numbers"] = Json::Object(numbers.sums);
    body["responses"] = Json::Object(numbers.responses);
    body["durations"] = json!({
        "below_us": BOUNDS_US,
        "counts": numbers.durations.buckets,
        "sum_us": numbers.durations.sum_us,
    });
    body["servers"] = servers(control);
    body["certificates"] = certificates(numbers.certificates);
    body["marks"] = marks(&control.telemetry());
    json_response(200, &body)
}

/// The number of servers of all upstreams, and those out of rotation.
fn servers(control: &dyn Control) -> Json {
    let upstreams = control.upstreams();
    let all = upstreams.iter().flat_map(|upstream| {
        let members = upstream.servers.iter().filter(|server| server.state != "removed");
        members.map(move |server| (&upstream.name, server))
    });
    let (healthy, out): (Vec<_>, Vec<_>) = all.partition(|(_, server)| server.healthy);
    let named: Vec<Json> = out
        .iter()
        .take(SUMMARY_SERVERS)
        .map(|(upstream, server)| {
            json!({
                "upstream": upstream,
                "address": server.address,
                "state": server.state,
                "last_error": server.last_error,
            })
        })
        .collect();
    json!({ "all": healthy.len() + out.len(), "healthy": healthy.len(), "out": named })
}

/// What happened in the last minutes, the latest last.
fn marks(telemetry: &Telemetry) -> Json {
    let marks = telemetry.marks().since(timestamp::now_ms().saturating_sub(MARKS_MS));
    let latest = marks.iter().skip(marks.len().saturating_sub(SUMMARY_MARKS));
    let row = |mark: &Mark| {
        json!({
            "at_ms": mark.at_ms,
            "kind": mark.kind.slug(),
            "text": mark.text,
            "times": mark.times,
        })
    };
    Json::Array(latest.map(row).collect())
}

fn certificates(mut certificates: Vec<(i64, String, String)>) -> Json {
    certificates.sort();
    let rows = certificates.into_iter().take(SUMMARY_CERTIFICATES);
    let row = |(left_s, listener, subject): (i64, String, String)| {
        json!({
            "listener": listener,
            "subject": subject,
            "expires_in_s": left_s,
        })
    };
    Json::Array(rows.map(row).collect())
}
