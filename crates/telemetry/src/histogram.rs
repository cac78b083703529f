//! Latency histograms written by one worker.
//!
//! The bounds are fixed and suit a dashboard (1-2-5 steps from 100 µs to 10 s, then 30 and 60 s).
//! An octave holds at most one bound, so the bucket is found by a table lookup with the value's
//! highest bit and one comparison.

use crate::cell::Counter;

/// Upper bounds in microseconds, inclusive, like Prometheus' `le`.
pub const BOUNDS_US: [u64; 18] = [
    100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000,
    1_000_000, 2_000_000, 5_000_000, 10_000_000, 30_000_000, 60_000_000,
];
/// One more than the bounds: the last bucket counts everything above.
pub const BUCKETS: usize = BOUNDS_US.len() + 1;

/// For each position of the highest bit: the number of bounds below that octave.
const FIRST: [u8; 64] = {
    let mut table = [0; 64];
    let mut bit = 0;
    while bit < 64 {
        let mut below = 0;
        while below < BOUNDS_US.len() && BOUNDS_US[below] < 1 << bit {
            below += 1;
        }
        table[bit] = below as u8;
        bit += 1;
    }
    table
};

/// The bounds followed by the largest value, so that the lookup needs no check.
const PADDED: [u64; BUCKETS] = {
    let mut padded = [u64::MAX; BUCKETS];
    let mut i = 0;
    while i < BOUNDS_US.len() {
        padded[i] = BOUNDS_US[i];
        i += 1;
    }
    padded
};

/// The index of a value's bucket.
#[inline]
pub(crate) fn bucket(value_us: u64) -> usize {
    let first = FIRST[(value_us | 1).ilog2() as usize] as usize;
    first + usize::from(value_us > PADDED[first])
}

/// A latency distribution with a single writer, like `Counter`.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Histogram {
    buckets: [Counter; BUCKETS],
    sum_us: Counter,
}

impl Histogram {
    pub fn new() -> Self {
        Self::default()
    }

    #[inline]
    pub fn record_us(&self, value_us: u64) {
        self.buckets[bucket(value_us)].inc();
        self.sum_us.add(value_us);
    }

    /// Returns the values recorded so far; a value recorded concurrently may be missing from the
    /// sum.
    pub fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot { sum_us: self.sum_us.get(), ..Snapshot::default() };
        for (into, from) in snapshot.buckets.iter_mut().zip(&self.buckets) {
            *into = from.get();
        }
        snapshot
    }
}

/// A histogram read at one moment; snapshots of several workers can be merged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Per bucket, not cumulative.
    pub buckets: [u64; BUCKETS],
    pub sum_us: u64,
}

impl Snapshot {
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    pub fn merge(&mut self, other: &Snapshot) {
        for (into, from) in self.buckets.iter_mut().zip(&other.buckets) {
            *into += from;
        }
        self.sum_us = self.sum_us.wrapping_add(other.sum_us);
    }

    /// Returns the upper bound of the bucket that contains the given quantile (0 to 1); `None` if
    /// nothing was recorded or the quantile lies above the last bound.
    pub fn quantile_us(&self, quantile: f64) -> Option<u64> {
        let wanted = (self.count() as f64 * quantile.clamp(0.0, 1.0)).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (count, bound) in self.buckets.iter().zip(BOUNDS_US) {
            seen += count;
            if seen >= wanted {
                return Some(bound);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{BOUNDS_US, BUCKETS, Histogram, bucket};

    fn slow_bucket(value: u64) -> usize {
        BOUNDS_US.iter().position(|&bound| value <= bound).unwrap_or(BOUNDS_US.len())
    }

    #[test]
    fn the_lookup_agrees_with_a_search() {
        for bound in BOUNDS_US {
            for value in [bound - 1, bound, bound + 1] {
                assert_eq!(bucket(value), slow_bucket(value), "{value}");
            }
        }
        for bit in 0..64 {
            for value in [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1] {
                assert_eq!(bucket(value), slow_bucket(value), "{value}");
            }
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn sums_counts_and_merges() {
        let (one, two) = (Histogram::new(), Histogram::new());
        one.record_us(100);
        one.record_us(150);
        two.record_us(70_000_000);
        let mut all = one.snapshot();
        all.merge(&two.snapshot());
        assert_eq!(all.count(), 3);
        assert_eq!(all.sum_us, 70_000_250);
        assert_eq!((all.buckets[0], all.buckets[1], all.buckets[BUCKETS - 1]), (1, 1, 1));
    }

    #[test]
    fn quantiles_name_a_bound() {
        let histogram = Histogram::new();
        assert_eq!(histogram.snapshot().quantile_us(0.5), None);
        for _ in 0..99 {
            histogram.record_us(1_500);
        }
        histogram.record_us(90_000_000);
        let snapshot = histogram.snapshot();
        assert_eq!(snapshot.quantile_us(0.5), Some(2_000));
        assert_eq!(snapshot.quantile_us(0.99), Some(2_000));
        assert_eq!(snapshot.quantile_us(1.0), None);
    }
}
