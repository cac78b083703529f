//! Compares the same measurements of two runs.
//!
//! Owns the result of `tidegate bench compare`. Promises to call a difference real only when the
//! bootstrap interval of the ratio excludes 1, and beyond the bound only when it excludes the bound
//! as well. Unchanged servers are the control: if their figures differ, the machine has changed,
//! and the result says so. Never compares figures of different conditions.

use std::fmt::Write as _;

use crate::stats::Interval;

use super::bars;
use super::data::{Data, NoVerdict, OURS, Record};
use super::figures::{percent, ratio, us};
use super::results::scenario_label;
use super::table::Table;

/// The comparison of the measurements that both runs have.
#[derive(Debug)]
pub struct Comparison<'a> {
    pub rows: Vec<Row<'a>>,
    /// Measurements that only one of the runs made.
    pub alone: usize,
    /// The requested bound, as a share: 0.05.
    pub bound: f64,
    /// Differences between the conditions of the runs.
    pub beware: Vec<String>,
}

/// One measurement, before and after.
#[derive(Debug)]
pub struct Row<'a> {
    pub before: &'a Record,
    pub after: &'a Record,
    /// after ÷ before; `None` where one of them has no figure.
    pub interval: Option<Interval>,
    pub verdict: ComparisonVerdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparisonVerdict {
    /// The interval holds 1: what is seen may be noise.
    Same,
    /// Real, and within the bound.
    Cheaper,
    Dearer,
    /// Real, and the whole interval is beyond the bound.
    BeyondBound,
    /// The second run had errors that the first had not.
    Errors,
    /// Too few rounds, or too few that were not disturbed.
    No(NoVerdict),
    /// One of the two has no figure.
    Unknown,
}

/// Compares the measurements that are in both runs. `bound` is the allowed increase of our cost.
pub fn compare<'a>(before: &'a Data, after: &'a Data, bound: f64) -> Comparison<'a> {
    let pairs =
        after.records.iter().filter_map(|record| Some((before.find(&record.key())?, record)));
    let rows: Vec<_> = pairs.map(|(old, new)| Row::of(old, new, bound)).collect();
    let alone = before.records.len() + after.records.len() - 2 * rows.len();
    let mut beware = conditions(before, after);
    beware.extend(rows.iter().filter_map(Row::drift));
    Comparison { rows, alone, bound, beware }
}

impl<'a> Row<'a> {
    fn of(before: &'a Record, after: &'a Record, bound: f64) -> Self {
        let interval = bars::ratio(after, before);
        let doubt = bars::no_verdict(before, after);
        let verdict = match (interval, doubt) {
            _ if after.errors > 0 && before.errors == 0 => ComparisonVerdict::Errors,
            (None, _) => ComparisonVerdict::Unknown,
            (Some(_), Some(why)) => ComparisonVerdict::No(why),
            (Some(interval), None) if !interval.is_real() => ComparisonVerdict::Same,
            (Some(interval), None) if interval.low > 1.0 + bound => ComparisonVerdict::BeyondBound,
            (Some(interval), None) if interval.low > 1.0 => ComparisonVerdict::Dearer,
            (Some(_), None) => ComparisonVerdict::Cheaper,
        };
        Self { before, after, interval, verdict }
    }

    fn is_ours(&self) -> bool {
        self.after.server == OURS
    }

    /// An unchanged server whose cost differs.
    fn drift(&self) -> Option<String> {
        let interval = self.interval.filter(Interval::is_real)?;
        let moved = matches!(
            self.verdict,
            ComparisonVerdict::Cheaper | ComparisonVerdict::Dearer | ComparisonVerdict::BeyondBound
        );
        (!self.is_ours() && moved).then(|| {
            format!(
                "{} did not change, but costs {} × as much in {} at {} connections: the machine \
                 is not as it was",
                self.after.server,
                ratio(interval.ratio),
                self.after.scenario,
                self.after.connections,
            )
        })
    }
}

impl Comparison<'_> {
    /// True if Tidegate became more expensive beyond the bound, or has new errors.
    pub fn is_worse(&self) -> bool {
        let bad = |row: &Row<'_>| {
            matches!(row.verdict, ComparisonVerdict::BeyondBound | ComparisonVerdict::Errors)
        };
        self.rows.iter().any(|row| row.is_ours() && bad(row))
    }

    /// True if no measurement of Tidegate could be compared.
    pub fn is_empty(&self) -> bool {
        !self.rows.iter().any(Row::is_ours)
    }

    pub fn render(&self) -> String {
        let mut out = self.table();
        if self.alone > 0 {
            let _ = writeln!(out, "\n{} measurements are in only one of the files.", self.alone);
        }
        for line in &self.beware {
            let _ = writeln!(out, "beware: {line}");
        }
        let _ = writeln!(out, "\n{}", self.sentence());
        out
    }

    fn table(&self) -> String {
        let mut table = Table::new(&[
            "scenario",
            "conn",
            "server",
            "before µs",
            "after µs",
            "ratio",
            "95 % interval",
            "",
        ]);
        for row in &self.rows {
            let record = row.after;
            let (value, interval) = match row.interval {
                Some(found) => (ratio(found.ratio), format!("{:.3}–{:.3}", found.low, found.high)),
                None => ("–".to_owned(), "–".to_owned()),
            };
            table.row([
                scenario_label(record),
                record.connections.to_string(),
                record.server.clone(),
                us(row.before.cpu_us_per_request),
                us(record.cpu_us_per_request),
                value,
                interval,
                self.word(row).to_owned(),
            ]);
        }
        table.text()
    }

    fn word(&self, row: &Row<'_>) -> &'static str {
        match row.verdict {
            ComparisonVerdict::Same => "no difference seen",
            ComparisonVerdict::Cheaper => "cheaper",
            ComparisonVerdict::Dearer => "dearer",
            ComparisonVerdict::BeyondBound => "dearer, BEYOND THE BOUND",
            ComparisonVerdict::Errors => "FAILS now",
            ComparisonVerdict::No(NoVerdict::FewRounds) => "no verdict: too few rounds",
            ComparisonVerdict::No(NoVerdict::Disturbed) => "no verdict: disturbed",
            ComparisonVerdict::Unknown => "no verdict: no figure",
        }
    }

    /// The result as text.
    fn sentence(&self) -> String {
        if self.is_empty() {
            return format!("Nothing of {OURS} was measured in both files.");
        }
        let ours = || self.rows.iter().filter(|row| row.is_ours());
        let count = |verdict| ours().filter(|row| row.verdict == verdict).count();
        let beyond = count(ComparisonVerdict::BeyondBound);
        let (dearer, cheaper) =
            (count(ComparisonVerdict::Dearer) + beyond, count(ComparisonVerdict::Cheaper));
        let all = ours().count();
        let mut parts = Vec::new();
        if count(ComparisonVerdict::Errors) > 0 {
            parts.push(format!(
                "{} of {all} fail where they did not",
                count(ComparisonVerdict::Errors)
            ));
        }
        if dearer > 0 {
            let bound = percent(self.bound);
            parts.push(format!("{dearer} of {all} became dearer, {beyond} beyond {bound}"));
        }
        if cheaper > 0 {
            parts.push(format!("{cheaper} of {all} became cheaper"));
        }
        for why in [NoVerdict::FewRounds, NoVerdict::Disturbed] {
            if count(ComparisonVerdict::No(why)) > 0 {
                parts.push(format!(
                    "{} of {all} have {why} a side",
                    count(ComparisonVerdict::No(why))
                ));
            }
        }
        if count(ComparisonVerdict::Unknown) > 0 {
            parts.push(format!("{} of {all} have no figure", count(ComparisonVerdict::Unknown)));
        }
        match parts.is_empty() {
            true => "The change is not real: every interval holds 1.".to_owned(),
            false if dearer + cheaper > 0 => format!("The change is real: {}.", parts.join("; ")),
            false => format!("{}.", parts.join("; ")),
        }
    }
}

fn conditions(before: &Data, after: &Data) -> Vec<String> {
    let mut beware = Vec::new();
    let (old, new) = (&before.machine, &after.machine);
    if (&old.cpu, old.cores) != (&new.cpu, new.cores) {
        beware.push(format!(
            "two machines: {} × {} and {} × {}",
            old.cores, old.cpu, new.cores, new.cpu
        ));
    } else if old.kernel != new.kernel {
        beware.push(format!("two kernels: {} and {}", old.kernel, new.kernel));
    }
    if let (Some(old), Some(new)) = (&before.pinned, &after.pinned)
        && old != new
    {
        beware.push(format!("two placements: {old}; {new}"));
    }
    for peer in after.peers.iter().filter(|peer| peer.name != OURS && peer.version.is_some()) {
        let other = before.peers.iter().find(|other| other.name == peer.name);
        let old = other.and_then(|other| other.version.as_deref());
        if let (Some(old), Some(new)) = (old, peer.version.as_deref())
            && old != new
        {
            beware.push(format!("{} was {old} and is {new}", peer.name));
        }
    }
    for (name, data) in [("first", before), ("second", after)] {
        let disturbed = data.records.iter().filter(|record| record.disturbed.is_some()).count();
        if disturbed > 0 {
            beware.push(format!("{disturbed} measurements of the {name} file were disturbed"));
        }
    }
    beware
}

#[cfg(test)]
mod tests {
    use super::super::data::{Data, OURS};
    use super::super::sample;
    use super::{ComparisonVerdict, compare};

    /// The sample, with everything of `server` times `factor`.
    fn scaled(server: &str, factor: f64) -> Data {
        let mut data = sample::data();
        for record in data.records.iter_mut().filter(|record| record.server == server) {
            record.cpu_us_per_request *= factor;
            for round in &mut record.rounds {
                round.cpu_us_per_request *= factor;
            }
        }
        data
    }

    fn verdict(factor: f64) -> (ComparisonVerdict, bool, String) {
        let (before, after) = (sample::data(), scaled(OURS, factor));
        let found = compare(&before, &after, 0.05);
        let row = found.rows.iter().find(|row| {
            row.is_ours() && row.after.scenario == "gateway" && row.after.connections == 100
        });
        (row.unwrap().verdict, found.is_worse(), found.render())
    }

    #[test]
    fn the_same_run_is_not_a_change() {
        let (verdict, worse, text) = verdict(1.0);
        assert_eq!((verdict, worse), (ComparisonVerdict::Same, false));
        assert!(text.ends_with("The change is not real: every interval holds 1.\n"), "{text}");
        assert!(!text.contains("beware"), "{text}");
    }

    #[test]
    fn a_change_within_the_bound_is_real_and_allowed() {
        let (verdict, worse, text) = verdict(1.04);
        assert_eq!((verdict, worse), (ComparisonVerdict::Dearer, false), "{text}");
        assert!(text.contains("The change is real: "), "{text}");
    }

    #[test]
    fn a_change_beyond_the_bound_fails() {
        let (found, worse, text) = verdict(1.10);
        assert_eq!((found, worse), (ComparisonVerdict::BeyondBound, true), "{text}");
        let (found, worse, text) = verdict(0.90);
        assert_eq!((found, worse), (ComparisonVerdict::Cheaper, false), "{text}");
    }

    #[test]
    fn a_control_that_moved_is_reported_and_does_not_fail() {
        let (before, after) = (sample::data(), scaled("nginx", 1.2));
        let found = compare(&before, &after, 0.05);
        assert!(!found.is_worse());
        let told = found.beware.iter().any(|line| line.starts_with("nginx did not change, but"));
        assert!(told, "{:?}", found.beware);
    }

    #[test]
    fn few_rounds_and_nothing_in_common_give_no_verdict() {
        let (before, mut after) = (sample::data(), scaled(OURS, 1.5));
        for record in &mut after.records {
            record.rounds.truncate(2);
        }
        let found = compare(&before, &after, 0.05);
        assert!(!found.is_worse() && found.render().contains("fewer than 4 rounds"));
        after.records.clear();
        let found = compare(&before, &after, 0.05);
        assert!(found.is_empty() && found.alone == before.records.len());
        assert!(found.render().ends_with("Nothing of tidegate was measured in both files.\n"));
    }

    #[test]
    fn disturbed_rounds_give_no_verdict() {
        let (before, mut after) = (sample::data(), scaled(OURS, 1.5));
        for record in &mut after.records {
            record.rounds[2].disturbed = Some("a busy neighbour".to_owned());
        }
        let found = compare(&before, &after, 0.05);
        let text = found.render();
        assert!(!found.is_worse() && text.contains("no verdict: disturbed"), "{text}");
        assert!(text.ends_with("have fewer than 4 undisturbed rounds a side.\n"), "{text}");
        assert!(!text.contains("did not change, but"), "{text}");
    }

    #[test]
    fn new_errors_are_worse_at_any_speed() {
        let (before, mut after) = (sample::data(), scaled(OURS, 0.5));
        after.records.iter_mut().for_each(|record| record.errors = 1);
        assert!(compare(&before, &after, 0.05).is_worse());
    }

    #[test]
    fn other_conditions_are_reported() {
        let (before, mut after) = (sample::data(), sample::data());
        after.machine.kernel = "7.0".to_owned();
        after.peers[2].version = Some("1.30".to_owned());
        after.records[0].disturbed = Some("steal".to_owned());
        let found = compare(&before, &after, 0.05);
        assert_eq!(found.beware.len(), 3, "{:?}", found.beware);
    }
}
