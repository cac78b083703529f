//! Looks after the crew: starts or wakes another thread when those that are awake block.
//!
//! Blocking is told from computing by the threads' own clocks: what waits gets another thread only
//! while those that run do not use a processor and would not if there were one, for then the GIL is
//! free. An application that computes stays with one thread. Promises to cost nothing while nothing
//! runs, and that an answer which a thread keeps back does not wait behind a slow call.

use std::sync::Arc;
use std::time::Duration;

use super::crew::Crew;
use super::limits::{LONG_CALL_US, LOOK, LOOK_AT_EASE, LOOK_AT_LONG_CALLS};
use super::seat::Seat;
use crate::life::Life;

/// Looks after `crew` until the process ends. `start` starts another thread, if it may.
pub(super) fn watch(life: &Life, crew: &Crew, start: impl Fn()) {
    crew.set_watcher(std::thread::current());
    let mut watch = Watch::default();
    loop {
        match watch.look(life, crew, &start) {
            Next::Look(within) => std::thread::park_timeout(within),
            Next::Sleep(most) => {
                watch.sample = None;
                sleep(life, crew, most);
            }
        }
        if life.is_stopping() {
            crew.wake_all();
            return;
        }
    }
}

/// Sleeps until something arrives or begins.
fn sleep(life: &Life, crew: &Crew, most: Option<Duration>) {
    crew.leave_unwatched();
    if !life.desk().sleep() {
        crew.stay_watched();
        // What arrived meanwhile may have nobody who looks.
        crew.wake_one();
        return;
    }
    while !crew.is_watched() && !life.is_stopping() {
        match most {
            None => std::thread::park(),
            Some(most) => {
                std::thread::park_timeout(most);
                crew.stay_watched();
            }
        }
    }
    life.desk().heard();
}

enum Next {
    Look(Duration),
    /// For so long at most.
    Sleep(Option<Duration>),
}

#[derive(Default)]
struct Watch {
    /// How many had been taken when that number last changed, and when.
    taken: (u64, u64),
    /// What the threads had used of processors, and when.
    sample: Option<(u64, u64)>,
}

impl Watch {
    fn look(&mut self, life: &Life, crew: &Crew, start: &impl Fn()) -> Next {
        // Whoever was alarmed while nobody slept need not be waited for: we look.
        life.desk().heard();
        let now_us = net::clock::precise_us();
        let look_us = LOOK.as_micros() as u64;
        let mut busy: Vec<Arc<Seat>> = Vec::new();
        crew.each(|seat| {
            if seat.since_us().is_some() {
                busy.push(seat.clone());
            }
        });
        let oldest_us = busy.iter().filter_map(|seat| seat.since_us()).min();
        let mut is_slow = false;
        for seat in &busy {
            if seat.since_us().is_some_and(|since| now_us.saturating_sub(since) > look_us) {
                is_slow = true;
                seat.flush();
            }
        }
        let waiting = life.desk().waiting();
        let taken = life.numbers.requests.get();
        if waiting == 0 || taken != self.taken.0 {
            self.taken = (taken, now_us);
        }
        let untaken_us = if waiting == 0 { 0 } else { self.taken.1 };
        life.set_blocked(oldest_us.unwrap_or(0), untaken_us);
        if waiting == 0 {
            self.sample = None;
            let newest_us = busy.iter().filter_map(|seat| seat.since_us()).max();
            return match newest_us {
                None => Next::Sleep(None),
                Some(since) if now_us.saturating_sub(since) > LONG_CALL_US => {
                    Next::Sleep(Some(LOOK_AT_LONG_CALLS))
                }
                Some(_) => Next::Look(if is_slow { LOOK } else { LOOK_AT_EASE }),
            };
        }
        let starves = crew.waited_us() > look_us || now_us.saturating_sub(self.taken.1) > look_us;
        let blocks = starves && self.blocks(crew, now_us);
        // Where nothing runs, whoever was woken has not begun yet, or all wait for their clients.
        let wants_one = blocks || starves && busy.is_empty();
        if wants_one && !crew.wake_one() && blocks {
            start();
        }
        Next::Look(if is_slow || starves { LOOK } else { LOOK_AT_EASE })
    }

    /// Whether the threads have not used much of a processor since the last look, and do not want
    /// one.
    fn blocks(&mut self, crew: &Crew, now_us: u64) -> bool {
        let mut seats: Vec<Arc<Seat>> = Vec::new();
        crew.each(|seat| seats.push(seat.clone()));
        let used_ns: u64 = seats.iter().filter_map(|seat| seat.processor_ns()).sum();
        let before = self.sample.replace((used_ns, now_us));
        let Some((used_before_ns, at_us)) = before else { return false };
        let span_us = now_us.saturating_sub(at_us);
        let used_us = used_ns.saturating_sub(used_before_ns) / 1000;
        used_us * 2 < span_us && !seats.iter().any(|seat| seat.is_runnable())
    }
}
