//! The send times of an open loop.
//!
//! Owns the times and the timer for them. Promises one request every 1/rate seconds over all
//! threads in turn; a late request does not move later ones. Independent of protocols.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use super::system::Timer;

/// Interval of the checks of time-outs, retries and phases.
pub(super) const TICK: Duration = Duration::from_millis(10);
pub(super) const TICK_NS: u64 = TICK.as_nanos() as u64;

/// The schedule of one thread.
#[derive(Debug)]
pub(super) struct Schedule {
    between_ns: f64,
    /// The number of this thread's first request, in the order of all threads.
    first: u64,
    threads: u64,
    pub(super) sent: u64,
    /// When the timer expires.
    armed_ns: u64,
    /// Connections that are free, in the order in which they became free.
    pub(super) free: VecDeque<usize>,
}

impl Schedule {
    /// Creates the schedule of one of `threads` threads; `rate` is the rate of all together.
    pub(super) fn new(rate: f64, index: usize, threads: usize, connections: usize) -> Self {
        Self {
            between_ns: 1e9 / rate,
            first: index as u64,
            threads: threads as u64,
            sent: 0,
            armed_ns: 0,
            free: VecDeque::with_capacity(connections),
        }
    }

    /// Returns how many requests that were due between two times were not sent.
    pub(super) fn unsent(&self, go_ns: u64, begin_ns: u64, end_ns: u64) -> u64 {
        let due_before = |at_ns: u64| {
            let numbers = (at_ns.saturating_sub(go_ns) as f64 / self.between_ns).ceil() as u64;
            numbers.saturating_sub(self.first).div_ceil(self.threads)
        };
        due_before(end_ns).saturating_sub(due_before(begin_ns).max(self.sent))
    }

    /// When the next request is due.
    pub(super) fn due_ns(&self, go_ns: u64) -> u64 {
        let number = self.first + self.sent * self.threads;
        go_ns.saturating_add((number as f64 * self.between_ns) as u64)
    }

    /// Makes the timer expire at `next_ns`, or with the next tick if that is sooner.
    pub(super) fn arm(&mut self, timer: &Timer, now_ns: u64, next_ns: u64) -> io::Result<()> {
        let at_ns = next_ns.min(now_ns + TICK_NS);
        if self.armed_ns > now_ns && self.armed_ns <= at_ns {
            return Ok(());
        }
        self.armed_ns = at_ns;
        timer.set(Duration::from_nanos(at_ns.saturating_sub(now_ns)), TICK)
    }
}

#[cfg(test)]
mod tests {
    use super::Schedule;

    #[test]
    fn threads_take_turns() {
        let mut schedules: Vec<_> =
            (0..3).map(|index| Schedule::new(1000.0, index, 3, 1)).collect();
        let mut due_ms = Vec::new();
        for round in 0..2 {
            for schedule in &mut schedules {
                schedule.sent = round;
                due_ms.push(schedule.due_ns(5_000_000) / 1_000_000);
            }
        }
        assert_eq!(due_ms, [5, 6, 7, 8, 9, 10]);
    }

    #[test]
    fn what_was_due_and_not_sent_is_counted() {
        // Due at 0, 2, 4, 6, 8 ms after 10 ms, for the first of two threads.
        let mut schedule = Schedule::new(1000.0, 0, 2, 1);
        let unsent = |schedule: &Schedule, from: u64, to: u64| {
            schedule.unsent(10_000_000, from * 1_000_000, to * 1_000_000)
        };
        assert_eq!(unsent(&schedule, 10, 20), 5);
        assert_eq!(unsent(&schedule, 12, 18), 3);
        assert_eq!(unsent(&schedule, 0, 10), 0);
        schedule.sent = 2;
        assert_eq!(unsent(&schedule, 10, 20), 3);
        assert_eq!(unsent(&schedule, 16, 20), 2);
        schedule.sent = 9;
        assert_eq!(unsent(&schedule, 10, 20), 0);
        let second = Schedule::new(1000.0, 1, 2, 1);
        assert_eq!(unsent(&second, 10, 20), 5);
        assert_eq!(unsent(&second, 10, 11), 0);
    }
}
