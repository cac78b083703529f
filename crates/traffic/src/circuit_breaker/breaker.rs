//! The state of a circuit breaker and the window it counts requests in, shared by all workers.
//!
//! The state is one word, changed by compare-and-swap, so that of all workers exactly one opens
//! the breaker and exactly as many probes pass as are set. Results are counted in ten buckets,
//! each with the tick it belongs to: no bucket has to be cleared by a timer. Time is a parameter.

use std::sync::atomic::{AtomicU64, Ordering};

const BUCKETS: u64 = 10;
const RELAXED: Ordering = Ordering::Relaxed;

/// When a breaker opens and closes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Thresholds {
    pub(super) failure_ratio: f64,
    pub(super) slow_ratio: f64,
    pub(super) min_requests: u64,
    pub(super) open_ms: u64,
    pub(super) probes: u64,
}

/// The result of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CallResult {
    pub(super) failed: bool,
    pub(super) slow: bool,
}

/// Whether a request may pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Pass,
    /// The request is a probe: with the others of its round it decides whether the breaker closes.
    Probe(Round),
    Rejected {
        wait_ms: u64,
    },
}

/// Which half-open period a probe belongs to: the result of one that is late does not count in the
/// next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Round(u64);

impl Round {
    /// The period after an open one.
    fn after(until_ms: u64) -> Round {
        Round(until_ms & ROUND_MASK)
    }
}

/// Rounds repeat after an hour.
const ROUND_MASK: u64 = 0x3f_ffff;
const PROBES_MASK: u64 = 0xf_ffff;

/// The change that a result caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transition {
    Opened,
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BreakerState {
    Closed,
    Open {
        until_ms: u64,
    },
    /// Probes that were sent, and those of them that succeeded.
    HalfOpen {
        round: Round,
        sent: u64,
        succeeded: u64,
    },
}

impl BreakerState {
    pub(super) const fn slug(self) -> &'static str {
        match self {
            BreakerState::Closed => "closed",
            BreakerState::Open { .. } => "open",
            BreakerState::HalfOpen { .. } => "half_open",
        }
    }

    fn pack(self) -> u64 {
        match self {
            BreakerState::Closed => 0,
            BreakerState::Open { until_ms } => 1 | until_ms << 2,
            BreakerState::HalfOpen { round, sent, succeeded } => {
                2 | sent << 2 | succeeded << 22 | round.0 << 42
            }
        }
    }

    fn unpack(word: u64) -> BreakerState {
        match word & 3 {
            0 => BreakerState::Closed,
            1 => BreakerState::Open { until_ms: word >> 2 },
            _ => BreakerState::HalfOpen {
                round: Round(word >> 42),
                sent: word >> 2 & PROBES_MASK,
                succeeded: word >> 22 & PROBES_MASK,
            },
        }
    }
}

pub(super) struct Breaker {
    state: AtomicU64,
    /// When it got into this state; zero if it never had another one.
    changed_ms: AtomicU64,
    window: Window,
}

/// The results within the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WindowCounts {
    pub(super) requests: u64,
    pub(super) failed: u64,
    pub(super) slow: u64,
}

impl Breaker {
    pub(super) fn new(window_ms: u64) -> Breaker {
        Breaker {
            state: AtomicU64::new(0),
            changed_ms: AtomicU64::new(0),
            window: Window::new(window_ms),
        }
    }

    pub(super) fn state(&self) -> BreakerState {
        BreakerState::unpack(self.state.load(RELAXED))
    }

    /// When it got into its state; `None` if it never had another one.
    pub(super) fn changed_ms(&self) -> Option<u64> {
        Some(self.changed_ms.load(RELAXED)).filter(|changed_ms| *changed_ms > 0)
    }

    pub(super) fn counts(&self, now_ms: u64) -> WindowCounts {
        self.window.counts(now_ms)
    }

    pub(super) fn window_ms(&self) -> u64 {
        self.window.tick_ms * BUCKETS
    }

    fn change(&self, from: BreakerState, to: BreakerState, now_ms: u64) -> bool {
        let changed = self.state.compare_exchange(from.pack(), to.pack(), RELAXED, RELAXED).is_ok();
        if changed && from.slug() != to.slug() {
            self.changed_ms.store(now_ms.max(1), RELAXED);
        }
        changed
    }

    pub(super) fn admit(&self, now_ms: u64, thresholds: &Thresholds) -> Admission {
        loop {
            let state = self.state();
            let (round, next) = match state {
                BreakerState::Closed => return Admission::Pass,
                BreakerState::Open { until_ms } if now_ms < until_ms => {
                    return Admission::Rejected { wait_ms: until_ms - now_ms };
                }
                BreakerState::Open { until_ms } => {
                    let round = Round::after(until_ms);
                    (round, BreakerState::HalfOpen { round, sent: 1, succeeded: 0 })
                }
                BreakerState::HalfOpen { round, sent, succeeded } if sent < thresholds.probes => {
                    (round, BreakerState::HalfOpen { round, sent: sent + 1, succeeded })
                }
                BreakerState::HalfOpen { .. } => return Admission::Rejected { wait_ms: 1 },
            };
            if self.change(state, next, now_ms) {
                return Admission::Probe(round);
            }
        }
    }

    /// Counts the result of a request that passed. Those of requests that began before the breaker
    /// opened change nothing, neither while it is open nor when it has closed again.
    pub(super) fn ended(
        &self,
        result: CallResult,
        began_ms: u64,
        now_ms: u64,
        thresholds: &Thresholds,
    ) -> Option<Transition> {
        if self.state() != BreakerState::Closed || self.window.is_before(began_ms) {
            return None;
        }
        self.window.record(result, now_ms);
        if result == CallResult::default() || !self.window.exceeds(now_ms, thresholds) {
            return None;
        }
        let until_ms = now_ms + thresholds.open_ms;
        let opened = self.change(BreakerState::Closed, BreakerState::Open { until_ms }, now_ms);
        opened.then_some(Transition::Opened)
    }

    /// Takes in the result of a probe; `None` if it had none, because its client went away.
    pub(super) fn probe_ended(
        &self,
        probe: Round,
        result: Option<CallResult>,
        now_ms: u64,
        thresholds: &Thresholds,
    ) -> Option<Transition> {
        loop {
            let state = self.state();
            let BreakerState::HalfOpen { round, sent, succeeded } = state else { return None };
            if round != probe {
                return None;
            }
            let (next, transition) = match result {
                None => {
                    let sent = sent.saturating_sub(1);
                    (BreakerState::HalfOpen { round, sent, succeeded }, None)
                }
                Some(result) if result.failed || result.slow => {
                    let until_ms = now_ms + thresholds.open_ms;
                    (BreakerState::Open { until_ms }, Some(Transition::Opened))
                }
                Some(_) if succeeded + 1 >= thresholds.probes => {
                    self.window.forget(now_ms);
                    (BreakerState::Closed, Some(Transition::Closed))
                }
                Some(_) => (BreakerState::HalfOpen { round, sent, succeeded: succeeded + 1 }, None),
            };
            if self.change(state, next, now_ms) {
                return transition;
            }
        }
    }
}

/// Results of the last time.
struct Window {
    tick_ms: u64,
    /// Results before this tick do not count.
    since: AtomicU64,
    failed: [Bucket; BUCKETS as usize],
    slow: [Bucket; BUCKETS as usize],
}

/// A tick of 24 bits, a count of results and a count of bad ones of 20 bits each. A bucket that is
/// full counts no more: its ratio does not change.
#[derive(Default)]
struct Bucket(AtomicU64);

const COUNT_MAX: u64 = 0xf_ffff;
const TICK_MASK: u64 = 0xff_ffff;

impl Bucket {
    fn count(&self, tick: u64, bad: bool) {
        let mut word = self.0.load(RELAXED);
        loop {
            let base = if word >> 40 == tick & TICK_MASK { word } else { (tick & TICK_MASK) << 40 };
            if base >> 20 & COUNT_MAX == COUNT_MAX {
                return;
            }
            let next = base + (1 << 20) + u64::from(bad);
            match self.0.compare_exchange_weak(word, next, RELAXED, RELAXED) {
                Ok(_) => return,
                Err(newer) => word = newer,
            }
        }
    }

    /// The results and the bad ones of a tick.
    fn counts(&self, tick: u64) -> (u64, u64) {
        let word = self.0.load(RELAXED);
        match word >> 40 == tick & TICK_MASK {
            true => (word >> 20 & COUNT_MAX, word & COUNT_MAX),
            false => (0, 0),
        }
    }
}

impl Window {
    fn new(window_ms: u64) -> Window {
        Window {
            tick_ms: (window_ms / BUCKETS).max(1),
            since: AtomicU64::new(0),
            failed: Default::default(),
            slow: Default::default(),
        }
    }

    fn record(&self, result: CallResult, now_ms: u64) {
        let tick = now_ms / self.tick_ms;
        let at = (tick % BUCKETS) as usize;
        self.failed[at].count(tick, result.failed);
        self.slow[at].count(tick, result.slow);
    }

    /// True if a time is before the results that count.
    fn is_before(&self, time_ms: u64) -> bool {
        time_ms / self.tick_ms < self.since.load(RELAXED)
    }

    fn forget(&self, now_ms: u64) {
        self.since.store(now_ms / self.tick_ms, RELAXED);
    }

    /// The results of these buckets, and the bad ones.
    fn sum(&self, buckets: &[Bucket], now_ms: u64) -> (u64, u64) {
        let now = now_ms / self.tick_ms;
        let oldest = (now + 1).saturating_sub(BUCKETS).max(self.since.load(RELAXED));
        (oldest..=now).fold((0, 0), |(all, bad), tick| {
            let (more, more_bad) = buckets[(tick % BUCKETS) as usize].counts(tick);
            (all + more, bad + more_bad)
        })
    }

    fn counts(&self, now_ms: u64) -> WindowCounts {
        let (requests, failed) = self.sum(&self.failed, now_ms);
        WindowCounts { requests, failed, slow: self.sum(&self.slow, now_ms).1 }
    }

    fn exceeds(&self, now_ms: u64, thresholds: &Thresholds) -> bool {
        let above = |(all, bad): (u64, u64), ratio: f64| {
            all >= thresholds.min_requests && bad > 0 && bad as f64 >= ratio * all as f64
        };
        above(self.sum(&self.failed, now_ms), thresholds.failure_ratio)
            || above(self.sum(&self.slow, now_ms), thresholds.slow_ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THRESHOLDS: Thresholds = Thresholds {
        failure_ratio: 0.5,
        slow_ratio: 0.8,
        min_requests: 20,
        open_ms: 5_000,
        probes: 3,
    };
    const OK: CallResult = CallResult { failed: false, slow: false };
    const FAILED: CallResult = CallResult { failed: true, slow: false };
    const SLOW: CallResult = CallResult { failed: false, slow: true };

    fn run(breaker: &Breaker, results: &[(CallResult, usize)], now_ms: u64) -> Option<Transition> {
        let all = results.iter().flat_map(|(result, count)| std::iter::repeat_n(*result, *count));
        all.filter_map(|result| breaker.ended(result, now_ms, now_ms, &THRESHOLDS)).last()
    }

    fn opened(results: &[(CallResult, usize)]) -> bool {
        run(&Breaker::new(10_000), results, 1_000) == Some(Transition::Opened)
    }

    #[test]
    fn ratios_and_the_minimum_of_requests_open_it() {
        assert!(opened(&[(OK, 10), (FAILED, 10)]));
        assert!(!opened(&[(OK, 11), (FAILED, 10)]));
        assert!(!opened(&[(FAILED, 19)]));
        assert!(opened(&[(OK, 4), (SLOW, 16)]));
        assert!(!opened(&[(OK, 5), (SLOW, 15)]));
    }

    #[test]
    fn the_ratio_is_exact_over_100_000_requests() {
        let thresholds = Thresholds { failure_ratio: 0.05, min_requests: 10_000, ..THRESHOLDS };
        for (percent, opens) in [("4.95%", false), ("5.05%", true)] {
            let failing = crate::share::Share::new(percent.parse().unwrap());
            let (points, breaker) = (crate::share::Spread::new(), Breaker::new(10_000));
            // Evenly over the window of ten seconds.
            let opened = (0..100_000).any(|request| {
                let result = CallResult { failed: failing.contains(points.next()), slow: false };
                let now_ms = 1_000 + request / 10;
                breaker.ended(result, now_ms, now_ms, &thresholds).is_some()
            });
            assert_eq!(opened, opens, "{percent}");
        }
    }

    #[test]
    fn results_leave_the_window() {
        let breaker = Breaker::new(10_000);
        assert_eq!(run(&breaker, &[(FAILED, 19)], 1_000), None);
        assert_eq!(run(&breaker, &[(FAILED, 1)], 11_000), None);
        assert_eq!(run(&breaker, &[(FAILED, 18)], 20_999), None);
        assert_eq!(run(&breaker, &[(FAILED, 1)], 20_999), Some(Transition::Opened));
    }

    #[test]
    fn an_open_breaker_rejects_and_then_sends_probes() {
        let breaker = Breaker::new(10_000);
        run(&breaker, &[(FAILED, 20)], 1_000);
        assert_eq!(breaker.admit(1_000, &THRESHOLDS), Admission::Rejected { wait_ms: 5_000 });
        // Results of requests that were in flight change nothing.
        assert_eq!(run(&breaker, &[(FAILED, 20)], 2_000), None);
        let admit = || breaker.admit(6_000, &THRESHOLDS);
        let round = Round::after(6_000);
        assert_eq!([admit(), admit(), admit()], [Admission::Probe(round); 3]);
        assert_eq!(admit(), Admission::Rejected { wait_ms: 1 });
        // The place of a probe without a result is free again.
        assert_eq!(breaker.probe_ended(round, None, 6_000, &THRESHOLDS), None);
        assert_eq!(admit(), Admission::Probe(round));
        let end = |result| breaker.probe_ended(round, Some(result), 6_000, &THRESHOLDS);
        assert_eq!([end(OK), end(OK), end(OK)], [None, None, Some(Transition::Closed)]);
        assert_eq!(admit(), Admission::Pass);
        // The failures that opened it do not open it again.
        assert_eq!(run(&breaker, &[(FAILED, 19)], 6_000), None);
        assert_eq!(run(&breaker, &[(FAILED, 1)], 6_000), Some(Transition::Opened));
    }

    #[test]
    fn its_state_has_a_beginning_and_the_window_has_counts() {
        let breaker = Breaker::new(10_000);
        assert_eq!((breaker.changed_ms(), breaker.window_ms()), (None, 10_000));
        run(&breaker, &[(OK, 6), (SLOW, 4), (FAILED, 10)], 1_000);
        let counts = WindowCounts { requests: 20, failed: 10, slow: 4 };
        assert_eq!((breaker.state().slug(), breaker.changed_ms()), ("open", Some(1_000)));
        assert_eq!((breaker.counts(1_000), breaker.counts(10_999)), (counts, counts));
        assert_eq!(breaker.counts(11_000), WindowCounts::default());
        for now_ms in [6_000, 6_500, 6_600] {
            assert!(matches!(breaker.admit(now_ms, &THRESHOLDS), Admission::Probe(_)));
        }
        assert_eq!((breaker.state().slug(), breaker.changed_ms()), ("half_open", Some(6_000)));
        let round = Round::after(6_000);
        for now_ms in [7_000, 7_100, 7_200] {
            breaker.probe_ended(round, Some(OK), now_ms, &THRESHOLDS);
        }
        assert_eq!((breaker.state().slug(), breaker.changed_ms()), ("closed", Some(7_200)));
        assert_eq!(breaker.counts(7_200), WindowCounts::default());
    }

    #[test]
    fn a_probe_that_fails_opens_it_again() {
        for bad in [FAILED, SLOW] {
            let breaker = Breaker::new(10_000);
            run(&breaker, &[(FAILED, 20)], 1_000);
            let round = Round::after(6_000);
            assert_eq!(breaker.admit(6_000, &THRESHOLDS), Admission::Probe(round));
            let ended = breaker.probe_ended(round, Some(bad), 7_000, &THRESHOLDS);
            assert_eq!(ended, Some(Transition::Opened));
            assert_eq!(breaker.state(), BreakerState::Open { until_ms: 12_000 });
        }
    }

    #[test]
    fn late_results_of_an_earlier_time_do_not_count() {
        let breaker = Breaker::new(10_000);
        run(&breaker, &[(FAILED, 20)], 1_000);
        let probe = |now_ms| match breaker.admit(now_ms, &THRESHOLDS) {
            Admission::Probe(round) => round,
            other => panic!("no probe: {other:?}"),
        };
        let late = [probe(6_000), probe(6_000)];
        let end =
            |round, result, now_ms| breaker.probe_ended(round, Some(result), now_ms, &THRESHOLDS);
        assert_eq!(end(late[0], FAILED, 6_100), Some(Transition::Opened));
        // The next round: the other probe of the first one times out now.
        let current = [probe(12_000), probe(12_000), probe(12_000)];
        assert_eq!(end(late[1], FAILED, 12_100), None);
        assert_eq!(end(late[1], OK, 12_100), None);
        assert_eq!(breaker.probe_ended(late[1], None, 12_100, &THRESHOLDS), None);
        assert_eq!(breaker.admit(12_100, &THRESHOLDS), Admission::Rejected { wait_ms: 1 });
        let ended = current.map(|round| end(round, OK, 12_200));
        assert_eq!(ended, [None, None, Some(Transition::Closed)]);
        // Requests that passed before it opened time out.
        let in_flight = (0..50).filter_map(|_| breaker.ended(FAILED, 900, 13_000, &THRESHOLDS));
        assert_eq!(in_flight.count(), 0);
        let since = (0..50).filter_map(|_| breaker.ended(FAILED, 12_500, 13_000, &THRESHOLDS));
        assert_eq!(since.count(), 1);
    }

    #[test]
    fn workers_open_it_once_and_share_the_probes() {
        let breaker = Breaker::new(10_000);
        let threads = |work: &(dyn Fn() -> usize + Sync)| -> usize {
            std::thread::scope(|scope| {
                let workers: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
                workers.into_iter().map(|worker| worker.join().unwrap()).sum()
            })
        };
        let opened = threads(&|| {
            (0..1000).filter_map(|_| breaker.ended(FAILED, 1_000, 1_000, &THRESHOLDS)).count()
        });
        assert_eq!(opened, 1);
        let is_probe = |_: &i32| matches!(breaker.admit(9_000, &THRESHOLDS), Admission::Probe(_));
        let probes = threads(&|| (0..1000).filter(is_probe).count());
        assert_eq!(probes, 3);
    }

    #[test]
    fn a_full_bucket_counts_no_more() {
        let bucket = Bucket(AtomicU64::new(7 << 40 | COUNT_MAX << 20 | 5));
        bucket.count(7, true);
        assert_eq!(bucket.counts(7), (COUNT_MAX, 5));
        bucket.count(8, true);
        assert_eq!((bucket.counts(7), bucket.counts(8)), ((0, 0), (1, 1)));
    }
}
