//! The exporter: all metrics in the Prometheus text format 0.0.4.
//!
//! Families, help and types come from `telemetry::families`. Values are read one by one, so a
//! scrape is not a snapshot; a histogram's buckets and count always agree.

use crate::control::Control;
use crate::merge::merge;
use crate::openmetrics;
use crate::process;
use message::{Request, Response};
use std::fmt::Write;
use telemetry::escape::prometheus;
use telemetry::histogram::BOUNDS_US;
use telemetry::{Family, FamilySamples, Sample, Snapshot, Telemetry, Value};

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The bounds of the histogram in seconds, as labels.
const LE: [&str; BOUNDS_US.len()] = [
    "0.0001", "0.0002", "0.0005", "0.001", "0.002", "0.005", "0.01", "0.02", "0.05", "0.1", "0.2",
    "0.5", "1", "2", "5", "10", "30", "60",
];

/// The response to a scrape: OpenMetrics if the client prefers it.
pub(crate) fn respond(text: String, request: &Request, telemetry: &Telemetry) -> Response {
    if openmetrics::is_wanted(request) {
        let text = openmetrics::of_text(&text, telemetry.exemplars());
        return Response::with_body(200, openmetrics::CONTENT_TYPE, text);
    }
    Response::with_body(200, CONTENT_TYPE, text)
}

/// All metrics that the server knows itself.
pub(crate) fn of(control: &dyn Control) -> String {
    text(&control.telemetry(), control.samples())
}

/// Returns the metrics of this process and of its worker processes.
pub async fn all_metrics(control: &dyn Control) -> String {
    let others = match control.processes_metrics() {
        Some(asked) => asked.await,
        None => Vec::new(),
    };
    merge(&of(control), &others)
}

/// All metrics of the server, of its process, and of its programs.
pub fn metrics_text(telemetry: &Telemetry) -> String {
    text(telemetry, Vec::new())
}

fn text(telemetry: &Telemetry, more: Vec<FamilySamples>) -> String {
    let mut out = String::with_capacity(16 * 1024);
    for found in process::samples().into_iter().chain(telemetry.collect()).chain(more) {
        family(&mut out, &found);
    }
    telemetry.scripted().write(&mut out);
    out
}

fn family(out: &mut String, found: &FamilySamples) {
    let family = found.family;
    out.push_str("# HELP ");
    out.push_str(family.name);
    out.push(' ');
    prometheus(out, family.help, false);
    out.push_str("\n# TYPE ");
    out.push_str(family.name);
    out.push(' ');
    out.push_str(family.kind.token());
    out.push('\n');
    for sample in &found.samples {
        match &sample.value {
            Value::Histogram(snapshot) => histogram(out, family, sample, snapshot),
            Value::Counter(n) => line(out, family, "", sample, None, format_args!("{n}")),
            Value::Gauge(n) => line(out, family, "", sample, None, format_args!("{n}")),
            Value::Float(n) => line(out, family, "", sample, None, format_args!("{n}")),
        }
    }
}

fn histogram(out: &mut String, family: &Family, sample: &Sample, snapshot: &Snapshot) {
    let mut below = 0;
    for (count, le) in snapshot.buckets.iter().zip(LE) {
        below += count;
        line(out, family, "_bucket", sample, Some(le), format_args!("{below}"));
    }
    let count = snapshot.count();
    line(out, family, "_bucket", sample, Some("+Inf"), format_args!("{count}"));
    let seconds = snapshot.sum_us as f64 / 1e6;
    line(out, family, "_sum", sample, None, format_args!("{seconds}"));
    line(out, family, "_count", sample, None, format_args!("{count}"));
}

fn line(
    out: &mut String,
    family: &Family,
    suffix: &str,
    sample: &Sample,
    le: Option<&str>,
    value: std::fmt::Arguments<'_>,
) {
    out.push_str(family.name);
    out.push_str(suffix);
    let mut separator = '{';
    let labels = family.labels.iter().copied().zip(sample.labels.iter().map(String::as_str));
    for (name, value) in labels.chain(le.map(|le| ("le", le))) {
        out.push(separator);
        separator = ',';
        out.push_str(name);
        out.push_str("=\"");
        prometheus(out, value, true);
        out.push('"');
    }
    if separator == ',' {
        out.push('}');
    }
    // Writing to a String does not fail.
    let _ = writeln!(out, " {value}");
}

#[cfg(test)]
mod tests {
    use super::{LE, metrics_text};
    use telemetry::histogram::BOUNDS_US;
    use telemetry::{CloseReason, Telemetry, families};

    #[test]
    fn labels_of_buckets_are_their_bounds() {
        for (le, bound) in LE.iter().zip(BOUNDS_US) {
            let seconds: f64 = le.parse().unwrap();
            assert_eq!((seconds * 1e6).round() as u64, bound, "{le}");
        }
    }

    #[test]
    fn everything_counted_is_there() {
        let telemetry = Telemetry::new();
        telemetry.worker(0).closed(CloseReason::IdleTimeout);
        telemetry.worker(1).closed(CloseReason::IdleTimeout);
        telemetry.route(0, "shop \"old\"\\\n").finished(200, 1_500);
        telemetry.counter(&families::CONFIG_RELOAD_FAILURES, &[]).inc();
        let healthy = telemetry.gauge(&families::UPSTREAM_HEALTHY, &["api", "10.0.0.1:80"]);
        healthy.set(1);
        let text = metrics_text(&telemetry);
        for expected in [
            "# TYPE tidegate_connections_closed_total counter\n",
            "tidegate_connections_closed_total{reason=\"idle_timeout\",fault=\"normal\"} 2\n",
            "tidegate_requests_total{route=\"shop \\\"old\\\"\\\\\\n\",class=\"2xx\"} 1\n",
            ",le=\"0.001\"} 0\n",
            ",le=\"0.002\"} 1\n",
            ",le=\"+Inf\"} 1\n",
            "tidegate_request_duration_seconds_sum{route=\"shop \\\"old\\\"\\\\\\n\"} 0.0015\n",
            "tidegate_config_reload_failures_total 1\n",
            "tidegate_upstream_server_healthy{upstream=\"api\",server=\"10.0.0.1:80\"} 1\n",
            "# TYPE process_resident_memory_bytes gauge\n",
            "# HELP tidegate_build_info Always 1",
        ] {
            assert!(text.contains(expected), "no {expected:?} in\n{text}");
        }
        assert!(text.ends_with('\n'));
    }

    #[test]
    fn each_family_stands_once_and_its_lines_together() {
        let telemetry = Telemetry::new();
        telemetry.worker(0);
        telemetry.route(0, "a").finished(200, 5);
        telemetry.route(0, "b").finished(500, 5);
        let text = metrics_text(&telemetry);
        let mut seen = Vec::new();
        let mut current = "";
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# HELP ") {
                current = rest.split(' ').next().unwrap();
                assert!(!seen.contains(&current), "{current} stands twice");
                seen.push(current);
            } else if !line.starts_with('#') {
                assert!(line.starts_with(current), "{line} under {current}");
                let value = line.rsplit(' ').next().unwrap();
                assert!(value.parse::<f64>().is_ok(), "{line}");
            }
        }
        assert!(seen.len() > 10);
    }
}
