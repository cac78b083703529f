//! Bars of Tidegate alone, without another server: memory, and the longest time without a response.
//!
//! Promises that the worst record of a scenario counts, and that it is missed with a single error.

use super::bars::BarOutcome;
use super::data::{Data, OURS, Record};
use super::figures::{bytes, ms};
use super::table::Table;

struct AbsoluteBar {
    scenario: &'static str,
    what: &'static str,
    figure: fn(&Record) -> Option<f64>,
    written: fn(f64) -> String,
    at_most: f64,
    moonshot: f64,
}

const MIB: f64 = 1024.0 * 1024.0;

/// Memory of an idle connection.
const fn idle(scenario: &'static str, at_most: f64, moonshot: f64) -> AbsoluteBar {
    let (what, figure) = ("memory of an idle one", idle_bytes as fn(&Record) -> Option<f64>);
    AbsoluteBar { scenario, what, figure, written: bytes, at_most, moonshot }
}

/// Memory after the start.
const fn start(scenario: &'static str, mib: f64, moonshot_mib: f64) -> AbsoluteBar {
    let (at_most, moonshot) = (mib * MIB, moonshot_mib * MIB);
    let (what, figure) = ("memory after the start", start_bytes as fn(&Record) -> Option<f64>);
    AbsoluteBar { scenario, what, figure, written: bytes, at_most, moonshot }
}

const BARS: &[AbsoluteBar] = &[
    idle("connections", 1638.0, 1311.0),
    idle("connections-tls", 16_384.0, 8192.0),
    idle("connections-h2", 24_576.0, 12_288.0),
    start("hello", 12.0, 8.0),
    start("asgi-hello", 60.0, 50.0),
    AbsoluteBar {
        scenario: "reload-5000",
        what: "longest latency, ms",
        figure: |record| Some(record.latency_ms.max),
        written: ms,
        at_most: 2.0,
        moonshot: 0.5,
    },
];

fn idle_bytes(record: &Record) -> Option<f64> {
    record.rss_bytes_per_connection
}

fn start_bytes(record: &Record) -> Option<f64> {
    record.rss_start_bytes.map(|bytes| bytes as f64)
}

/// Adds a row for each bar that was measured.
pub(super) fn rows(data: &Data, table: &mut Table) {
    for bar in BARS {
        let one = |it: &&Record| it.server == OURS && it.workers == 1 && !it.rounds.is_empty();
        let records: Vec<_> = data.of_scenario(bar.scenario).filter(one).collect();
        let figures = records.iter().filter_map(|record| (bar.figure)(record));
        let Some(worst) = figures.max_by(f64::total_cmp) else { continue };
        let fails = records.iter().any(|record| record.errors > 0);
        let is_met = worst <= bar.at_most && !fails;
        let outcome = if is_met { BarOutcome::Met } else { BarOutcome::Missed };
        let moonshot = if worst <= bar.moonshot && !fails { "met" } else { "not met" };
        table.row([
            bar.scenario.to_owned(),
            bar.what.to_owned(),
            format!("≤ {}", (bar.written)(bar.at_most)),
            (bar.written)(worst),
            "–".to_owned(),
            outcome.verdict(worst, bar.at_most),
            format!("≤ {}: {moonshot}", (bar.written)(bar.moonshot)),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::super::table::Table;
    use super::{MIB, OURS, rows};

    fn verdict_of(bytes: f64, errors: u64) -> String {
        let mut data = sample::data();
        for record in data.records.iter_mut().filter(|it| it.server == OURS) {
            record.rss_start_bytes = Some(bytes as u64);
            record.errors = errors;
        }
        let mut table =
            Table::new(&["scenario", "what", "bar", "worst", "interval", "verdict", "m"]);
        rows(&data, &mut table);
        table.rows()[0][5].clone()
    }

    #[test]
    fn a_bar_of_memory_is_met_or_missed() {
        assert_eq!(verdict_of(11.9 * MIB, 0), "met");
        assert!(verdict_of(18.0 * MIB, 0).starts_with("missed by 50"));
        assert!(verdict_of(11.9 * MIB, 1).starts_with("missed"));
    }
}
