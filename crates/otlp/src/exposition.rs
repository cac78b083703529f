//! Reads our own metrics in the text format, in which those of programs and of worker processes are
//! as well, into the values of OTLP.

use std::collections::BTreeMap;

use telemetry::Exemplars;

use crate::proto::KeyValue;
use crate::proto::metrics::{
    CUMULATIVE, Data, Exemplar, Gauge, Histogram, HistogramDataPoint, Metric, Number,
    NumberDataPoint, Sum,
};

/// The histogram whose routes have exemplars.
const DURATIONS: &str = "tidegate_request_duration_seconds";

/// The times of all values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// When counting began.
    pub(crate) start_ns: u64,
    pub(crate) now_ns: u64,
}

/// A line of the text: labels and a value.
struct Line<'t> {
    name: &'t str,
    labels: Vec<(String, String)>,
    value: f64,
    /// False for a value that is a whole number.
    is_fraction: bool,
}

/// Returns the metrics of a text, and the number of their values.
pub(crate) fn metrics(text: &str, times: Times, exemplars: &Exemplars) -> (Vec<Metric>, u64) {
    let mut metrics = Vec::new();
    let mut values = 0;
    let mut lines = text.lines().peekable();
    let mut help = "";
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').map_or("", |(_, help)| help);
            continue;
        }
        let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        else {
            continue;
        };
        let mut samples = Vec::new();
        while let Some(sample) = lines.next_if(|line| !line.starts_with('#')) {
            samples.extend(parse(sample));
        }
        let named = match kind {
            "counter" => {
                let sum = Sum {
                    data_points: samples.into_iter().map(|line| number(line, times)).collect(),
                    aggregation_temporality: CUMULATIVE,
                    is_monotonic: true,
                };
                vec![(name, Data::Sum(sum))]
            }
            "histogram" => {
                vec![(name, Data::Histogram(histogram(name, &samples, times, exemplars)))]
            }
            _ => gauges(samples, times),
        };
        for (name, data) in named {
            let count = match &data {
                Data::Sum(sum) => sum.data_points.len(),
                Data::Gauge(gauge) => gauge.data_points.len(),
                Data::Histogram(histogram) => histogram.data_points.len(),
            };
            if count > 0 {
                values += count as u64;
                metrics.push(metric(name, help, data));
            }
        }
        help = "";
    }
    (metrics, values)
}

/// A gauge for each name: the sum and the count of a summary have names of their own.
fn gauges<'t>(lines: Vec<Line<'t>>, times: Times) -> Vec<(&'t str, Data)> {
    let mut by_name: BTreeMap<&str, Vec<NumberDataPoint>> = BTreeMap::new();
    for line in lines {
        by_name.entry(line.name).or_default().push(number(line, times));
    }
    let gauge = |(name, data_points)| (name, Data::Gauge(Gauge { data_points }));
    by_name.into_iter().map(gauge).collect()
}

fn metric(name: &str, help: &str, data: Data) -> Metric {
    let (name, unit) = (name.to_owned(), unit(name).to_owned());
    let description = help.replace("\\n", "\n").replace("\\\\", "\\");
    Metric { name, description, unit, data: Some(data) }
}

/// The unit in a name, as UCUM writes it.
fn unit(name: &str) -> &'static str {
    let name = name.strip_suffix("_total").unwrap_or(name);
    match name.rsplit('_').next() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        _ => "1",
    }
}

fn number(line: Line<'_>, times: Times) -> NumberDataPoint {
    // Whole numbers up to 2^53 are the same as floating point numbers.
    let whole = !line.is_fraction && line.value.abs() < 9_007_199_254_740_992.0;
    NumberDataPoint {
        start_time_unix_nano: times.start_ns,
        time_unix_nano: times.now_ns,
        value: Some(if whole {
            Number::Int(line.value as i64)
        } else {
            Number::Double(line.value)
        }),
        attributes: attributes(line.labels),
    }
}

fn attributes(labels: Vec<(String, String)>) -> Vec<KeyValue> {
    labels.into_iter().map(|(name, value)| KeyValue::text(name, value)).collect()
}

/// The lines of a histogram by their labels without `le`.
fn histogram(name: &str, lines: &[Line<'_>], times: Times, exemplars: &Exemplars) -> Histogram {
    let mut points: BTreeMap<Vec<(String, String)>, HistogramDataPoint> = BTreeMap::new();
    for line in lines {
        let (le, labels): (Vec<_>, Vec<_>) =
            line.labels.iter().cloned().partition(|(label, _)| label == "le");
        let point = points.entry(labels).or_insert_with(|| HistogramDataPoint {
            start_time_unix_nano: times.start_ns,
            time_unix_nano: times.now_ns,
            ..HistogramDataPoint::default()
        });
        match line.name.strip_prefix(name) {
            Some("_bucket") => {
                let below: u64 = point.bucket_counts.iter().sum();
                point.bucket_counts.push((line.value as u64).saturating_sub(below));
                let bound = le.first().and_then(|(_, bound)| bound.parse::<f64>().ok());
                point.explicit_bounds.extend(bound.filter(|bound| bound.is_finite()));
            }
            Some("_sum") => point.sum = Some(line.value),
            Some("_count") => point.count = line.value as u64,
            _ => {}
        }
    }
    let data_points = points.into_iter().map(|(labels, mut point)| {
        if name == DURATIONS {
            point.exemplars = examples(&labels, exemplars);
        }
        point.attributes = attributes(labels);
        point
    });
    Histogram { data_points: data_points.collect(), aggregation_temporality: CUMULATIVE }
}

fn examples(labels: &[(String, String)], exemplars: &Exemplars) -> Vec<Exemplar> {
    // Routes of worker processes have a further label.
    let [(label, route)] = labels else { return Vec::new() };
    let of_route = exemplars.of_route(route).filter(|_| label == "route");
    let examples = of_route.iter().flatten().flatten().map(|exemplar| Exemplar {
        time_unix_nano: exemplar.unix_ms * 1_000_000,
        as_double: exemplar.value_us as f64 / 1e6,
        span_id: exemplar.span_id.to_vec(),
        trace_id: exemplar.trace_id.to_vec(),
    });
    examples.collect()
}

/// Reads `name{label="value",…} 1.5`. Our own text has no timestamps.
fn parse(line: &str) -> Option<Line<'_>> {
    let end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(end);
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        while !rest.starts_with('}') {
            let (label, after) = rest.trim_start_matches(',').split_once("=\"")?;
            let (value, after) = quoted(after)?;
            labels.push((label.to_owned(), value));
            rest = after;
        }
        rest = rest.strip_prefix('}')?;
    }
    let text = rest.trim();
    Some(Line { name, labels, value: text.parse().ok()?, is_fraction: text.contains('.') })
}

/// The value of a label up to its quote, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(match characters.next()?.1 {
                'n' => '\n',
                other => other,
            }),
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# HELP tidegate_requests_total Requests\\nby route.
# TYPE tidegate_requests_total counter
tidegate_requests_total{route=\"a \\\"b\\\"\\\\\",class=\"2xx\"} 3
# HELP process_resident_memory_bytes Resident memory.
# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 4096
# HELP up A number.
# TYPE up gauge
up 0.5
# HELP none Without values.
# TYPE none counter
# HELP tidegate_request_duration_seconds Durations.
# TYPE tidegate_request_duration_seconds histogram
tidegate_request_duration_seconds_bucket{route=\"a\",le=\"0.001\"} 1
tidegate_request_duration_seconds_bucket{route=\"a\",le=\"0.1\"} 4
tidegate_request_duration_seconds_bucket{route=\"a\",le=\"+Inf\"} 6
tidegate_request_duration_seconds_sum{route=\"a\"} 1.25
tidegate_request_duration_seconds_count{route=\"a\"} 6
";

    #[test]
    fn parts_of_a_summary_are_metrics_of_their_own() {
        let text = "# TYPE wait summary\nwait_count 3\nwait_sum 1.5\nwait{quantile=\"0.5\"} 0.25\n";
        let times = Times { start_ns: 1, now_ns: 2 };
        let (metrics, values) = metrics(text, times, &Exemplars::default());
        let names: Vec<_> = metrics.iter().map(|metric| &*metric.name).collect();
        assert_eq!((values, &names[..]), (3, &["wait", "wait_count", "wait_sum"][..]));
    }

    #[test]
    fn the_text_becomes_values() {
        let exemplars = Exemplars::default();
        let exemplar =
            telemetry::Exemplar { trace_id: [7; 16], span_id: [8; 8], value_us: 50, unix_ms: 9 };
        exemplars.record("a", exemplar);
        let times = Times { start_ns: 1, now_ns: 2 };
        let (metrics, values) = metrics(TEXT, times, &exemplars);
        assert_eq!(values, 4);
        let [requests, memory, up, durations] = &metrics[..] else { panic!("{metrics:?}") };
        assert_eq!(requests.description, "Requests\nby route.");
        let Some(Data::Sum(sum)) = &requests.data else { panic!("{requests:?}") };
        assert!(sum.is_monotonic);
        assert_eq!(sum.data_points[0].value, Some(Number::Int(3)));
        assert_eq!(sum.data_points[0].attributes[0], KeyValue::text("route", "a \"b\"\\"));
        let Some(Data::Gauge(gauge)) = &up.data else { panic!("{up:?}") };
        assert_eq!(gauge.data_points[0].value, Some(Number::Double(0.5)));
        assert_eq!((&*memory.unit, &*durations.unit, &*requests.unit), ("By", "s", "1"));
        let Some(Data::Histogram(histogram)) = &durations.data else { panic!("{durations:?}") };
        let point = &histogram.data_points[0];
        assert_eq!(
            (point.count, point.sum, &point.bucket_counts[..]),
            (6, Some(1.25), &[1, 3, 2][..])
        );
        assert_eq!(point.explicit_bounds, [0.001, 0.1]);
        assert_eq!(point.exemplars[0].trace_id, [7; 16]);
        assert_eq!(point.exemplars[0].as_double, 0.000_05);
    }

    #[test]
    fn a_line_that_is_cut_short_is_left_out() {
        for line in ["", "a", "a{", "a{b=\"", "a{b=\"c\"", "a{b=\"c\\", "a{b=\"c\"} x", "a{b} 1"] {
            assert!(parse(line).is_none(), "{line}");
        }
    }
}
