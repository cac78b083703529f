//! The adaptive limit: it follows the gradient of the latency.
//!
//! This is Gradient2 of Netflix's concurrency-limits. While latency is what it was over the last
//! minutes, the limit grows by the square root of itself; once latency rises, because requests
//! queue somewhere behind, the limit falls with it. Envoy's controller instead measures the
//! latency of an idle server, for which it lowers the limit to almost nothing at intervals: that
//! rejects requests of a server without any problem.
//!
//! All workers share one limit, in atomics. A window ends with the first response after its time;
//! the worker that ends it computes the next limit, and no other waits for it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Time over which latencies are averaged.
const WINDOW_US: u64 = 250_000;
/// Responses that a window has at least.
const SAMPLES_MIN: u32 = 10;
/// Weight of a window in the long-term latency: two and a half minutes of windows.
const LONG_WEIGHT: f64 = 1.0 / 600.0;
/// The factor by which latency may rise before the limit falls.
const TOLERANCE: f64 = 1.5;
/// Weight of the new limit against the current one.
const SMOOTHING: f64 = 0.2;

/// Bounds of the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct LimitRange {
    pub(super) min: u32,
    pub(super) max: u32,
}

/// The limit and what it is computed from. Relaxed atomics: a lost sample changes nothing.
pub(super) struct Gradient {
    range: LimitRange,
    limit: AtomicU64,
    long_us: AtomicU64,
    window_ends_us: AtomicU64,
    sum_us: AtomicU64,
    samples: AtomicU32,
    in_flight_max: AtomicU32,
}

impl Gradient {
    pub(super) fn new(range: LimitRange) -> Gradient {
        // Begins low and grows, as a server that has just started is cold.
        let begin = f64::from(range.min.max(20).min(range.max));
        Gradient {
            range,
            limit: AtomicU64::new(begin.to_bits()),
            long_us: AtomicU64::new(0),
            window_ends_us: AtomicU64::new(0),
            sum_us: AtomicU64::new(0),
            samples: AtomicU32::new(0),
            in_flight_max: AtomicU32::new(0),
        }
    }

    pub(super) fn limit(&self) -> u32 {
        f64::from_bits(self.limit.load(Ordering::Relaxed)) as u32
    }

    /// Takes in a response; returns the new limit if this one ends a window.
    pub(super) fn sample(&self, now_us: u64, latency_us: u64, in_flight: u32) -> Option<u32> {
        self.sum_us.fetch_add(latency_us, Ordering::Relaxed);
        let samples = self.samples.fetch_add(1, Ordering::Relaxed) + 1;
        self.in_flight_max.fetch_max(in_flight, Ordering::Relaxed);
        let ends_us = self.window_ends_us.load(Ordering::Relaxed);
        if now_us < ends_us || samples < SAMPLES_MIN {
            return None;
        }
        let (next, order) = (now_us + WINDOW_US, Ordering::Relaxed);
        self.window_ends_us.compare_exchange(ends_us, next, order, order).ok()?;
        let samples = self.samples.swap(0, order);
        let sum_us = self.sum_us.swap(0, order);
        let in_flight = self.in_flight_max.swap(0, order);
        if samples == 0 {
            return None;
        }
        let short = sum_us as f64 / f64::from(samples);
        let long = f64::from_bits(self.long_us.load(order));
        let (limit, long) =
            next_limit(f64::from_bits(self.limit.load(order)), long, short, in_flight);
        let limit = limit.clamp(f64::from(self.range.min), f64::from(self.range.max));
        self.limit.store(limit.to_bits(), order);
        self.long_us.store(long.to_bits(), order);
        Some(limit as u32)
    }
}

/// The next limit and long-term latency, from the latency of the last window.
fn next_limit(limit: f64, long: f64, short: f64, in_flight: u32) -> (f64, f64) {
    let short = short.max(1.0);
    let mut long = if long == 0.0 { short } else { long + (short - long) * LONG_WEIGHT };
    if long > 2.0 * short {
        // An overload is over: its latencies must not count for minutes.
        long *= 0.95;
    }
    if f64::from(in_flight) < limit / 2.0 {
        // Clients do not use the limit, so the latency is not a measure of it.
        return (limit, long);
    }
    let gradient = (TOLERANCE * long / short).clamp(0.5, 1.0);
    let wanted = limit * gradient + limit.sqrt();
    (limit + (wanted - limit) * SMOOTHING, long)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that handles `capacity` requests at once in 10 ms each, behind a limit that clients
    /// always use up: more requests wait for one another.
    fn settle(gradient: &Gradient, capacity: f64, windows: usize) -> u32 {
        let mut now_us = gradient.window_ends_us.load(Ordering::Relaxed);
        for _ in 0..windows {
            now_us += WINDOW_US;
            let in_flight = gradient.limit();
            let latency_us = 10_000.0 * (f64::from(in_flight) / capacity).max(1.0);
            for _ in 0..SAMPLES_MIN {
                gradient.sample(now_us, latency_us as u64, in_flight);
            }
        }
        gradient.limit()
    }

    #[test]
    fn the_limit_finds_the_capacity_and_follows_it() {
        let gradient = Gradient::new(LimitRange { min: 5, max: 10_000 });
        let found = settle(&gradient, 200.0, 400);
        assert!((200..=450).contains(&found), "{found}");
        let fallen = settle(&gradient, 40.0, 100);
        assert!((20..=110).contains(&fallen), "{fallen}");
    }

    #[test]
    fn the_limit_keeps_its_bounds_and_does_not_grow_unused() {
        let gradient = Gradient::new(LimitRange { min: 30, max: 60 });
        assert_eq!(settle(&gradient, 1e9, 500), 60);
        assert_eq!(settle(&gradient, 0.1, 100), 30);
        let idle = Gradient::new(LimitRange { min: 1, max: 1000 });
        let before = idle.limit();
        for turn in 1..100 {
            for _ in 0..SAMPLES_MIN {
                idle.sample(turn * 2 * WINDOW_US, 1000, 1);
            }
        }
        assert_eq!(idle.limit(), before);
    }
}
