//! The rounds of one server in one case, as a record.

use super::measure::{Measured, errors_by_kind};
use crate::cpu::Counted;
use crate::load::Mode;
use crate::report::data::{Latency, Placement, Record, TICKS};
use crate::stats;
use hdrhistogram::Histogram;

/// The percentiles of the curve in the report.
const CURVE: &[f64] =
    &[0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99, 100.0];

#[derive(Debug)]
pub(crate) struct RecordBuilder {
    record: Record,
    latency: Option<Histogram<u64>>,
    bytes_per_second: Vec<f64>,
    user_ticks: u64,
    system_ticks: u64,
}

impl RecordBuilder {
    pub(crate) fn new(server: &str, case: &str, connections: usize, workers: u32) -> Self {
        let record = Record {
            server: server.to_owned(),
            scenario: case.to_owned(),
            connections: connections as u32,
            workers,
            ..Record::default()
        };
        let (user_ticks, system_ticks) = (0, 0);
        Self { record, latency: None, bytes_per_second: Vec::new(), user_ticks, system_ticks }
    }

    pub(crate) fn placed(&mut self, placement: Placement) {
        self.record.placement = placement;
    }

    pub(crate) fn offered(&mut self, mode: Mode) {
        if let Mode::Open { rate } = mode {
            self.record.offered_per_second = Some(rate);
        }
    }

    pub(crate) fn idle_bytes(&mut self, bytes: f64) {
        self.record.rss_bytes_per_connection = Some(bytes);
    }

    pub(crate) fn started(&mut self, rss_bytes: u64) {
        self.record.rss_start_bytes = Some(rss_bytes);
    }

    pub(crate) fn system_calls(&mut self, per_request: f64) {
        self.record.system_calls_per_request = Some(per_request);
    }

    pub(crate) fn add(&mut self, measured: Measured) {
        let record = &mut self.record;
        for (kind, count) in errors_by_kind(&measured.outcome) {
            if count > 0 {
                record.errors += count;
                *record.errors_by_kind.entry(kind.to_owned()).or_default() += count;
            }
        }
        record.rss_bytes = record.rss_bytes.max(measured.rss_bytes);
        // The roughest of the rounds is what the record is.
        if let Some(counted) = measured.counted
            && record.cpu_from.as_deref() != Some(TICKS)
        {
            record.cpu_from = Some(name(counted).to_owned());
        }
        if record.disturbed.is_none() {
            record.disturbed.clone_from(&measured.round.disturbed);
        }
        record.rounds.push(measured.round);
        let seconds = measured.outcome.elapsed.as_secs_f64();
        if seconds > 0.0 {
            self.bytes_per_second.push(measured.outcome.bytes as f64 / seconds);
        }
        self.user_ticks += measured.user_ticks;
        self.system_ticks += measured.system_ticks;
        match &mut self.latency {
            None => self.latency = Some(measured.outcome.latency),
            // Both have the bounds of `load`, so that adding them cannot fail.
            Some(all) => drop(all.add(&measured.outcome.latency)),
        }
    }

    /// Something that is not a request went wrong.
    pub(crate) fn fail(&mut self, kind: &str, why: &str) {
        self.record.errors += 1;
        *self.record.errors_by_kind.entry(kind.to_owned()).or_default() += 1;
        self.record.disturbed = Some(why.to_owned());
    }

    /// Nothing was measured, and nothing failed.
    pub(crate) fn is_empty(&self) -> bool {
        self.record.rounds.is_empty() && self.record.errors == 0
    }

    pub(crate) fn finish(self) -> Record {
        let mut record = self.record;
        let median = |figures: Vec<f64>| stats::median(&figures).unwrap_or(0.0);
        let rates = record.rounds.iter().map(|round| round.requests_per_second).collect();
        let requests_per_second = median(rates);
        // Rounds without a figure mean that the CPU could not be read.
        let nothing = if record.rounds.is_empty() { 0.0 } else { f64::NAN };
        let cpu_us_per_request = stats::median(&record.cpu_of_rounds()).unwrap_or(nothing);
        record.cpu_us_per_request = cpu_us_per_request;
        record.requests_per_second = requests_per_second;
        record.bytes_per_second = median(self.bytes_per_second);
        let ticks = self.user_ticks + self.system_ticks;
        record.system_share = (ticks > 0).then(|| self.system_ticks as f64 / ticks as f64);
        if let Some(latency) = self.latency.filter(|latency| !latency.is_empty()) {
            let ms = |percentile: f64| latency.value_at_percentile(percentile) as f64 / 1e6;
            let (p50, p90, p99) = (ms(50.0), ms(90.0), ms(99.0));
            record.latency_ms = Latency { p50, p90, p99, p999: ms(99.9), max: ms(100.0) };
            record.latency_curve = CURVE.iter().map(|&at| (at, ms(at))).collect();
        }
        record.no_verdict = record.no_verdict().map(|why| why.to_string());
        record
    }
}

fn name(counted: Counted) -> &'static str {
    match counted {
        Counted::Tasks => "tasks",
        Counted::Group => "cgroup",
        Counted::Told => "program",
        Counted::Ticks => TICKS,
    }
}

#[cfg(test)]
mod tests {
    use super::RecordBuilder;
    use crate::cpu::Counted;
    use crate::load::{Errors, LoadOutcome};
    use crate::report::data::Round;
    use crate::run::measure::Measured;
    use hdrhistogram::Histogram;
    use std::time::Duration;

    fn measured(cpu_us: f64, latency_ms: u64, timeouts: u64) -> Measured {
        let mut latency = Histogram::new_with_bounds(1, 120_000_000_000, 3).unwrap();
        latency.record(latency_ms * 1_000_000).unwrap();
        let outcome = LoadOutcome {
            requests: 1,
            bytes: 1000,
            elapsed: Duration::from_millis(500),
            latency,
            errors: Errors { timeout: timeouts, ..Errors::default() },
            client_cpu: Duration::ZERO,
            reconnects: 0,
            unsent: 0,
        };
        let round = Round { cpu_us_per_request: cpu_us, ..Round::default() };
        let counted = Some(if timeouts == 1 { Counted::Ticks } else { Counted::Tasks });
        let counted = counted.filter(|_| !cpu_us.is_nan());
        Measured { round, outcome, counted, rss_bytes: latency_ms, user_ticks: 1, system_ticks: 3 }
    }

    #[test]
    fn a_record_is_the_median_of_its_rounds_and_the_sum_of_their_errors() {
        let mut gathered = RecordBuilder::new("nginx", "hello", 100, 1);
        for (cpu, latency, timeouts) in [(7.0, 1, 0), (9.0, 3, 2), (8.0, 2, 1)] {
            gathered.add(measured(cpu, latency, timeouts));
        }
        let record = gathered.finish();
        assert_eq!(record.cpu_us_per_request, 8.0);
        assert_eq!((record.errors, record.errors_by_kind["timeout"]), (3, 3));
        assert_eq!((record.rss_bytes, record.system_share), (3, Some(0.75)));
        assert_eq!(record.cpu_from.as_deref(), Some("ticks"), "the roughest of the rounds");
        assert_eq!(record.bytes_per_second, 2000.0);
        assert!((record.latency_ms.max - 3.0).abs() < 0.01, "{:?}", record.latency_ms);
        assert!((record.latency_ms.p50 - 2.0).abs() < 0.01, "{:?}", record.latency_ms);
        assert!(record.latency_curve.windows(2).all(|two| two[0].1 <= two[1].1));
    }

    #[test]
    fn a_server_whose_processes_cannot_be_read_has_no_cost() {
        let mut gathered = RecordBuilder::new("http://192.0.2.1/", "target", 100, 1);
        gathered.add(measured(f64::NAN, 1, 0));
        let record = gathered.finish();
        assert!(record.cpu_us_per_request.is_nan() && record.cpu_from.is_none(), "{record:?}");
    }

    #[test]
    fn a_server_that_did_not_start_is_an_error() {
        let mut gathered = RecordBuilder::new("nginx", "hello", 100, 1);
        gathered.fail("start", "nginx ended at once: no");
        let record = gathered.finish();
        assert_eq!((record.errors, record.errors_by_kind["start"]), (1, 1));
        assert_eq!(record.disturbed.as_deref(), Some("nginx ended at once: no"));
    }
}
