//! Schedules of periodic tasks: when each runs next. Time is a parameter.

use std::collections::BTreeSet;

use crate::cron::Cron;
use crate::limits::CRON_CHECK_MS;

use super::{Now, Owner};

/// The pause between two checks whether a periodic task still runs that should begin again.
const PERIOD_CHECK_MS: u64 = 1000;

/// When a periodic task runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Period {
    /// Each time so many milliseconds have passed.
    Every(u64),
    Cron(Cron),
}

impl Period {
    /// Returns the next time after `now`: of the steady clock for `Every`, else since 1970.
    fn first_after(self, now: Now) -> u64 {
        match self {
            Period::Every(every_ms) => now.ms.saturating_add(every_ms),
            Period::Cron(cron) => {
                let next_s = cron.next_after(now.wall_ms / 1000);
                next_s.map_or(u64::MAX, |next_s| next_s.saturating_mul(1000))
            }
        }
    }
}

/// The schedule of a periodic task.
#[derive(Debug)]
pub(super) struct Schedule {
    period: Period,
    /// As [`Period::first_after`] returns it.
    due_ms: u64,
    /// The schedule ends when they have left and its job has ended.
    pub(super) owners: BTreeSet<Owner>,
    /// The job that is waiting or running.
    pub(super) job: Option<u64>,
}

impl Schedule {
    pub(super) fn new(period: Period, now: Now) -> Schedule {
        Schedule { period, due_ms: period.first_after(now), owners: BTreeSet::new(), job: None }
    }

    /// Sets the period; another one begins now.
    pub(super) fn set_period(&mut self, period: Period, now: Now) {
        if self.period != period {
            self.period = period;
            self.due_ms = period.first_after(now);
        }
    }

    /// Returns the milliseconds until the next run and, once that is due, since then.
    pub(super) fn distance(&self, now: Now) -> (u64, u64) {
        let now_ms = match self.period {
            Period::Every(_) => now.ms,
            Period::Cron(_) => now.wall_ms,
        };
        (self.due_ms.saturating_sub(now_ms), now_ms.saturating_sub(self.due_ms))
    }

    /// Sets the next time after `now`. Periods that were missed are not made up for.
    pub(super) fn advance(&mut self, now: Now, late_ms: u64) {
        self.due_ms = match self.period {
            Period::Every(every_ms) => {
                let periods = late_ms / every_ms.max(1) + 1;
                self.due_ms.saturating_add(periods.saturating_mul(every_ms))
            }
            // The clock may have been set back since.
            Period::Cron(_) => {
                self.period.first_after(Now { wall_ms: now.wall_ms.max(self.due_ms), ..now })
            }
        };
    }

    /// Returns after how many milliseconds the schedule is to be looked at again.
    pub(super) fn wait_ms(&self, now: Now) -> u64 {
        let (left_ms, _) = self.distance(now);
        match (self.job, self.period) {
            // The end of a run is not announced: the next check is soon.
            (Some(_), _) => left_ms.max(PERIOD_CHECK_MS),
            (None, Period::Cron(_)) => left_ms.min(CRON_CHECK_MS),
            (None, Period::Every(_)) => left_ms,
        }
    }
}
