//! The bars: how much a request may cost us beside another server, and whether it does.
//!
//! Owns the list of bars and the judgement. Promises that a bar counts as met or missed only when
//! the whole interval of the ratio lies on one side of it, and says so when it does not.

use crate::stats::{self, Interval};

use super::data::{BASELINE, Data, FLOOR, OURS, Record};

/// Where the bars hold.
pub(crate) const CONNECTIONS: u32 = 100;
/// A bootstrap draws at random; the same file shall say the same every time.
const SEED: u64 = 0x7469_6465;

/// What ours may cost at most, as a share of what `reference` costs in the same run.
#[derive(Debug, PartialEq)]
pub(crate) struct Bar {
    pub(crate) scenario: &'static str,
    pub(crate) reference: &'static str,
    pub(crate) at_most: f64,
    /// Where we would like to be.
    pub(crate) moonshot: f64,
}

const fn bar(scenario: &'static str, reference: &'static str, at_most: f64, moonshot: f64) -> Bar {
    Bar { scenario, reference, at_most, moonshot }
}

pub(crate) const BARS: &[Bar] = &[
    bar("hello", FLOOR, 1.12, 0.90),
    bar("hello", "nginx", 0.90, 0.72),
    bar("gateway", "nginx", 0.90, 0.75),
    bar("gateway", "haproxy", 0.86, 0.70),
    bar("filters", BASELINE, 1.05, 1.02),
    bar("routes", BASELINE, 1.05, 1.0),
    bar("cache-gzip", "varnish", 0.35, 0.25),
    bar("cache-gzip", "pike", 0.30, 0.20),
    bar("cache-gzip", "nginx", 1.10, 0.85),
    bar("cache-identity", "nginx", 1.10, 0.90),
    bar("cache-identity", "varnish", 0.17, 0.12),
    bar("cache-identity", "pike", 0.17, 0.12),
    bar("cache-small", BASELINE, 1.10, 1.0),
];

/// Resident memory that an idle kept-alive connection may take: the bar, and the moonshot.
pub(crate) const IDLE_BYTES: (f64, f64) = (8192.0, 4096.0);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Met,
    Missed,
    /// The interval lies on both sides of the bar.
    Undecided,
}

/// What `record` costs over what `reference` costs; `None` where either has no figure.
pub(crate) fn ratio(record: &Record, reference: &Record) -> Option<Interval> {
    stats::bootstrap_ratio(&record.cpu_of_rounds(), &reference.cpu_of_rounds(), SEED)
        .filter(|interval| interval.ratio > 0.0)
}

impl Bar {
    pub(crate) fn outcome(&self, interval: &Interval) -> Outcome {
        match () {
            () if interval.high <= self.at_most => Outcome::Met,
            () if interval.low > self.at_most => Outcome::Missed,
            () => Outcome::Undecided,
        }
    }
}

/// What a run says about one bar; `None` where it measured one of the two not.
pub(crate) fn judge(data: &Data, bar: &Bar) -> Option<(Interval, Outcome)> {
    let find = |server: &str| {
        let records = data.of_scenario(bar.scenario);
        let at_bar = |record: &&Record| record.connections == CONNECTIONS && record.workers == 1;
        records.filter(at_bar).find(|record| record.server == server)
    };
    let interval = ratio(find(OURS)?, find(bar.reference)?)?;
    Some((interval, bar.outcome(&interval)))
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::{Bar, Outcome, judge};

    fn outcome(at_most: f64) -> Option<Outcome> {
        let bar = Bar { scenario: "hello", reference: "nginx", at_most, moonshot: 0.5 };
        judge(&sample::data(), &bar).map(|(_, outcome)| outcome)
    }

    #[test]
    fn a_bar_is_met_or_missed_only_with_the_whole_interval() {
        // The sample: 5.9 ± 0.1 µs over 7.0 ± 0.1 µs.
        assert_eq!(outcome(0.90), Some(Outcome::Met));
        assert_eq!(outcome(0.80), Some(Outcome::Missed));
        assert_eq!(outcome(0.843), Some(Outcome::Undecided));
    }

    #[test]
    fn nothing_is_said_about_what_was_not_measured() {
        let bar = Bar { scenario: "hello", reference: "caddy", at_most: 1.0, moonshot: 0.5 };
        assert_eq!(judge(&sample::data(), &bar), None);
    }
}
