//! The watcher of the thread pool: starts or wakes another thread when the awake ones block.
//!
//! The threads' CPU clocks distinguish blocking from computing: a waiting request gets another
//! thread only while the running threads neither use nor want a processor, for then the GIL is
//! free. An application that computes stays with one thread. Promises to cost nothing while no call
//! runs, and that a batched response does not wait for a slow call.

use std::sync::Arc;
use std::time::Duration;

use super::limits::{
    CHECK_INTERVAL, LONG_CALL_CHECK_INTERVAL, LONG_CALL_US, RELAXED_CHECK_INTERVAL,
};
use super::pool_thread::PoolThread;
use super::thread_pool::ThreadPool;
use crate::app_status::AppStatus;

/// Watches `pool` until the process stops. `start` starts another thread if the limit allows.
pub(super) fn watch(status: &AppStatus, pool: &ThreadPool, start: impl Fn()) {
    pool.set_watcher(std::thread::current());
    let mut watcher = Watcher::default();
    loop {
        match watcher.check(status, pool, &start) {
            NextCheck::After(interval) => std::thread::park_timeout(interval),
            NextCheck::WhenWoken(timeout) => {
                watcher.sample = None;
                sleep(status, pool, timeout);
            }
        }
        if status.is_stopping() {
            pool.wake_all();
            return;
        }
    }
}

/// Sleeps until a request arrives or a call begins.
fn sleep(status: &AppStatus, pool: &ThreadPool, timeout: Option<Duration>) {
    pool.set_watcher_asleep(true);
    if !status.queue().sleep() {
        pool.set_watcher_asleep(false);
        // A request that has just arrived may have woken no thread.
        pool.wake_one();
        return;
    }
    while pool.is_watcher_asleep() && !status.is_stopping() {
        match timeout {
            None => std::thread::park(),
            Some(timeout) => {
                std::thread::park_timeout(timeout);
                pool.set_watcher_asleep(false);
            }
        }
    }
    status.queue().acknowledge();
}

enum NextCheck {
    After(Duration),
    /// Or after the time-out.
    WhenWoken(Option<Duration>),
}

#[derive(Default)]
struct Watcher {
    /// The number of requests taken when it last changed, and the time of that.
    taken: (u64, u64),
    /// The CPU time of all threads, and when it was read.
    sample: Option<(u64, u64)>,
}

impl Watcher {
    fn check(&mut self, status: &AppStatus, pool: &ThreadPool, start: &impl Fn()) -> NextCheck {
        // The watcher counts as a reader of the queue: this check acknowledges its alarm.
        status.queue().acknowledge();
        let now_us = net::clock::precise_us();
        let interval_us = CHECK_INTERVAL.as_micros() as u64;
        let mut busy: Vec<Arc<PoolThread>> = Vec::new();
        pool.for_each(|thread| {
            if thread.progress_us().is_some() {
                busy.push(thread.clone());
            }
        });
        let oldest_us = busy.iter().filter_map(|thread| thread.progress_us()).min();
        let mut is_slow = false;
        for thread in &busy {
            if thread.progress_us().is_some_and(|at| now_us.saturating_sub(at) > interval_us) {
                is_slow = true;
                thread.flush_wakes();
            }
        }
        let waiting = status.queue().waiting();
        let taken = status.metrics.requests.get();
        if waiting == 0 || taken != self.taken.0 {
            self.taken = (taken, now_us);
        }
        let untaken_us = if waiting == 0 { 0 } else { self.taken.1 };
        status.set_blocked(oldest_us.unwrap_or(0), untaken_us);
        if waiting == 0 {
            self.sample = None;
            let newest_us = busy.iter().filter_map(|thread| thread.progress_us()).max();
            return match newest_us {
                None => NextCheck::WhenWoken(None),
                Some(at) if now_us.saturating_sub(at) > LONG_CALL_US => {
                    NextCheck::WhenWoken(Some(LONG_CALL_CHECK_INTERVAL))
                }
                Some(_) if is_slow => NextCheck::After(CHECK_INTERVAL),
                Some(_) => NextCheck::After(RELAXED_CHECK_INTERVAL),
            };
        }
        let starves =
            pool.last_wait_us() > interval_us || now_us.saturating_sub(self.taken.1) > interval_us;
        let blocks = starves && self.blocks(pool, now_us);
        // Without a running call, a woken thread has not begun yet, or all wait for their clients.
        let wants_thread = blocks || starves && busy.is_empty();
        if wants_thread && !pool.wake_one() && blocks {
            start();
        }
        let is_urgent = is_slow || starves;
        NextCheck::After(if is_urgent { CHECK_INTERVAL } else { RELAXED_CHECK_INTERVAL })
    }

    /// True if the threads have used little processor time since the last check and want none.
    fn blocks(&mut self, pool: &ThreadPool, now_us: u64) -> bool {
        let mut threads: Vec<Arc<PoolThread>> = Vec::new();
        pool.for_each(|thread| threads.push(thread.clone()));
        let used_ns: u64 = threads.iter().filter_map(|thread| thread.cpu_ns()).sum();
        let before = self.sample.replace((used_ns, now_us));
        let Some((used_before_ns, at_us)) = before else { return false };
        let span_us = now_us.saturating_sub(at_us);
        let used_us = used_ns.saturating_sub(used_before_ns) / 1000;
        used_us * 2 < span_us && !threads.iter().any(|thread| thread.is_runnable())
    }
}
