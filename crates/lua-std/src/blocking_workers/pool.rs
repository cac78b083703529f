//! The threads of `hive`: started when there is work, ended when there was none for a while.

use std::collections::VecDeque;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

type Job = Box<dyn FnOnce() + Send>;

struct PoolState {
    /// At most one for each worker.
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    min: usize,
    max: usize,
    /// Idle threads that are to end.
    excess: usize,
    is_closed: bool,
}

struct Shared {
    state: Mutex<PoolState>,
    changed: Condvar,
    idle: Duration,
}

/// A pool of threads; dropping it ends them, each with the job that it runs.
pub(super) struct ThreadPool(Arc<Shared>);

impl ThreadPool {
    pub(super) fn new(min: usize, max: usize, idle_ms: u64) -> ThreadPool {
        let state = PoolState {
            jobs: VecDeque::new(),
            threads: 0,
            idle: 0,
            min,
            max,
            excess: 0,
            is_closed: false,
        };
        let idle = Duration::from_millis(idle_ms);
        ThreadPool(Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), idle }))
    }

    /// Runs a job on a thread, as soon as there is one.
    pub(super) fn run(&self, job: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut state = self.0.lock();
        if state.jobs.len() >= state.idle && state.threads < state.max {
            let shared = self.0.clone();
            let started = thread::Builder::new().name("hive".to_owned()).spawn(move || {
                shared.work();
            });
            match started {
                Ok(_) => state.threads += 1,
                Err(why) if state.threads == 0 => return Err(why),
                // Another thread takes it later.
                Err(_) => {}
            }
        }
        state.jobs.push_back(Box::new(job));
        self.0.changed.notify_one();
        Ok(())
    }

    pub(super) fn threads(&self) -> usize {
        self.0.lock().threads
    }

    pub(super) fn limit(&self, min: usize, max: usize) {
        let mut state = self.0.lock();
        (state.min, state.max) = (min, max);
    }

    /// Ends the idle threads beyond the minimum.
    pub(super) fn prune(&self) {
        self.0.lock().prune();
        self.0.changed.notify_all();
    }
}

impl PoolState {
    /// Marks idle threads beyond the minimum as ended. Threads that were marked before may not have
    /// woken yet.
    fn prune(&mut self) {
        let excess = self.threads.saturating_sub(self.min).min(self.idle);
        self.excess += excess;
        self.threads -= excess;
        self.idle -= excess;
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.0.lock().is_closed = true;
        self.0.changed.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs jobs until the thread is to end.
    fn work(&self) {
        while let Some(job) = self.next_job() {
            // Other jobs may wait for this thread. A job owns all that it changes.
            let _ = panic::catch_unwind(AssertUnwindSafe(job));
        }
    }

    fn next_job(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.is_closed {
                return None;
            }
            state.idle += 1;
            let (woken, waited) =
                self.changed.wait_timeout(state, self.idle).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if state.excess > 0 {
                // `prune` has counted this thread as ended.
                state.excess -= 1;
                return None;
            }
            state.idle -= 1;
            if waited.timed_out() && state.jobs.is_empty() && state.threads > state.min {
                state.threads -= 1;
                return None;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::ThreadPool;

    fn eventually(condition: impl Fn() -> bool) {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !condition() {
            assert!(std::time::Instant::now() < deadline, "it does not happen");
            std::thread::yield_now();
        }
    }

    #[test]
    fn threads_are_limited_and_end_when_they_have_nothing_to_do() {
        let pool = ThreadPool::new(1, 3, 60_000);
        let (open, gate) = mpsc::channel::<()>();
        let gate = std::sync::Arc::new(std::sync::Mutex::new(gate));
        let (done, ended) = mpsc::channel();
        for _ in 0..8 {
            let (gate, done) = (gate.clone(), done.clone());
            pool.run(move || {
                gate.lock().unwrap().recv().unwrap();
                done.send(()).unwrap();
            })
            .unwrap();
        }
        assert_eq!(pool.threads(), 3);
        // Nothing is idle, so nothing is pruned.
        pool.prune();
        assert_eq!(pool.threads(), 3);
        for _ in 0..8 {
            open.send(()).unwrap();
            ended.recv().unwrap();
        }
        eventually(|| {
            pool.prune();
            pool.threads() == 1
        });
        pool.run(move || done.send(()).unwrap()).unwrap();
        ended.recv().unwrap();
    }

    #[test]
    fn threads_that_are_pruned_twice_before_they_wake_all_end() {
        let pool = ThreadPool::new(0, 2, 60_000);
        let together = std::sync::Arc::new(std::sync::Barrier::new(2));
        for _ in 0..2 {
            let together = together.clone();
            pool.run(move || _ = together.wait()).unwrap();
        }
        eventually(|| pool.0.lock().idle == 2);
        {
            let mut state = pool.0.lock();
            state.prune();
            state.prune();
            assert_eq!((state.threads, state.idle, state.excess), (0, 0, 2));
        }
        pool.0.changed.notify_all();
        eventually(|| pool.0.lock().excess == 0);
        assert_eq!(pool.0.lock().idle, 0);
    }

    #[test]
    fn a_job_that_waits_runs_although_the_one_before_panics() {
        let pool = ThreadPool::new(0, 1, 1);
        let (open, gate) = mpsc::channel::<()>();
        let (done, ended) = mpsc::channel();
        pool.run(move || {
            gate.recv().unwrap();
            panic!("a bug")
        })
        .unwrap();
        pool.run(move || done.send(()).unwrap()).unwrap();
        open.send(()).unwrap();
        ended.recv().unwrap();
        // Time ends the thread.
        eventually(|| pool.threads() == 0);
    }
}
