//! The figures of a run as tables and sentences, the same in the terminal, the page and the report.

use std::fmt::Write as _;

use crate::stats::Interval;

use super::absolute;
use super::bars::{self, BARS, BarOutcome, Judged};
use super::data::{AGAINST, Data, FLOOR, Key, NoVerdict, OURS, Placement, Record, TICKS};
use super::figures::{bytes, count, grouped, ms, percent, ratio, us};
use super::table::Table;

/// The available width of a table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Room {
    /// About a hundred characters.
    Terminal,
    Page,
}

/// One row per server and number of connections; empty columns are left out.
pub(crate) fn of_scenario(data: &Data, scenario: &str, room: Room) -> Table {
    let records: Vec<_> = data.of_scenario(scenario).collect();
    let any = |filled: fn(&Record) -> bool| records.iter().any(|record| filled(record));
    let columns = Columns {
        all: room == Room::Page,
        workers: any(|record| record.workers != 1),
        placement: any(|record| record.placement == Placement::Pinned),
        offered: any(|record| record.offered_per_second.is_some()),
        calls: any(|record| record.system_calls_per_request.is_some()),
        idle: any(|record| record.rss_bytes_per_connection.is_some()),
        disturbed: any(|record| record.disturbed.is_some()),
    };
    let mut table = Table::new(&columns.titles());
    for record in &records {
        table.row(columns.cells(data, record));
    }
    table
}

struct Columns {
    all: bool,
    workers: bool,
    placement: bool,
    offered: bool,
    calls: bool,
    idle: bool,
    disturbed: bool,
}

impl Columns {
    fn titles(&self) -> Vec<&'static str> {
        let mut titles = vec!["conn", "server"];
        titles.extend(self.workers.then_some("workers"));
        titles.extend(self.placement.then_some("placement"));
        titles.extend(self.offered.then_some("offered/s"));
        titles.extend(["µs CPU", "rounds", "× floor", "req/s", "p50 ms"]);
        titles.extend(self.all.then_some("p90"));
        titles.extend(["p99", "p99.9"]);
        titles.extend(self.all.then_some(["max", "sent/s"]).into_iter().flatten());
        titles.push("RSS");
        titles.extend(self.idle.then_some("RSS/conn"));
        titles.extend(self.calls.then_some("calls"));
        titles.push("errors");
        titles.extend(self.disturbed.then_some("disturbed"));
        titles
    }

    fn cells(&self, data: &Data, record: &Record) -> Vec<String> {
        let (low, high) = record.cpu_range();
        let none = || "–".to_owned();
        let mut cells = vec![record.connections.to_string(), record.server.clone()];
        cells.extend(self.workers.then(|| record.workers.to_string()));
        cells.extend(self.placement.then(|| record.placement.name().to_owned()));
        cells.extend(self.offered.then(|| record.offered_per_second.map_or_else(none, grouped)));
        let range = if low.is_nan() { none() } else { format!("{}–{}", us(low), us(high)) };
        cells.extend([
            us(record.cpu_us_per_request),
            range,
            times_floor(data, record).map_or_else(none, |times| format!("{times:.2}")),
            grouped(record.requests_per_second),
            ms(record.latency_ms.p50),
        ]);
        cells.extend(self.all.then(|| ms(record.latency_ms.p90)));
        cells.extend([ms(record.latency_ms.p99), ms(record.latency_ms.p999)]);
        if self.all {
            cells.extend([ms(record.latency_ms.max), bytes(record.bytes_per_second)]);
        }
        cells.push(bytes(record.rss_bytes as f64));
        cells.extend(self.idle.then(|| record.rss_bytes_per_connection.map_or_else(none, bytes)));
        let calls = |calls: f64| format!("{calls:.2}");
        cells.extend(self.calls.then(|| record.system_calls_per_request.map_or_else(none, calls)));
        cells.push(record.errors.to_string());
        let disturbed = if record.disturbed.is_some() { "yes" } else { "" };
        cells.extend(self.disturbed.then(|| disturbed.to_owned()));
        cells
    }
}

/// Returns the cost of a record relative to that of the floor under the same conditions.
pub(crate) fn times_floor(data: &Data, record: &Record) -> Option<f64> {
    let mut key = record.key();
    key.server = FLOOR;
    let times = record.cpu_us_per_request / data.find(&key)?.cpu_us_per_request;
    times.is_finite().then_some(times)
}

/// Returns our cost relative to that of each other server, at every number of connections. `~`
/// marks an interval that contains 1: no difference is shown.
pub(crate) fn ratios(data: &Data, room: Room) -> Table {
    let measured = |name: &str| data.records.iter().any(|record| record.server == name);
    let others = data.peers.iter().map(|peer| peer.name.as_str());
    let others: Vec<&str> = others.filter(|name| *name != OURS && measured(name)).collect();
    let mut table = Table::new(&[&["scenario", "conn"], &others[..]].concat());
    // Both placements of a measurement follow each other.
    let mut rows: Vec<&Record> = Vec::new();
    for ours in data.records.iter().filter(|record| record.server == OURS) {
        if rows.iter().all(|row| row.key() != ours.key()) {
            let mut key = ours.key();
            let both = Placement::ALL.into_iter().filter_map(|placement| {
                key.placement = placement;
                data.find(&key)
            });
            rows.extend(both);
        }
    }
    for ours in rows {
        let cells = others.iter().map(|server| {
            let other = data.find(&Key { server, ..ours.key() });
            let found = other.and_then(|other| {
                // The run was made for this column, and it is the only one.
                let room = if *server == AGAINST { Room::Page } else { room };
                Some(ratio_cell(&bars::ratio(ours, other)?, bars::no_verdict(ours, other), room))
            });
            found.unwrap_or_else(|| "–".to_owned())
        });
        let cells: Vec<_> = cells.collect();
        if cells.iter().any(|cell| cell != "–") {
            table.row([vec![scenario_label(ours), ours.connections.to_string()], cells].concat());
        }
    }
    table
}

fn ratio_cell(found: &Interval, doubt: Option<NoVerdict>, room: Room) -> String {
    let mark = match doubt {
        Some(_) => " ?",
        None if found.is_real() => "",
        None => " ~",
    };
    match room {
        Room::Terminal => format!("{}{mark}", ratio(found.ratio)),
        Room::Page => format!("{} ({:.3}–{:.3}){mark}", ratio(found.ratio), found.low, found.high),
    }
}

/// The scenario, and what differs from the usual.
pub(crate) fn scenario_label(record: &Record) -> String {
    let mut label = record.scenario.clone();
    if record.workers != 1 {
        let _ = write!(label, ", {} workers", record.workers);
    }
    if record.placement == Placement::Pinned {
        label.push_str(", pinned");
    }
    label
}

/// Every bar there is, or only those that were measured where there is little room: met, or by how
/// much not.
pub(crate) fn of_bars(data: &Data, room: Room) -> Table {
    let titles = ["scenario", "reference", "bar", "ours ÷ theirs", "95 % interval", "verdict"];
    let mut table = Table::new(&[&titles[..], &["moonshot"]].concat());
    for bar in BARS {
        let moonshot = |found: &Interval| match bar.moonshot {
            Some(moonshot) if found.high <= moonshot => "met",
            Some(_) => "not met",
            None => "–",
        };
        let (value, interval, verdict, moonshot) = match bars::judge(data, bar) {
            None if room == Room::Terminal => continue,
            None => ("–".to_owned(), "–".to_owned(), not_measured(data, bar.reference), "–"),
            Some(Judged { placement, connections, interval: found, outcome }) => (
                ratio(found.ratio),
                format!("{:.3}–{:.3}", found.low, found.high),
                outcome.verdict(found.ratio, bar.at_most)
                    + &where_found(data, placement, connections, outcome),
                match outcome {
                    BarOutcome::NoVerdict(_) => "–",
                    _ => moonshot(&found),
                },
            ),
        };
        table.row([
            bar.label(),
            bar.reference.to_owned(),
            format!("≤ {:.2}", bar.at_most),
            value,
            interval,
            verdict,
            bar.moonshot.map_or_else(|| "–".to_owned(), |most| format!("≤ {most:.2}: {moonshot}")),
        ]);
    }
    absolute::rows(data, &mut table);
    table
}

/// With the reason, if the server is missing.
fn not_measured(data: &Data, server: &str) -> String {
    let peer = data.peers.iter().find(|peer| peer.name == server);
    match peer.and_then(|peer| peer.missing.as_deref()) {
        Some(why) => format!("not measured: {why}"),
        None => "not measured".to_owned(),
    }
}

/// The placement of a verdict. A bar is only met in both, so a run with one of them says which.
fn where_found(data: &Data, placement: Placement, connections: u32, outcome: BarOutcome) -> String {
    let has_both = Placement::ALL.into_iter().all(|placement| data.has(placement));
    match outcome {
        BarOutcome::Met if has_both => String::new(),
        _ => format!(", {} at {connections}", placement.name()),
    }
}

/// Returns what a reader has to know before trusting the figures.
pub(crate) fn notes(data: &Data) -> Vec<String> {
    let mut notes = Vec::new();
    if !data.complete {
        notes.push("The run was stopped early: this is what was measured until then.".to_owned());
    }
    for record in data.records.iter().filter(|record| record.errors > 0) {
        let mut kinds: Vec<_> = record.errors_by_kind.iter().collect();
        kinds.sort_by_key(|(_, number)| std::cmp::Reverse(**number));
        let kinds: Vec<_> = kinds.iter().map(|(kind, number)| format!("{number} {kind}")).collect();
        let kinds =
            if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
        notes.push(format!(
            "{} had {}{kinds} in {} at {}: its figures say nothing.",
            record.server,
            count(record.errors, "error"),
            record.scenario,
            count(u64::from(record.connections), "connection"),
        ));
    }
    notes.extend(disturbed(data));
    notes.extend(no_verdict(data));
    notes.extend(unseen(data));
    notes.extend(rough(data));
    notes.extend(data.notes.iter().cloned());
    for peer in &data.peers {
        if let Some(missing) = &peer.missing {
            notes.push(format!("{}: {missing}", peer.name));
        }
    }
    notes
}

fn unseen(data: &Data) -> Option<String> {
    let unseen = |record: &&Record| record.cpu_from.is_none() && !record.rounds.is_empty();
    let record = data.records.iter().find(unseen)?;
    Some(format!("CPU of {}: n/a, no process that serves it can be seen from here.", record.server))
}

fn rough(data: &Data) -> Option<String> {
    let rough = data.records.iter().filter(|record| record.cpu_from.as_deref() == Some(TICKS));
    let mut places: Vec<_> =
        rough.map(|record| format!("{} in {}", record.server, record.scenario)).collect();
    places.dedup();
    (!places.is_empty()).then(|| {
        format!(
            "Processes ended during a round, and there was no cgroup to count them: the CPU of {} \
             is rough, to 10 ms a process, and lacks processes that were not waited for.",
            places.join(", ")
        )
    })
}

/// Measurements from which nothing is concluded.
fn no_verdict(data: &Data) -> Option<String> {
    let with = |why| data.records.iter().filter(move |it| it.no_verdict() == Some(why)).count();
    let told = [NoVerdict::FewRounds, NoVerdict::Disturbed]
        .map(|why| (with(why), why))
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, why)| format!("{} with {why}", count(number as u64, "measurement")))
        .collect::<Vec<_>>();
    (!told.is_empty()).then(|| {
        format!("No verdict from {}: take more rounds, on a quiet machine.", told.join(" and "))
    })
}

/// Returns the number of doubtful measurements and the reason of the first; the tables mark each.
fn disturbed(data: &Data) -> Option<String> {
    let mut disturbed = data.records.iter().filter(|record| record.disturbed.is_some());
    let number = disturbed.clone().count();
    let first = disturbed.next()?;
    let all = count(data.records.len() as u64, "measurement");
    Some(format!(
        "{number} of {all} disturbed, the first of them ({} in {} at {}): {}.",
        first.server,
        first.scenario,
        count(u64::from(first.connections), "connection"),
        first.disturbed.as_deref().unwrap_or_default(),
    ))
}

/// The machine in one line.
pub(crate) fn machine(data: &Data) -> String {
    let machine = &data.machine;
    let mut parts = vec![
        format!("{} × {}", machine.cores, machine.cpu),
        bytes(machine.memory_bytes as f64),
        format!("kernel {}", machine.kernel),
    ];
    let named =
        |what: &str, value: &Option<String>| value.as_ref().map(|value| format!("{what} {value}"));
    parts.extend(named("governor", &machine.governor));
    parts.extend(named("clock", &machine.clocksource));
    parts.extend(named("congestion control", &machine.congestion_control));
    parts.extend(machine.virtualization.clone());
    parts.extend(machine.steal_share.map(|share| format!("steal {}", percent(share))));
    parts.extend(machine.load.map(|load| format!("load {load:.2}")));
    parts.extend(data.pinned.clone());
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::{
        AGAINST, OURS, Placement, Record, Room, machine, notes, of_bars, of_scenario, ratios,
    };

    #[test]
    fn empty_columns_are_left_out() {
        let data = sample::data();
        let [hello, gateway] =
            ["hello", "gateway"].map(|scenario| of_scenario(&data, scenario, Room::Page));
        let head = |text: String| text.lines().next().unwrap_or_default().to_owned();
        assert!(head(hello.text()).contains("workers") && head(hello.text()).contains("calls"));
        assert!(!head(gateway.text()).contains("workers"));
        assert!(!head(gateway.text()).contains("calls"));
    }

    #[test]
    fn a_missed_bar_says_by_how_much() {
        let mut data = sample::data();
        for record in data.records.iter_mut().filter(|record| record.server == OURS) {
            record.rounds.iter_mut().for_each(|round| round.cpu_us_per_request *= 0.9);
        }
        let text = of_bars(&data, Room::Page).text().replace('\u{a0}', " ");
        let line = |scenario: &str, reference: &str| {
            let is = |line: &&str| line.split_whitespace().take(2).eq([scenario, reference]);
            text.lines().find(is).unwrap().to_owned()
        };
        assert!(line("hello", "floor").contains("  met, unpinned at "), "{text}");
        assert!(line("gateway", "haproxy").contains("missed by 28.3 %, unpinned"), "{text}");
        assert!(line("cache-gzip", "pike").contains("  not measured  "), "{text}");
        let missing = "  not measured: not installed: apt-get install varnish  ";
        assert!(line("cache-gzip", "varnish").contains(missing), "{text}");
    }

    #[test]
    fn both_placements_of_a_measurement_stand_together() {
        let mut data = sample::data();
        let pinned = |record: &Record| Record { placement: Placement::Pinned, ..record.clone() };
        data.records.extend(data.records.clone().iter().map(pinned));
        let text = ratios(&data, Room::Terminal).text();
        let rows: Vec<_> =
            text.lines().skip(1).filter_map(|line| line.split("  ").next()).collect();
        assert_eq!(rows[..4], ["hello", "hello, pinned", "gateway", "gateway, pinned"], "{text}");
        let bars = of_bars(&data, Room::Terminal).text();
        let worst = bars.lines().find(|line| line.contains("haproxy")).unwrap_or_default();
        assert!(worst.contains("missed by 42.6") && worst.contains(", pinned"), "{bars}");
        let placements = of_scenario(&data, "gateway", Room::Terminal).text();
        assert!(placements.contains("unpinned") && placements.contains("  pinned"), "{placements}");
    }

    #[test]
    fn what_spoils_a_run_is_reported() {
        let mut data = sample::data();
        data.complete = false;
        data.records[0].errors = 3;
        data.records[0].errors_by_kind.insert("timeout".to_owned(), 3);
        data.records[1].disturbed = Some("steal of 4 %".to_owned());
        data.records[2].disturbed = Some("a busy neighbour".to_owned());
        data.records[3].cpu_us_per_request = f64::NAN;
        data.records[3].cpu_from = None;
        data.records[4].cpu_from = Some("ticks".to_owned());
        let text = notes(&data).join("\n").replace('\u{a0}', " ");
        assert!(of_scenario(&data, "hello", Room::Terminal).text().contains("  yes"), "marked");
        for part in [
            "stopped early",
            "3 errors (3 timeout)",
            "CPU of haproxy: n/a",
            "the CPU of floor in gateway is rough",
            "2 of 26 measurements disturbed, the first of them (tidegate in hello at 1 conn",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(text.contains("varnish: not installed: apt-get install varnish"), "{text}");
    }

    #[test]
    fn few_rounds_give_no_verdict_anywhere() {
        let mut data = sample::data();
        data.records.iter_mut().for_each(|record| record.rounds.truncate(3));
        let bars = of_bars(&data, Room::Terminal).text();
        assert!(bars.contains("no verdict: fewer than 4 rounds"), "{bars}");
        assert!(!bars.contains("  met ") && !bars.contains("missed"), "{bars}");
        let ratios = ratios(&data, Room::Page);
        let cells = ratios.rows().iter().flat_map(|row| &row[2..]).filter(|cell| *cell != "–");
        assert!(cells.clone().count() > 4 && cells.clone().all(|cell| cell.ends_with(" ?")));
        let notes = notes(&data).join("\n").replace('\u{a0}', " ");
        assert!(
            notes.contains("No verdict from 26 measurements with fewer than 4 rounds"),
            "{notes}"
        );
    }

    #[test]
    fn another_tidegate_is_shown_with_its_interval() {
        let mut data = sample::data();
        for named in data.peers.iter_mut().filter(|it| it.name == "nginx") {
            named.name = AGAINST.to_owned();
        }
        for record in data.records.iter_mut().filter(|it| it.server == "nginx") {
            record.server = AGAINST.to_owned();
        }
        let text = ratios(&data, Room::Terminal).text();
        // 5.9 over 7.0, each with the same spread in the same rounds.
        assert!(text.contains("0.843 (0.841–0.845)"), "{text}");
        assert!(text.contains(" against ") && !text.contains("nginx"), "{text}");
    }

    #[test]
    fn a_machine_is_one_line() {
        assert_eq!(
            machine(&sample::data()).replace('\u{a0}', " "),
            "2 × AMD EPYC 9004 <test>, 8.0 GiB, kernel 6.18.0, clock tsc, congestion \
             control cubic, kvm, steal 0.4 %, load 0.35"
        );
    }
}
