//! The line charts of a scenario: latency by percentile, throughput and cost over connections, and
//! scaling with workers.

use super::super::data::{Data, OURS, Record};
use super::super::figures::{grouped, ms, us};
use super::chart::{Chart, Scale, Series};
use super::{TILE_CONNECTIONS, charted, colour, connections_of, workers_of};

/// How far right of the last percentile the maximum stands, in decades.
const MAXIMUM_STEP: f64 = 0.6;

pub(super) fn draw(out: &mut String, data: &Data, scenario: &str) {
    let connections = connections_of(data, scenario);
    let mut charts: Vec<_> =
        connections.iter().map(|&count| latency(data, scenario, count)).collect();
    if connections.len() > 1 {
        charts.push(throughput(data, scenario, &connections));
        charts.push(cost(data, scenario, &connections));
    }
    charts.push(scaling(data, scenario));
    let charts: Vec<_> = charts.iter().map(Chart::render).collect();
    if charts.iter().any(|chart| !chart.is_empty()) {
        out.push_str("<div class=\"charts\">\n");
        out.extend(charts);
        out.push_str("</div>\n");
    }
}

/// One line a server, in the order of the peers, of the points that `points` finds.
fn series(
    data: &Data,
    scenario: &str,
    points: impl Fn(&mut dyn Iterator<Item = &Record>) -> Vec<(f64, f64, String)>,
) -> Vec<Series> {
    let mut servers: Vec<&str> = Vec::new();
    for record in charted(data, scenario) {
        if !servers.contains(&record.server.as_str()) {
            servers.push(&record.server);
        }
    }
    let lines = servers.into_iter().map(|server| {
        let (colour, dashed) = colour(data, server);
        let of_server = || charted(data, scenario).filter(|record| record.server == server);
        let disturbed = of_server().any(|record| record.disturbed.is_some());
        let mut records = of_server();
        let mut points = points(&mut records);
        points.retain(|(x, y, _)| x.is_finite() && y.is_finite());
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ours = server == OURS;
        Series { name: server.to_owned(), colour, ours, dashed, disturbed, points }
    });
    lines.filter(|series| !series.points.is_empty()).collect()
}

/// Percentiles by their nines, so that the tail has room.
fn latency(data: &Data, scenario: &str, connections: u32) -> Chart {
    let workers = workers_of(data, scenario);
    let here = |record: &&Record| record.connections == connections && record.workers == workers;
    let furthest = charted(data, scenario)
        .filter(here)
        .flat_map(|record| &record.latency_curve)
        .filter(|(percentile, _)| *percentile < 100.0)
        .map(|(percentile, _)| nines(*percentile))
        .fold(0.0, f64::max);
    let maximum = furthest + MAXIMUM_STEP;
    let series = series(data, scenario, |records| {
        let curves = records.filter(here).flat_map(|record| &record.latency_curve);
        let point = |&(percentile, value): &(f64, f64)| {
            if percentile < 100.0 {
                (nines(percentile), value, format!("p{percentile} {} ms", ms(value)))
            } else {
                (maximum, value, format!("maximum {} ms", ms(value)))
            }
        };
        curves.map(point).collect()
    });
    let percentiles = [50.0, 90.0, 99.0, 99.9, 99.99, 99.999];
    let shown = percentiles.into_iter().filter(|percentile| nines(*percentile) <= furthest + 1e-9);
    let ticks = shown.map(|percentile| (nines(percentile), percentile.to_string()));
    let plural = if connections == 1 { "" } else { "s" };
    Chart {
        title: format!("Latency, {connections} connection{plural}"),
        about: "milliseconds, logarithmic; lower is better".to_owned(),
        x_label: "percentile",
        x_ticks: ticks.chain([(maximum, "max".to_owned())]).collect(),
        y: Scale::Logarithmic,
        series,
    }
}

/// 90 → 1, 99 → 2, 99.9 → 3.
fn nines(percentile: f64) -> f64 {
    -(1.0 - percentile / 100.0).log10()
}

/// A chart with equal steps from one number of connections to the next.
fn over_connections(
    data: &Data,
    scenario: &str,
    connections: &[u32],
    figure: impl Fn(&Record) -> (f64, String),
) -> Chart {
    let workers = workers_of(data, scenario);
    let series = series(data, scenario, |records| {
        let single = records.filter(|record| record.workers == workers);
        let point = |record: &Record| {
            let step = connections.iter().position(|count| *count == record.connections)?;
            let (value, said) = figure(record);
            Some((step as f64, value, format!("{said} at {} connections", record.connections)))
        };
        single.filter_map(point).collect()
    });
    let ticks = connections.iter().enumerate();
    Chart {
        title: String::new(),
        about: String::new(),
        x_label: "connections",
        x_ticks: ticks.map(|(step, count)| (step as f64, count.to_string())).collect(),
        y: Scale::Linear,
        series,
    }
}

fn throughput(data: &Data, scenario: &str, connections: &[u32]) -> Chart {
    let figure = |record: &Record| {
        let rate = record.requests_per_second;
        (rate, format!("{} requests per second", grouped(rate)))
    };
    Chart {
        title: "Throughput".to_owned(),
        about: "requests per second; higher is better".to_owned(),
        ..over_connections(data, scenario, connections, figure)
    }
}

fn cost(data: &Data, scenario: &str, connections: &[u32]) -> Chart {
    let figure = |record: &Record| {
        (record.cpu_us_per_request, format!("{} µs", us(record.cpu_us_per_request)))
    };
    Chart {
        title: "CPU per request".to_owned(),
        about: "microseconds; lower is better".to_owned(),
        ..over_connections(data, scenario, connections, figure)
    }
}

/// Requests per second with 1 to N workers, at the connections where more than one was measured.
fn scaling(data: &Data, scenario: &str) -> Chart {
    let fewest = workers_of(data, scenario);
    let many = charted(data, scenario).filter(|record| record.workers > fewest);
    let usual = |record: &&Record| (record.connections == TILE_CONNECTIONS, record.connections);
    let connections = many.max_by_key(usual).map(|record| record.connections);
    let mut workers: Vec<u32> = Vec::new();
    let series = series(data, scenario, |records| {
        let here: Vec<_> = records.filter(|it| Some(it.connections) == connections).collect();
        if here.iter().all(|record| record.workers == fewest) {
            return Vec::new();
        }
        let point = |record: &&Record| {
            let (count, rate) = (f64::from(record.workers), record.requests_per_second);
            let said = format!("{} requests per second, {count} workers", grouped(rate));
            (count, rate, said)
        };
        here.iter().map(point).collect()
    });
    for (count, ..) in series.iter().flat_map(|series| &series.points) {
        workers.push(*count as u32);
    }
    workers.sort_unstable();
    workers.dedup();
    Chart {
        title: "Workers".to_owned(),
        about: format!(
            "requests per second, {} connections; higher is better",
            connections.unwrap_or_default()
        ),
        x_label: "workers",
        x_ticks: workers.iter().map(|count| (f64::from(*count), count.to_string())).collect(),
        y: Scale::Linear,
        series,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::sample;
    use super::{latency, scaling};

    #[test]
    fn the_tail_of_latencies_has_as_much_room_as_the_rest() {
        let chart = latency(&sample::data(), "hello", 100);
        let ticks: Vec<_> = chart.x_ticks.iter().map(|(x, said)| (x.round(), &**said)).collect();
        let tail = [(1.0, "90"), (2.0, "99"), (3.0, "99.9"), (4.0, "99.99"), (5.0, "max")];
        assert_eq!(ticks[1..], tail);
        assert_eq!(chart.series.len(), 4);
    }

    #[test]
    fn scaling_shows_servers_measured_with_several_workers() {
        let chart = scaling(&sample::data(), "hello");
        assert_eq!(chart.series.len(), 1);
        assert_eq!(
            chart.series[0].points.iter().map(|it| it.0).collect::<Vec<_>>(),
            [1.0, 2.0, 4.0]
        );
        assert!(scaling(&sample::data(), "gateway").render().is_empty());
    }
}
