//! The bars: the allowed cost of a request relative to another server, and whether it is met.
//!
//! Owns the list of bars and their evaluation. Promises that a bar is met or missed only when the
//! whole interval of the ratio lies on one side of it and comes from enough undisturbed rounds;
//! otherwise it is undecided. The worst of both placements and of all numbers of connections
//! counts.

use crate::stats::{self, Interval};

use super::data::{
    AGAINST, BARE_LOOP, BASELINE, DIRECT, Data, FLOOR, Key, NoVerdict, OURS, Placement, ROUNDS_MIN,
    Record, Round,
};
use super::figures::percent;

/// The number of connections of bars that name none.
const CONNECTIONS: u32 = 100;
/// Those bars hold at each of these numbers.
const EACH_OF: &[u32] = &[16, CONNECTIONS, 512];
/// The reference of a bar against every other server of the run.
const EVERYBODY: &str = "everybody";
/// A server that adds less than this adds nothing that can be measured.
const LATENCY_MS_MIN: f64 = 0.01;
/// The seed of the bootstrap: the same file has the same result every time.
const SEED: u64 = 0x7469_6465;

/// The maximum of Tidegate's figure, relative to that of `reference` in the same run.
#[derive(Debug, PartialEq)]
pub(crate) struct Bar {
    pub(crate) scenario: &'static str,
    pub(crate) reference: &'static str,
    pub(crate) at_most: f64,
    /// The aspiration.
    pub(crate) moonshot: Option<f64>,
    figure: Figure,
    connections: u32,
    workers: Workers,
}

/// The compared figure; lower is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Figure {
    /// CPU per request.
    Cpu,
    /// The same without the cost of the bare application, in this scenario.
    CpuWithout(&'static str),
    P99,
    /// The part of the 99.9th percentile that the backend alone does not have.
    AddedP999,
    /// Time per request of all connections together: the inverse of requests a second.
    Time,
}

/// Workers of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Workers {
    One,
    EachCore,
}

const fn bar(scenario: &'static str, reference: &'static str, at_most: f64, moonshot: f64) -> Bar {
    Bar { moonshot: Some(moonshot), ..app(scenario, reference, at_most, Figure::Cpu) }
}

/// One that has no moonshot.
const fn app(scenario: &'static str, reference: &'static str, at_most: f64, figure: Figure) -> Bar {
    let (connections, workers) = (CONNECTIONS, Workers::One);
    Bar { scenario, reference, at_most, moonshot: None, figure, connections, workers }
}

/// The published page: more requests a second, and a lower p99, than every server of it.
const fn page(figure: Figure, connections: u32, workers: Workers) -> Bar {
    Bar { connections, workers, ..app("python-page", EVERYBODY, 1.0, figure) }
}

pub(crate) const BARS: &[Bar] = &[
    bar("hello", FLOOR, 1.05, 1.0),
    bar("hello", "nginx", 0.85, 0.72),
    bar("gateway", "nginx", 0.80, 0.70),
    bar("gateway", "haproxy", 0.65, 0.58),
    bar("bodies-download", "nginx", 0.90, 0.75),
    bar("bodies-download", "haproxy", 0.90, 0.75),
    bar("bodies-upload", "nginx", 0.90, 0.75),
    bar("bodies-upload", "haproxy", 0.90, 0.75),
    bar("bodies-chunked", "nginx", 0.90, 0.75),
    bar("bodies-chunked", "haproxy", 0.90, 0.75),
    app("ping-inline", "redis-server", 0.90, Figure::Cpu),
    app("ping-bulk", "redis-server", 0.90, Figure::Cpu),
    app("ping-inline-16", "redis-server", 0.65, Figure::Cpu),
    bar("ping-bulk-16", "redis-server", 0.90, 0.75),
    bar("tls-hello", "nginx", 0.90, 0.80),
    bar("tls-handshake-full", "nginx", 0.85, 0.70),
    app("tls-handshake-full", "haproxy", 1.0, Figure::Cpu),
    bar("tls-handshake-resumed", "nginx", 0.85, 0.70),
    app("tls-handshake-resumed", "haproxy", 1.0, Figure::Cpu),
    bar("tls-file", "nginx", 1.0, 0.80),
    app("tls-hello", "caddy", 0.30, Figure::Cpu),
    app("tls-handshake-full", "caddy", 0.30, Figure::Cpu),
    app("tls-handshake-resumed", "caddy", 0.30, Figure::Cpu),
    app("tls-file", "caddy", 0.30, Figure::Cpu),
    bar("h2-hello-10", "nginx", 0.50, 0.35),
    app("h2-hello-10", "h2o", 1.0, Figure::Cpu),
    app("h2-hello-10", "caddy", 0.30, Figure::Cpu),
    bar("h2-hello-100", "nginx", 0.50, 0.35),
    app("h2-hello-100", "h2o", 1.0, Figure::Cpu),
    app("h2-hello-100", "caddy", 0.30, Figure::Cpu),
    bar("h2-proxied", "nginx", 0.75, 0.60),
    app("h2-proxied", "caddy", 0.30, Figure::Cpu),
    bar("grpc-unary", "nginx", 0.50, 0.40),
    app("grpc-unary", "caddy", 0.30, Figure::Cpu),
    bar("filters", BASELINE, 1.05, 1.02),
    app("filters", "caddy", 0.35, Figure::Cpu),
    app("filters-headers", "caddy", 0.35, Figure::Cpu),
    bar("filter-request-id", BASELINE, 1.03, 1.02),
    bar("filter-rate-limit", BASELINE, 1.03, 1.02),
    bar("filter-sliding", BASELINE, 1.03, 1.02),
    bar("filter-quota", BASELINE, 1.03, 1.02),
    bar("filter-concurrency", BASELINE, 1.03, 1.02),
    bar("filter-circuit-breaker", BASELINE, 1.03, 1.02),
    bar("filter-cors", BASELINE, 1.03, 1.02),
    bar("filter-csrf", BASELINE, 1.03, 1.02),
    bar("filter-security-headers", BASELINE, 1.03, 1.02),
    bar("filter-query", BASELINE, 1.03, 1.02),
    bar("filter-cookies", BASELINE, 1.03, 1.02),
    bar("filter-deny", BASELINE, 1.03, 1.02),
    bar("filter-waf", BASELINE, 1.03, 1.02),
    bar("filter-ten", BASELINE, 1.15, 1.10),
    app("authentication-password", "nginx", 0.85, Figure::Cpu),
    app("authentication-token", "haproxy", 0.85, Figure::Cpu),
    app("authentication-token", BASELINE, 1.04, Figure::Cpu),
    bar("routes", BASELINE, 1.03, 1.0),
    bar("routes-100000", BASELINE, 1.10, 1.0),
    app("cache-gzip", "varnish", 0.30, Figure::Cpu),
    app("cache-gzip", "pike", 0.30, Figure::Cpu),
    bar("cache-gzip", "nginx", 0.90, 0.75),
    bar("cache-identity", "nginx", 0.80, 0.75),
    app("cache-identity", "varnish", 0.04, Figure::Cpu),
    app("cache-identity", "pike", 0.04, Figure::Cpu),
    bar("cache-small", BASELINE, 1.10, 1.0),
    bar("cache-disk", "nginx", 0.90, 0.70),
    bar("cache-disk", "varnish", 0.90, 0.70),
    Bar { moonshot: Some(0.5), ..app("latency", "nginx", 0.8, Figure::AddedP999) },
    app("latency", "haproxy", 1.0, Figure::AddedP999),
    bar("asgi-hello", "granian", 0.36, 0.33),
    bar("asgi-hello", "uvicorn", 0.30, 0.27),
    app("wsgi-hello", "granian", 0.35, Figure::Cpu),
    app("wsgi-hello", "granian-1-thread", 0.60, Figure::Cpu),
    app("app-echo-asgi", "granian", 0.70, Figure::Cpu),
    Bar { connections: 512, ..app("asgi-sleep", "granian", 0.80, Figure::Cpu) },
    Bar { connections: 512, ..app("asgi-sleep", "granian", 1.0, Figure::P99) },
    app("fastapi-json", "granian", 0.62, Figure::Cpu),
    app("fastapi-json", "uvicorn", 0.70, Figure::Cpu),
    app("fastapi-json", "uvicorn", 0.50, Figure::CpuWithout("fastapi-json-loop")),
    app("fastapi-tls", "granian", 0.50, Figure::Cpu),
    app("fastapi-tls", "hypercorn", 0.55, Figure::Cpu),
    app("fastapi-tls-h2", "granian", 0.50, Figure::Cpu),
    app("fastapi-tls-h2", "hypercorn", 0.55, Figure::Cpu),
    app("gevent-hello", "gunicorn-gevent", 0.30, Figure::Cpu),
    Bar { connections: 1000, ..app("gevent-sleep", "gunicorn-gevent", 0.30, Figure::Cpu) },
    app("websocket-echo", "uvicorn", 0.38, Figure::Cpu),
    app("asgi-up", "nginx-granian", 0.80, Figure::Cpu),
    app("cache-python", BASELINE, 1.05, Figure::Cpu),
    page(Figure::Time, 500, Workers::One),
    page(Figure::P99, 500, Workers::One),
    page(Figure::Time, 1000, Workers::One),
    page(Figure::P99, 1000, Workers::One),
    page(Figure::Time, 500, Workers::EachCore),
    page(Figure::P99, 500, Workers::EachCore),
    page(Figure::Time, 1000, Workers::EachCore),
    page(Figure::P99, 1000, Workers::EachCore),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BarOutcome {
    Met,
    Missed,
    /// The interval lies on both sides of the bar.
    Undecided,
    /// The rounds are too few, or were disturbed.
    NoVerdict(NoVerdict),
}

impl BarOutcome {
    /// The outcome in words, of a figure and the bar for it.
    pub(super) fn verdict(self, value: f64, at_most: f64) -> String {
        match self {
            BarOutcome::Met => "met".to_owned(),
            BarOutcome::Missed => format!("missed by {}", percent(value / at_most - 1.0)),
            BarOutcome::Undecided => "undecided: the interval holds the bar".to_owned(),
            BarOutcome::NoVerdict(why) => format!("no verdict: {why}"),
        }
    }
}

/// The cost of `record` relative to `reference`; `None` if either has no figure. Two Tidegate
/// binaries of one run are compared round by round, because they differ by less than a machine
/// drifts.
pub(crate) fn ratio(record: &Record, reference: &Record) -> Option<Interval> {
    let figures = |rounds: Vec<&Round>| -> Vec<f64> {
        rounds.iter().map(|round| round.cpu_us_per_request).collect()
    };
    let interval = if is_paired(record, reference) {
        let (ours, theirs) = pairs_of_ratio(record, reference).into_iter().unzip();
        stats::paired_ratio(&figures(ours), &figures(theirs), SEED)
    } else {
        let [ours, theirs] = [record, reference].map(|it| figures(it.rounds_of_ratio()));
        stats::bootstrap_ratio(&ours, &theirs, SEED)
    };
    interval.filter(|interval| interval.ratio > 0.0)
}

/// Why a ratio has no verdict.
pub(crate) fn no_verdict(record: &Record, reference: &Record) -> Option<NoVerdict> {
    if !is_paired(record, reference) {
        return record.no_verdict().or_else(|| reference.no_verdict());
    }
    match (undisturbed_pairs(record, reference).count(), pairs(record, reference).count()) {
        (ROUNDS_MIN.., _) => None,
        (_, ROUNDS_MIN..) => Some(NoVerdict::Disturbed),
        _ => Some(NoVerdict::FewRounds),
    }
}

fn is_paired(record: &Record, reference: &Record) -> bool {
    record.server == OURS && reference.server == AGAINST
}

/// The rounds of equal number.
fn pairs<'a>(a: &'a Record, b: &'a Record) -> impl Iterator<Item = (&'a Round, &'a Round)> {
    a.rounds.iter().zip(&b.rounds)
}

fn undisturbed_pairs<'a>(
    a: &'a Record,
    b: &'a Record,
) -> impl Iterator<Item = (&'a Round, &'a Round)> {
    pairs(a, b).filter(|(a, b)| a.disturbed.is_none() && b.disturbed.is_none())
}

/// As [`Record::rounds_of_ratio`], of pairs.
fn pairs_of_ratio<'a>(a: &'a Record, b: &'a Record) -> Vec<(&'a Round, &'a Round)> {
    match no_verdict(a, b) {
        None => undisturbed_pairs(a, b).collect(),
        Some(_) => pairs(a, b).collect(),
    }
}

impl Bar {
    pub(crate) fn outcome(&self, interval: &Interval) -> BarOutcome {
        match () {
            () if interval.high <= self.at_most => BarOutcome::Met,
            () if interval.low > self.at_most => BarOutcome::Missed,
            () => BarOutcome::Undecided,
        }
    }

    /// The scenario, and what is compared where, unless that is what nearly all compare.
    pub(crate) fn label(&self) -> String {
        let figure = match self.figure {
            Figure::Cpu => "",
            Figure::CpuWithout(_) => ", without the application",
            Figure::P99 => ", p99",
            Figure::AddedP999 => ", p99.9 added",
            Figure::Time => ", time a request",
        };
        let at = match self.connections {
            CONNECTIONS => String::new(),
            connections => format!(" at {connections}"),
        };
        let workers = match self.workers {
            Workers::One => "",
            Workers::EachCore => ", a worker for each core",
        };
        format!("{}{at}{workers}{figure}", self.scenario)
    }

    /// Returns the records of the servers to which the bar applies.
    fn records<'a>(
        &self,
        data: &'a Data,
        placement: Placement,
        connections: u32,
    ) -> impl Iterator<Item = &'a Record> {
        let scenario = self.scenario;
        let workers = match self.workers {
            Workers::One => Some(1),
            Workers::EachCore => Some(data.machine.cores).filter(|&cores| cores > 1),
        };
        let here = move |it: &&Record| it.connections == connections && Some(it.workers) == workers;
        data.of_scenario(scenario).filter(here).filter(move |it| it.placement == placement)
    }

    fn is_reference(&self, server: &str) -> bool {
        match self.reference {
            EVERYBODY => ![OURS, FLOOR, BASELINE, AGAINST, DIRECT].contains(&server),
            reference => server == reference,
        }
    }

    /// The figure of every round; `None` where what has to be taken off was not measured.
    fn figures(&self, data: &Data, record: &Record) -> Option<Vec<f64>> {
        let rounds = record.rounds_of_ratio();
        let of = |figure: fn(&Round) -> f64| rounds.iter().map(|round| figure(round)).collect();
        let cpu = || -> Vec<f64> { of(|round| round.cpu_us_per_request) };
        Some(match self.figure {
            Figure::Cpu => cpu(),
            Figure::P99 => of(|round| round.p99_ms),
            Figure::AddedP999 => {
                let direct = data.find(&Key { server: DIRECT, ..record.key() })?.latency_ms.p999;
                let added = |ms: f64| (ms - direct).max(LATENCY_MS_MIN);
                of(|round| round.p999_ms).into_iter().map(added).collect()
            }
            Figure::Time => of(|round| 1e6 / round.requests_per_second),
            Figure::CpuWithout(scenario) => {
                let alone = data
                    .of_scenario(scenario)
                    .find(|it| it.server == BARE_LOOP && it.placement == record.placement)?;
                let alone_us = alone.cpu_us_per_request;
                cpu().iter().map(|us| us - alone_us).collect()
            }
        })
    }
}

/// A bar's evaluation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Judged {
    pub(crate) placement: Placement,
    pub(crate) connections: u32,
    pub(crate) interval: Interval,
    pub(crate) outcome: BarOutcome,
}

/// Evaluates one bar where it is worst; `None` if the run did not measure both sides.
pub(crate) fn judge(data: &Data, bar: &Bar) -> Option<Judged> {
    let numbers = match bar.connections {
        CONNECTIONS => EACH_OF,
        _ => std::slice::from_ref(&bar.connections),
    };
    let judged = Placement::ALL.into_iter().flat_map(|placement| {
        numbers.iter().filter_map(move |&number| judge_at(data, bar, placement, number))
    });
    let badness = |it: &Judged| match it.outcome {
        BarOutcome::Met => 0,
        BarOutcome::Undecided => 1,
        BarOutcome::NoVerdict(_) => 2,
        BarOutcome::Missed => 3,
    };
    judged.max_by(|a, b| {
        badness(a).cmp(&badness(b)).then(a.interval.ratio.total_cmp(&b.interval.ratio))
    })
}

/// With errors it is missed whatever the figures are.
fn judge_at(data: &Data, bar: &Bar, placement: Placement, connections: u32) -> Option<Judged> {
    let records = || bar.records(data, placement, connections);
    let ours = records().find(|record| record.server == OURS)?;
    let figures = bar.figures(data, ours)?;
    let compared = |record: &Record| {
        stats::bootstrap_ratio(&figures, &bar.figures(data, record)?, SEED)
            .filter(|interval| interval.ratio > 0.0)
            .map(|interval| (interval, no_verdict(ours, record)))
    };
    let references = records().filter(|record| bar.is_reference(&record.server));
    // The best of them, where there are several.
    let best = |a: &(Interval, _), b: &(Interval, _)| a.0.ratio.total_cmp(&b.0.ratio);
    let (interval, doubt) = references.filter_map(compared).max_by(best)?;
    let outcome = match doubt {
        _ if ours.errors > 0 => BarOutcome::Missed,
        Some(why) => BarOutcome::NoVerdict(why),
        None => bar.outcome(&interval),
    };
    Some(Judged { placement, connections, interval, outcome })
}

#[cfg(test)]
mod tests;
