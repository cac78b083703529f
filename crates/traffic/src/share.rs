//! Selects an exact share of the requests.
//!
//! A sequence of points spreads over the numbers from 0 to 2^64 with the step of a golden ratio:
//! any part of that range gets its share of every run of requests, to within a few, on each worker
//! by itself. Random points would miss the share by their square root, and every tenth request
//! would follow what clients do every tenth time.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

use settings::Percent;

/// The points of one worker.
pub(crate) struct Spread {
    at: Cell<u64>,
    step: u64,
}

impl Spread {
    /// The golden ratio's fraction.
    pub(crate) fn new() -> Spread {
        Spread::with_step(0x9e37_79b9_7f4a_7c15)
    }

    /// The fraction of √2: a second decision about a request is independent of the first one.
    pub(crate) fn second() -> Spread {
        Spread::with_step(0x6a09_e667_f3bc_c909)
    }

    fn with_step(step: u64) -> Spread {
        // Two filters of one route do not select the same requests.
        Spread { at: Cell::new(RandomState::new().hash_one(step)), step }
    }

    /// Returns the point of the next request.
    pub(crate) fn next(&self) -> u64 {
        let at = self.at.get().wrapping_add(self.step);
        self.at.set(at);
        at
    }
}

/// A part of the points, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Share(u64);

impl Share {
    pub(crate) fn new(percent: Percent) -> Share {
        Share::of(percent.fraction())
    }

    /// A share from 0 to 1; what is beyond is cut off.
    pub(crate) fn of(fraction: f64) -> Share {
        Share((fraction * 2f64.powi(64)) as u64)
    }

    pub(crate) fn contains(self, point: u64) -> bool {
        point < self.0 || self.0 == u64::MAX
    }
}

/// The point of a key, the same on every worker, machine and run: FNV-1a, mixed as SplitMix64 does.
pub(crate) fn point_of(key: &[u8]) -> u64 {
    let mut bits = key.iter().fold(0xcbf2_9ce4_8422_2325u64, |bits, byte| {
        (bits ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_exact_over_every_run() {
        for spread in [Spread::new(), Spread::second()] {
            for percent in ["0%", "0.1%", "1%", "5%", "33%", "50%", "99.9%", "100%"] {
                let share = Share::new(percent.parse().unwrap());
                let wanted = percent.trim_end_matches('%').parse::<f64>().unwrap() / 100.0;
                for run in [1_000, 100_000] {
                    let taken = (0..run).filter(|_| share.contains(spread.next())).count() as f64;
                    let wanted = wanted * f64::from(run);
                    // Within 1 %, or a few requests of a short run.
                    let within = (wanted * 0.01).max(4.0);
                    assert!((taken - wanted).abs() <= within, "{percent} of {run}: {taken}");
                }
            }
        }
    }

    #[test]
    fn two_decisions_about_a_request_are_independent() {
        let (first, second) = (Spread::new(), Spread::second());
        let half = Share::of(0.5);
        let both = |_: &i32| half.contains(first.next()) & half.contains(second.next());
        let both = (0..100_000).filter(both).count();
        assert!((24_750..=25_250).contains(&both), "{both}");
    }

    #[test]
    fn keys_spread_evenly() {
        let share = Share::of(0.05);
        let taken =
            (0..100_000).filter(|user| share.contains(point_of(format!("user-{user}").as_bytes())));
        // Keys are random: three standard deviations.
        let taken = taken.count();
        assert!((4_790..=5_210).contains(&taken), "{taken}");
    }
}
