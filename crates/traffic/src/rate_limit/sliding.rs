//! A sliding window, approximated by two counters.
//!
//! The state of a key is one atomic: the number of the current window, its count, and the count of
//! the window before. The estimate is the current count plus the share of the previous one that
//! the sliding window still covers, as if its requests had come evenly.

use std::sync::atomic::{AtomicU64, Ordering};

use settings::Rate;

use super::RateDecision;
use crate::limit_fields::Remaining;

const COUNT_BITS: u32 = 22;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
/// The numbers of windows repeat after 2^20: with a window of a second, a key that comes back after
/// exactly twelve days has its old counts for a second.
const NUMBER_MASK: u64 = (1 << (64 - 2 * COUNT_BITS)) - 1;

/// The highest limit.
pub(super) const LIMIT_MAX: u32 = 4_000_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct SlidingWindow {
    limit: u64,
    window_us: u64,
}

/// The counts of a key at a time.
#[derive(Clone, Copy, Debug)]
struct Counts {
    number: u64,
    previous: u64,
    current: u64,
    /// The time since the window began.
    elapsed_us: u64,
}

impl Counts {
    fn pack(self) -> u64 {
        self.number << (2 * COUNT_BITS) | self.previous << COUNT_BITS | self.current
    }
}

impl SlidingWindow {
    pub(super) fn new(rate: Rate) -> SlidingWindow {
        // Settings reject a higher limit; that of a consumer may be any.
        let limit = u64::from(rate.count.min(LIMIT_MAX));
        SlidingWindow { limit, window_us: rate.per.secs() * 1_000_000 }
    }

    fn counts(&self, word: u64, now_us: u64) -> Counts {
        let (number, elapsed_us) =
            ((now_us / self.window_us) & NUMBER_MASK, now_us % self.window_us);
        let seen = word >> (2 * COUNT_BITS);
        let (previous, current) = ((word >> COUNT_BITS) & COUNT_MASK, word & COUNT_MASK);
        match number.wrapping_sub(seen) & NUMBER_MASK {
            0 => Counts { number, previous, current, elapsed_us },
            1 => Counts { number, previous: current, current: 0, elapsed_us },
            // The cached clock of this worker is older than that of another one.
            NUMBER_MASK => Counts { number: seen, previous, current, elapsed_us: 0 },
            _ => Counts { number, previous: 0, current: 0, elapsed_us },
        }
    }

    /// Takes the cost of a request from a cell.
    pub(super) fn take(&self, cell: &AtomicU64, cost: u32, now_us: u64) -> RateDecision {
        let cost = u64::from(cost);
        let mut word = cell.load(Ordering::Relaxed);
        loop {
            let counts = self.counts(word, now_us);
            let rest_us = self.window_us - counts.elapsed_us;
            // Rounded down, so that a limit of one is not halved by what remains of the one before.
            let used = counts.current + counts.previous * rest_us / self.window_us;
            if cost > 0 && used + cost > self.limit {
                let remaining = Remaining { requests: 0, full_in_s: self.full_in_s(counts) };
                return RateDecision::Refused { remaining, wait_s: self.wait_s(counts, cost) };
            }
            let new = Counts { current: counts.current + cost, ..counts };
            let order = Ordering::Relaxed;
            match cell.compare_exchange_weak(word, new.pack(), order, order) {
                Ok(_) => {
                    let requests = self.limit.saturating_sub(used + cost) as u32;
                    let full_in_s = self.full_in_s(new);
                    return RateDecision::Allowed(Remaining { requests, full_in_s });
                }
                Err(newer) => word = newer,
            }
        }
    }

    /// Returns what [`SlidingWindow::take`] has just taken.
    pub(super) fn give_back(&self, cell: &AtomicU64, cost: u32, now_us: u64) {
        let cost = u64::from(cost);
        let order = Ordering::Relaxed;
        // An error is impossible: the closure always returns a new word.
        let _ = cell.fetch_update(order, order, |word| {
            let counts = self.counts(word, now_us);
            let current = counts.current.saturating_sub(cost);
            let previous = counts.previous.saturating_sub(cost - (counts.current - current));
            Some(Counts { previous, current, ..counts }.pack())
        });
    }

    /// The time until no request of the past counts.
    fn full_in_s(&self, counts: Counts) -> u32 {
        let rest_us = self.window_us - counts.elapsed_us;
        seconds(match counts {
            Counts { current: 1.., .. } => rest_us + self.window_us,
            Counts { previous: 1.., .. } => rest_us,
            _ => 0,
        })
    }

    /// The time until a rejected request of this cost would be allowed.
    fn wait_s(&self, counts: Counts, cost: u64) -> u32 {
        let rest_us = self.window_us - counts.elapsed_us;
        let of_current = self.limit.checked_sub(counts.current + cost);
        let wait_us = match of_current {
            Some(room) => self.decayed_us(counts.previous, room).saturating_sub(counts.elapsed_us),
            None => rest_us + self.decayed_us(counts.current, self.limit.saturating_sub(cost)),
        };
        seconds(wait_us).max(1)
    }

    /// When in a window the count of the one before takes no more than `room`.
    fn decayed_us(&self, previous: u64, room: u64) -> u64 {
        match previous {
            0 => 0,
            _ => (self.window_us + 1).saturating_sub((room + 1) * self.window_us / previous),
        }
    }
}

fn seconds(us: u64) -> u32 {
    u32::try_from(us.div_ceil(1_000_000)).unwrap_or(u32::MAX)
}
