//! Tests of the bars and of how they are judged, with the sample run.

use super::super::sample;
use super::{
    AGAINST, BARE_LOOP, Bar, BarOutcome, DIRECT, Figure, Judged, NoVerdict, OURS, Placement,
    Record, Round, Workers, app, bar, judge, no_verdict, page, ratio,
};

fn outcome(at_most: f64) -> Option<BarOutcome> {
    judge(&sample::data(), &bar("hello", "nginx", at_most, 0.5)).map(|it| it.outcome)
}

#[test]
fn a_bar_is_met_or_missed_only_with_the_whole_interval() {
    // The sample: 5.9 ± 0.1 µs over 7.0 ± 0.1 µs.
    assert_eq!(outcome(0.90), Some(BarOutcome::Met));
    assert_eq!(outcome(0.80), Some(BarOutcome::Missed));
    assert_eq!(outcome(0.843), Some(BarOutcome::Undecided));
}

#[test]
fn nothing_is_reported_about_what_was_not_measured() {
    let bar = bar("hello", "caddy", 1.0, 0.5);
    assert_eq!(judge(&sample::data(), &bar), None);
    assert_eq!(judge(&sample::data(), &page(Figure::P99, 500, Workers::EachCore)), None);
}

#[test]
fn a_server_with_errors_meets_no_bar() {
    let mut data = sample::data();
    data.records.iter_mut().for_each(|record| record.errors = 1);
    let found = judge(&data, &bar("hello", "nginx", 0.90, 0.5)).unwrap();
    assert!(found.interval.high < 0.90 && found.outcome == BarOutcome::Missed);
}

#[test]
fn of_two_placements_the_worse_counts() {
    let mut data = sample::data();
    // 5.9 µs over 7.0 unpinned; pinned 6.3 over 7.0.
    for (server, us) in [(OURS, 6.3), ("nginx", 7.0)] {
        let mut record = sample::record(server, "hello", 100, us);
        record.placement = Placement::Pinned;
        data.records.push(record);
    }
    let found = |at_most| judge(&data, &bar("hello", "nginx", at_most, 0.5)).unwrap();
    let both = found(0.95);
    assert_eq!((both.outcome, both.placement), (BarOutcome::Met, Placement::Pinned));
    let pinned = found(0.86);
    assert_eq!((pinned.outcome, pinned.placement), (BarOutcome::Missed, Placement::Pinned));
    let unpinned = |record: &mut Record| {
        if record.placement == Placement::Unpinned && record.server == OURS {
            record.errors = 1;
        }
    };
    data.records.iter_mut().for_each(unpinned);
    let failed = judge(&data, &bar("hello", "nginx", 0.95, 0.5)).unwrap();
    assert_eq!((failed.outcome, failed.placement), (BarOutcome::Missed, Placement::Unpinned));
}

#[test]
fn the_worst_number_of_connections_counts() {
    let mut data = sample::data();
    let is_slow = |it: &&mut Record| it.server == OURS && it.connections == 512;
    let slow = data.records.iter_mut().filter(is_slow).flat_map(|it| &mut it.rounds);
    slow.for_each(|round| round.cpu_us_per_request *= 1.1);
    let found = judge(&data, &bar("hello", "nginx", 0.90, 0.5)).unwrap();
    assert_eq!((found.outcome, found.connections), (BarOutcome::Missed, 512));
}

#[test]
fn what_the_backend_takes_is_not_added_latency() {
    let mut data = sample::data();
    let added = app("hello", "nginx", 0.8, Figure::AddedP999);
    assert_eq!(judge(&data, &added), None, "the backend was not measured");
    data.records.push(sample::record(DIRECT, "hello", 100, 3.0));
    // Latencies are in proportion to the cost here.
    let found = judge(&data, &added).unwrap();
    assert!((found.interval.ratio - (5.9 - 3.0) / (7.0 - 3.0)).abs() < 1e-3, "{found:?}");
}

#[test]
fn few_or_disturbed_rounds_give_no_verdict() {
    let bar = bar("hello", "nginx", 0.90, 0.5);
    let with = |server: &str, change: &dyn Fn(&mut Record)| {
        let mut data = sample::data();
        data.records.iter_mut().filter(|it| it.server == server).for_each(change);
        judge(&data, &bar).unwrap().outcome
    };
    for server in [OURS, "nginx"] {
        let few = with(server, &|record| record.rounds.truncate(3));
        assert_eq!(few, BarOutcome::NoVerdict(NoVerdict::FewRounds));
        let busy = |round: &mut Round| round.disturbed = Some("steal of 4 %".to_owned());
        let disturbed = with(server, &|record| busy(&mut record.rounds[1]));
        assert_eq!(disturbed, BarOutcome::NoVerdict(NoVerdict::Disturbed));
        // With enough others, a disturbed round is passed over.
        let enough = with(server, &|record| {
            let mut slow = record.rounds[0].clone();
            slow.cpu_us_per_request *= 100.0;
            busy(&mut slow);
            record.rounds.extend([slow.clone(), slow]);
        });
        assert_eq!(enough, BarOutcome::Met);
    }
}

/// This Tidegate and the other one on a machine that becomes slower with every round.
fn drifting(rounds: i32) -> [Record; 2] {
    [(OURS, 0.98), (AGAINST, 1.0)].map(|(server, factor)| {
        let mut record = sample::record(server, "hello", 100, 5.0);
        let round = record.rounds[0].clone();
        let at = |number: i32| factor * 5.0 * 1.2f64.powi(number);
        record.rounds = (0..rounds)
            .map(|number| Round { cpu_us_per_request: at(number), ..round.clone() })
            .collect();
        record
    })
}

#[test]
fn another_tidegate_is_compared_round_by_round() {
    let [ours, other] = drifting(8);
    let found = ratio(&ours, &other).unwrap();
    assert!(found.is_real() && (found.ratio - 0.98).abs() < 1e-9, "{found:?}");
    assert_eq!(no_verdict(&ours, &other), None);
    // The same figures of another server: the drift hides the difference.
    let nginx = Record { server: "nginx".to_owned(), ..other };
    assert!(!ratio(&ours, &nginx).unwrap().is_real());
}

#[test]
fn a_pair_with_a_disturbed_round_does_not_count() {
    let disturb = |record: &mut Record, rounds: &[usize]| {
        for &round in rounds {
            record.rounds[round].disturbed = Some("steal of 4 %".to_owned());
            record.rounds[round].cpu_us_per_request *= 100.0;
        }
    };
    let [mut ours, mut other] = drifting(6);
    disturb(&mut ours, &[1]);
    disturb(&mut other, &[3]);
    let found = ratio(&ours, &other).unwrap();
    assert!((found.high - 0.98).abs() < 1e-9 && found.is_real(), "{found:?}");
    disturb(&mut other, &[5]);
    assert_eq!(no_verdict(&ours, &other), Some(NoVerdict::Disturbed));
    let [ours, other] = drifting(3);
    assert_eq!(no_verdict(&ours, &other), Some(NoVerdict::FewRounds));
}

#[test]
fn what_the_application_costs_is_taken_off_both() {
    let mut data = sample::data();
    let figure = Figure::CpuWithout("hello-loop");
    let without = app("hello", "nginx", 0.5, figure);
    assert_eq!(judge(&data, &without), None, "the loop was not measured");
    let mut alone = sample::record(BARE_LOOP, "hello-loop", 1, 4.9);
    alone.workers = 1;
    data.records.push(alone);
    // 5.9 − 4.9 over 7.0 − 4.9.
    let Judged { interval, outcome, .. } = judge(&data, &without).unwrap();
    assert!((interval.ratio - 1.0 / 2.1).abs() < 1e-3, "{interval:?}");
    assert_eq!(outcome, BarOutcome::Undecided);
    assert_eq!(without.label(), "hello, without the application");
}

#[test]
fn a_page_is_held_against_the_best_of_it_where_it_was_taken() {
    let mut data = sample::data();
    for (server, us, workers) in
        [(OURS, 10.0, 2), ("granian", 12.0, 2), ("uvicorn", 30.0, 2), ("granian", 5.0, 1)]
    {
        let mut record = sample::record(server, "python-page", 500, us);
        record.workers = workers;
        data.records.push(record);
    }
    let found = |bar: &Bar| judge(&data, bar).map(|it| it.interval.ratio);
    for figure in [Figure::Time, Figure::P99] {
        let ratio = found(&page(figure, 500, Workers::EachCore)).unwrap();
        assert!((ratio - 10.0 / 12.0).abs() < 1e-9, "{figure:?}: {ratio}");
    }
    assert_eq!(found(&page(Figure::P99, 500, Workers::One)), None);
    let label = page(Figure::P99, 500, Workers::EachCore).label();
    assert_eq!(label, "python-page at 500, a worker for each core, p99");
}
