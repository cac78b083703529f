//! The generic cell rate algorithm, as "virtual scheduling" (ITU-T I.371).
//!
//! The state of a key is one atomic: the time at which its debt is paid back.

use std::sync::atomic::{AtomicU64, Ordering};

use settings::Rate;

use super::RateDecision;
use crate::limit_fields::Remaining;

/// A debt that exceeds the burst by more than this was made under another limit: the cached clocks
/// of workers differ by less.
const CLOCKS_DIFFER_NS: u64 = 1_000_000_000;
/// The most that a request may be late without a loss of rate: what a busy worker is.
const LATE_NS_MAX: u64 = 10_000_000;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Gcra {
    /// The cost of one request.
    interval_ns: u64,
    /// The maximum debt of a key relative to the clock.
    burst_ns: u64,
    /// The lateness of a request that costs no rate. With a burst of one each request is late by
    /// the time since the debt was paid back, which would add up to several per cent; two requests
    /// never pass at once all the same.
    late_ns: u64,
}

impl Gcra {
    pub(crate) fn new(rate: Rate, burst: u32) -> Gcra {
        let interval_ns = (rate.interval().as_nanos() as u64).max(1);
        let late_ns = if burst == 1 { (interval_ns / 10 * 9).min(LATE_NS_MAX) } else { 0 };
        Gcra { interval_ns, burst_ns: interval_ns * u64::from(burst), late_ns }
    }

    /// The debt that a request makes.
    #[inline]
    pub(crate) fn cost_ns(&self, cost: u32) -> u64 {
        self.interval_ns * u64::from(cost)
    }

    /// The maximum debt of a key.
    pub(crate) fn burst_ns(&self) -> u64 {
        self.burst_ns
    }

    /// Takes the cost of a request from a cell.
    #[inline]
    pub(crate) fn take(&self, cell: &AtomicU64, cost: u32, now_ns: u64) -> RateDecision {
        self.take_ns(cell, self.cost_ns(cost), now_ns)
    }

    /// Makes a debt in a cell.
    pub(crate) fn take_ns(&self, cell: &AtomicU64, cost_ns: u64, now_ns: u64) -> RateDecision {
        let mut cell_ns = cell.load(Ordering::Relaxed);
        loop {
            // Under this limit no debt is longer than the burst. The excess is the debt of a lower
            // limit of the same name, before a reload: it is cut to the burst.
            let is_foreign = cell_ns > now_ns + self.burst_ns + CLOCKS_DIFFER_NS;
            let seen = if is_foreign {
                now_ns + self.burst_ns
            } else {
                cell_ns.max(now_ns - self.late_ns.min(now_ns))
            };
            let paid_at = seen + cost_ns;
            let debt = paid_at.saturating_sub(now_ns);
            if debt > self.burst_ns {
                if is_foreign {
                    // If this fails another request has cut it.
                    let _ =
                        cell.compare_exchange(cell_ns, seen, Ordering::Relaxed, Ordering::Relaxed);
                }
                let full_in_s = seconds(seen.saturating_sub(now_ns));
                let remaining = Remaining { requests: 0, full_in_s };
                let wait_s = seconds(debt - self.burst_ns);
                return RateDecision::Refused { remaining, wait_s };
            }
            // Nothing else is published with the cell, so relaxed ordering suffices.
            let (new, order) = (paid_at, Ordering::Relaxed);
            match cell.compare_exchange_weak(cell_ns, new, order, order) {
                Ok(_) => {
                    let requests = ((self.burst_ns - debt) / self.interval_ns) as u32;
                    let full_in_s = seconds(debt);
                    return RateDecision::Allowed(Remaining { requests, full_in_s });
                }
                Err(newer) => cell_ns = newer,
            }
        }
    }

    /// Returns what [`Gcra::take`] has just taken.
    pub(super) fn give_back(&self, cell: &AtomicU64, cost: u32) {
        cell.fetch_sub(self.cost_ns(cost), Ordering::Relaxed);
    }
}

/// Rounded up: a client that waits that long has waited enough.
fn seconds(ns: u64) -> u32 {
    u32::try_from(ns.div_ceil(1_000_000_000)).unwrap_or(u32::MAX)
}
